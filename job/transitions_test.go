package job_test

// The rules of transitions that the vectors do not speak of: what a release and a
// return cost, the history, dependencies, and the limits of what is stored.

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weft-fabric/weft/job"
)

func TestReleaseCostsNoAttempt(t *testing.T) {
	t.Parallel()
	j := inState(t, job.StateLeased)
	token := j.Token()
	for _, now := range []time.Time{at(1), at(30), at(9000)} { // in time, just late, late
		released := must(t)(j.Release(token, "rn_a", now))
		if released.State != job.StateWaiting || released.Attempt != 0 || released.Fence != 1 || released.AvailableAt != now {
			t.Errorf("released at %s: %#v", now, released)
		}
		if _, err := released.Release(token, "rn_a", now); err == nil {
			t.Error("a released job was released again by the same token")
		}
	}
}

func TestReturnIsChargedAfterTenInARow(t *testing.T) {
	t.Parallel()
	j := mustNew(t, plainSpec())
	var token job.Token
	for round := range 2 {
		for i := range job.FreeReturns {
			if j.Returns() != i {
				t.Fatalf("round %d: %d returns counted, want %d", round, j.Returns(), i)
			}
			j, token = mustClaim(t, j, "rn_a", j.AvailableAt)
			j = must(t)(j.Return(token, "rn_a", "not ready", j.UpdatedAt, time.Minute))
			if j.State != job.StateWaiting || j.Attempt != int64(round) || j.Reason != "" {
				t.Fatalf("round %d: return %d was not free: %#v", round, i+1, j)
			}
			if want := j.UpdatedAt.Add(time.Minute); j.AvailableAt != want {
				t.Fatalf("available at %s, want %s", j.AvailableAt, want)
			}
		}
		j, token = mustClaim(t, j, "rn_a", j.AvailableAt)
		j = must(t)(j.Return(token, "rn_a", "not ready", j.UpdatedAt, time.Minute))
		if j.State != job.StateRetryWaiting || j.Attempt != int64(round)+1 || j.Reason != "not ready" {
			t.Fatalf("round %d: the return after %d was free: %#v", round, job.FreeReturns, j)
		}
	}
}

func TestAnyOtherEndBreaksTheRowOfReturns(t *testing.T) {
	t.Parallel()
	j := mustNew(t, plainSpec())
	var token job.Token
	for range job.FreeReturns {
		j, token = mustClaim(t, j, "rn_a", j.AvailableAt)
		j = must(t)(j.Return(token, "rn_a", "not ready", j.UpdatedAt, 0))
	}
	j, token = mustClaim(t, j, "rn_a", j.AvailableAt)
	if j.Returns() != job.FreeReturns {
		t.Fatalf("%d returns counted while the next attempt runs", j.Returns())
	}
	j = must(t)(j.Release(token, "rn_a", j.UpdatedAt))
	if j.Returns() != 0 {
		t.Errorf("%d returns counted after a release", j.Returns())
	}
}

func TestReturnAndReleaseRefusals(t *testing.T) {
	t.Parallel()
	j := inState(t, job.StateLeased)
	good := j.Token()
	stale := good
	stale.Fence--
	tests := []struct {
		rule   string
		token  job.Token
		worker string
		delay  time.Duration
		want   job.Code
	}{
		{"the holder may return", good, "rn_a", 0, ""},
		{"an old token is stale", stale, "rn_a", 0, job.CodeStaleLease},
		{"another worker's token is stale", good, "rn_b", 0, job.CodeStaleLease},
		{"the zero token is stale", job.Token{}, "", 0, job.CodeStaleLease},
		{"a delay below zero is invalid", good, "rn_a", -1, job.CodeInvalidJob},
		{"stale comes before invalid", stale, "rn_a", -1, job.CodeStaleLease},
	}
	for _, tt := range tests {
		t.Run(tt.rule, func(t *testing.T) {
			t.Parallel()
			for _, now := range []time.Time{at(0), at(30)} { // a lease that ran out is forgiven
				_, err := j.Return(tt.token, tt.worker, "why", now, tt.delay)
				wantCode(t, err, tt.want)
				if tt.want != job.CodeInvalidJob {
					_, err = j.Release(tt.token, tt.worker, now)
					wantCode(t, err, tt.want)
				}
			}
		})
	}
}

func TestRenewMakesTheOldTokenStale(t *testing.T) {
	t.Parallel()
	j := inState(t, job.StateLeased)
	old := j.Token()
	renewed, token, err := j.Renew(old, "rn_a", at(10), lease)
	if err != nil {
		t.Fatal(err)
	}
	if token != renewed.Token() || token.ExpiresAt != at(40) || token.Fence != old.Fence {
		t.Errorf("renewed token is %+v", token)
	}
	_, err = renewed.Complete(old, "rn_a", "s3://out/1", at(11))
	wantCode(t, err, job.CodeStaleLease)
	_, err = renewed.Complete(token, "rn_a", "s3://out/1", at(39))
	wantCode(t, err, "")
}

func TestDependencyMetOnlyShrinksTheList(t *testing.T) {
	t.Parallel()
	j := mustNew(t, specWith(func(s *job.Spec) { s.Dependencies = []string{"a", "b", "c"} }))
	for _, step := range []struct {
		id      string
		changed bool
		left    []string
	}{{"b", true, []string{"a", "c"}}, {"b", false, []string{"a", "c"}}, {"x", false, []string{"a", "c"}}, {"a", true, []string{"c"}}, {"c", true, nil}} {
		watched, untouched := watch(j)
		next, changed := watched.DependencyMet(step.id, at(1))
		if changed != step.changed || !slices.Equal(next.WaitingOn, step.left) {
			t.Errorf("met %s: changed %t, left %v; want %t, %v", step.id, changed, next.WaitingOn, step.changed, step.left)
		}
		if !untouched() {
			t.Errorf("met %s: the job before was changed", step.id)
		}
		j = next
	}
	if len(j.Dependencies) != 3 {
		t.Errorf("the dependencies themselves are %v", j.Dependencies)
	}
	cancelled := must(t)(mustNew(t, specWith(func(s *job.Spec) { s.Dependencies = []string{"a"} })).Cancel(0, "why", at(1)))
	if _, changed := cancelled.DependencyMet("a", at(2)); changed || len(cancelled.WaitingOn) != 0 {
		t.Error("a cancelled job still waits on a dependency")
	}
}

func TestHistoryKeepsTheLastTenAndTheOneThatRuns(t *testing.T) {
	t.Parallel()
	j := mustNew(t, specWith(func(s *job.Spec) { s.MaxAttempts = 100 }))
	for i := range 25 {
		var token job.Token
		j, token = mustClaim(t, j, "rn_a", j.UpdatedAt.Add(time.Minute))
		if got, want := len(j.AttemptsLog), min(i, 10)+1; got != want {
			t.Fatalf("claim %d: %d lines, want %d", i+1, got, want)
		}
		j = must(t)(j.Fail(token, "rn_a", fmt.Sprintf("error %d", i), j.UpdatedAt, 0))
		if got, want := len(j.AttemptsLog), min(i+1, 10); got != want {
			t.Fatalf("failure %d: %d lines, want %d", i+1, got, want)
		}
	}
	first, last := j.AttemptsLog[0], j.AttemptsLog[9]
	if first.Number != 16 || first.Reason != "error 15" || last.Number != 25 || last.Reason != "error 24" {
		t.Errorf("the history goes from %+v to %+v", first, last)
	}
}

func TestHistoryKeepsTheEndOfALongReason(t *testing.T) {
	t.Parallel()
	for _, size := range []int{600, 5000} {
		j := inState(t, job.StateLeased)
		j = must(t)(j.Fail(j.Token(), "rn_a", strings.Repeat("x", size)+"panic", at(1), 0))
		reason := j.AttemptsLog[0].Reason
		if len(reason) != 512 || !strings.HasPrefix(reason, "... ") || !strings.HasSuffix(reason, "panic") {
			t.Errorf("a reason of %d bytes became %d bytes %.20q...", size, len(reason), reason)
		}
	}
}

func TestTakeoverEndsTheAttemptBefore(t *testing.T) {
	t.Parallel()
	j := inState(t, job.StateLeased)
	_, _, err := j.Claim("rn_b", at(29), lease)
	wantCode(t, err, job.CodeLeaseHeld)
	j, token := mustClaim(t, j, "rn_b", at(30))
	want := []job.Attempt{
		{Number: 1, Fence: 1, Worker: "rn_a", Started: t0, Ended: at(30), Outcome: job.AttemptExpired, Reason: "worker lease expired"},
		{Number: 2, Fence: 2, Worker: "rn_b", Started: at(30)},
	}
	if !slices.Equal(j.AttemptsLog, want) || token.Fence != 2 {
		t.Errorf("history %+v,\nwant %+v", j.AttemptsLog, want)
	}
}

func TestRetryAtTheHighestLimitDoesNotOverflow(t *testing.T) {
	t.Parallel()
	j := mustNew(t, specWith(func(s *job.Spec) { s.MaxAttempts = math.MaxInt64 }))
	j, token := mustClaim(t, j, "rn_a", t0)
	j = must(t)(j.FailPermanently(token, "rn_a", "bad input", at(1)))
	j = must(t)(j.Retry(j.Fence, "fixed", at(2)))
	if j.MaxAttempts != math.MaxInt64 {
		t.Errorf("max_attempts is %d", j.MaxAttempts)
	}
	mustClaim(t, j, "rn_a", at(3))
}

func TestCompleteRefusesAReferenceThatCannotBeStored(t *testing.T) {
	t.Parallel()
	j := inState(t, job.StateLeased)
	tests := []struct{ rule, ref, want string }{
		{"the longest", strings.Repeat("x", job.MaxOutputRefSize-2), ""}, // and two quotes
		{"too long", strings.Repeat("x", job.MaxOutputRefSize-1), "output_ref of 28671 bytes is too long; store the output and name it"},
		{"too long in JSON", strings.Repeat("\x01", 5000), "output_ref of 5000 bytes is too long; store the output and name it"},
		{"not UTF-8", "s3://\xff", `output_ref "s3://\xff" is not valid UTF-8`},
		{"empty", "", "output_ref must not be empty"},
	}
	for _, tt := range tests {
		t.Run(tt.rule, func(t *testing.T) {
			t.Parallel()
			_, err := j.Complete(j.Token(), "rn_a", tt.ref, at(1))
			wantInvalid(t, err, tt.want)
		})
	}
}

func TestNoTransitionTouchesItsReceiver(t *testing.T) {
	t.Parallel()
	j := mustNew(t, specWith(func(s *job.Spec) { s.Dependencies, s.MaxAttempts = []string{"a"}, 50 }))
	for range 12 { // a full history
		next, token := mustClaim(t, j, "rn_a", t0)
		j = must(t)(next.Fail(token, "rn_a", "boom", t0, 0))
	}
	j, _ = mustClaim(t, j, "rn_a", t0)
	leased, untouched := watch(j)
	token := leased.Token()
	transitions := map[string]func() (job.Job, error){
		"claim":         func() (job.Job, error) { next, _, err := leased.Claim("rn_b", at(30), lease); return next, err },
		"renew":         func() (job.Job, error) { next, _, err := leased.Renew(token, "rn_a", at(1), lease); return next, err },
		"complete":      func() (job.Job, error) { return leased.Complete(token, "rn_a", "s3://out/1", at(1)) },
		"fail":          func() (job.Job, error) { return leased.Fail(token, "rn_a", "boom", at(1), 0) },
		"fail for good": func() (job.Job, error) { return leased.FailPermanently(token, "rn_a", "boom", at(1)) },
		"release":       func() (job.Job, error) { return leased.Release(token, "rn_a", at(1)) },
		"return":        func() (job.Job, error) { return leased.Return(token, "rn_a", "boom", at(1), 0) },
		"expire":        func() (job.Job, error) { return leased.Expire(leased.Fence, at(30)) },
		"cancel":        func() (job.Job, error) { return leased.Cancel(leased.Fence, "boom", at(1)) },
	}
	for name, transition := range transitions {
		next := must(t)(transition())
		if next.State.Idle() {
			mustClaim(t, next, "rn_c", at(60)) // what follows does not reach back either
		}
		if !untouched() {
			t.Errorf("%s changed the job it was called on", name)
		}
	}
}

func TestOnlyALeasedJobHasAToken(t *testing.T) {
	t.Parallel()
	for _, state := range job.States() {
		j := inState(t, state)
		if got, want := j.Token() != (job.Token{}), state == job.StateLeased; got != want {
			t.Errorf("%s: has a token %t, want %t", state, got, want)
		}
	}
}

func TestRejectedJobEndsInSight(t *testing.T) {
	t.Parallel()
	j := job.Rejected("jb_1", "build", strings.Repeat("x", 5000)+"\xff", t0)
	if j.State != job.StateFailed || j.Attempt != 0 || j.Fence != 0 || j.FinishedAt != t0 || j.CreatedAt != t0 {
		t.Errorf("rejected as %#v", j)
	}
	if len(j.Reason) > job.MaxReasonSize || !strings.HasSuffix(j.Reason, "x\uFFFD") {
		t.Errorf("the reason has %d bytes and ends in %q", len(j.Reason), j.Reason[len(j.Reason)-4:])
	}
	checkReadBack(t, j)
}

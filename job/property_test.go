package job_test

// A job's life under random hands: workers that come late, tokens from long ago,
// clocks that differ, operators and the keeper in between. After every step the
// rules that the package promises are checked: fence and attempt never go back,
// an ended job stays ended, two tokens are never valid at once, the history is
// the last ten ends, the receiver is untouched and the record can be read back.

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weft-fabric/weft/job"
)

// life is one job, everything that was ever handed out for it, and what its
// history must be.
type life struct {
	j      job.Job
	now    time.Time
	tokens []job.Token
	ended  []job.Attempt // every attempt that ended, the first first
}

func TestLifeOfAJob(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		spec := plainSpec()
		spec.MaxAttempts = rapid.Int64Range(1, 6).Draw(t, "max attempts")
		spec.Dependencies = rapid.SampledFrom([][]string{nil, {"a"}, {"a", "b"}}).Draw(t, "dependencies")
		l := &life{j: mustNew(t, spec), now: t0, tokens: []job.Token{{}}}
		t.Repeat(map[string]func(*rapid.T){
			"":               l.check,
			"claim":          l.claim,
			"claim again":    l.claim,
			"renew":          l.renew,
			"complete":       l.complete,
			"fail":           l.fail,
			"fail for good":  l.failPermanently,
			"release":        l.release,
			"return":         l.giveBack,
			"return often":   l.giveBackOften,
			"expire":         l.expire,
			"cancel":         l.cancel,
			"retry":          l.retry,
			"dependency met": l.dependencyMet,
			"time passes":    l.tick,
		})
	})
}

func (l *life) tick(t *rapid.T) {
	l.now = l.now.Add(time.Duration(rapid.IntRange(1, 40).Draw(t, "seconds")) * time.Second)
}

// clock is the time as some worker sees it: the clocks are a little apart.
func (l *life) clock(t *rapid.T) time.Time {
	return l.now.Add(time.Duration(rapid.IntRange(-1500, 1500).Draw(t, "skew")) * time.Millisecond)
}

func worker(t *rapid.T) string {
	return rapid.SampledFrom([]string{"rn_a", "rn_b", "rn_c"}).Draw(t, "worker")
}

// token is mostly the last one, now and then an older one or a forged one.
func (l *life) token(t *rapid.T) job.Token {
	last := len(l.tokens) - 1
	token := l.tokens[max(0, last-rapid.SampledFrom([]int{0, 0, 0, 0, 1, 2, 5, 50}).Draw(t, "age"))]
	switch rapid.IntRange(0, 30).Draw(t, "forgery") {
	case 1:
		token.Fence += rapid.Int64Range(-1, 1).Draw(t, "fence")
	case 2:
		token.WorkerID = worker(t)
	case 3:
		token.ExpiresAt = token.ExpiresAt.Add(time.Second)
	case 4:
		token.InputRevision++
	case 5:
		token.JobID += "x"
	}
	return token
}

// holder is mostly the worker that the token names.
func holder(t *rapid.T, token job.Token) string {
	if rapid.IntRange(0, 20).Draw(t, "other worker") == 1 {
		return worker(t)
	}
	return token.WorkerID
}

func (l *life) fence(t *rapid.T) int64 {
	return l.j.Fence - rapid.SampledFrom([]int64{0, 0, 0, 1}).Draw(t, "fence age")
}

func reason(t *rapid.T) string {
	return rapid.SampledFrom([]string{"", "boom", "a\xffb", "\x00\u2028<"}).Draw(t, "reason")
}

func (l *life) claim(t *rapid.T) {
	now, length := l.clock(t), time.Duration(rapid.IntRange(0, 30).Draw(t, "lease"))*time.Second
	before, untouched := watch(l.j)
	after, token, err := before.Claim(worker(t), now, length)
	l.moved(t, "claim", now, before, after, err, untouched)
	if err != nil {
		return
	}
	if after.Attempt != before.Attempt+1 || after.Fence != before.Fence+1 || token != after.Token() {
		t.Fatalf("claim gave attempt %d, fence %d, token %+v", after.Attempt, after.Fence, token)
	}
	l.tokens = append(l.tokens, token)
}

func (l *life) renew(t *rapid.T) {
	token, now := l.token(t), l.clock(t)
	before, untouched := watch(l.j)
	after, renewed, err := before.Renew(token, holder(t, token), now, time.Duration(rapid.IntRange(0, 30).Draw(t, "lease"))*time.Second)
	l.moved(t, "renew", now, before, after, err, untouched)
	if err == nil {
		l.tokens = append(l.tokens, renewed)
	}
}

// apply runs one transition that gives no token.
func (l *life) apply(t *rapid.T, op string, run func(job.Job, time.Time) (job.Job, error)) {
	now := l.clock(t)
	before, untouched := watch(l.j)
	after, err := run(before, now)
	l.moved(t, op, now, before, after, err, untouched)
}

func (l *life) complete(t *rapid.T) {
	token := l.token(t)
	worker, ref := holder(t, token), rapid.SampledFrom([]string{"", "s3://out/1"}).Draw(t, "output")
	l.apply(t, "complete", func(j job.Job, now time.Time) (job.Job, error) { return j.Complete(token, worker, ref, now) })
}

func (l *life) fail(t *rapid.T) {
	token, why := l.token(t), reason(t)
	worker, delay := holder(t, token), time.Duration(rapid.IntRange(-1, 9).Draw(t, "delay"))*time.Second
	l.apply(t, "fail", func(j job.Job, now time.Time) (job.Job, error) { return j.Fail(token, worker, why, now, delay) })
}

func (l *life) failPermanently(t *rapid.T) {
	token, why := l.token(t), reason(t)
	worker := holder(t, token)
	l.apply(t, "fail for good", func(j job.Job, now time.Time) (job.Job, error) {
		return j.FailPermanently(token, worker, why, now)
	})
}

func (l *life) release(t *rapid.T) {
	token := l.token(t)
	worker := holder(t, token)
	l.apply(t, "release", func(j job.Job, now time.Time) (job.Job, error) { return j.Release(token, worker, now) })
}

func (l *life) giveBack(t *rapid.T) {
	token, why := l.token(t), reason(t)
	worker, delay := holder(t, token), time.Duration(rapid.IntRange(-1, 9).Draw(t, "delay"))*time.Second
	l.apply(t, "return", func(j job.Job, now time.Time) (job.Job, error) { return j.Return(token, worker, why, now, delay) })
}

// giveBackOften takes a job that waits and gives it back, up to 12 times.
func (l *life) giveBackOften(t *rapid.T) {
	if !l.j.State.Idle() {
		t.Skip("the job does not wait")
	}
	for range rapid.IntRange(8, 12).Draw(t, "times") {
		if !l.j.State.Idle() || l.j.Attempt >= l.j.MaxAttempts {
			return
		}
		l.now = l.j.AvailableAt.Add(2 * time.Second)
		next, token := mustClaim(t, l.j, "rn_a", l.now)
		l.j, l.tokens = next, append(l.tokens, token)
		l.check(t)
		l.apply(t, "return", func(j job.Job, now time.Time) (job.Job, error) { return j.Return(token, "rn_a", "", now, 0) })
		l.check(t)
	}
}

func (l *life) expire(t *rapid.T) {
	fence := l.fence(t)
	l.apply(t, "expire", func(j job.Job, now time.Time) (job.Job, error) { return j.Expire(fence, now) })
}

func (l *life) cancel(t *rapid.T) {
	if rapid.IntRange(0, 5).Draw(t, "seldom") != 1 {
		t.Skip("most jobs are not cancelled")
	}
	fence, why := l.fence(t), reason(t)
	l.apply(t, "cancel", func(j job.Job, now time.Time) (job.Job, error) { return j.Cancel(fence, why, now) })
}

func (l *life) retry(t *rapid.T) {
	fence, why := l.fence(t), reason(t)
	l.apply(t, "retry", func(j job.Job, now time.Time) (job.Job, error) { return j.Retry(fence, why, now) })
}

func (l *life) dependencyMet(t *rapid.T) {
	before, untouched := watch(l.j)
	after, changed := before.DependencyMet(rapid.SampledFrom([]string{"a", "b", "x"}).Draw(t, "dependency"), l.now)
	if !untouched() {
		t.Fatal("the job before was changed")
	}
	if got := len(before.WaitingOn) - len(after.WaitingOn); changed != (got == 1) || got > 1 {
		t.Fatalf("waits on %v, then on %v, changed %t", before.WaitingOn, after.WaitingOn, changed)
	}
	l.j = after
}

// moved judges one transition, and takes it over if it was not refused.
func (l *life) moved(t *rapid.T, op string, now time.Time, before, after job.Job, err error, untouched func() bool) {
	t.Helper()
	if !untouched() {
		t.Fatalf("%s changed the job it was called on", op)
	}
	if err != nil {
		refusal(t, err)
		return
	}
	if before.State.Terminal() && (op != "retry" || before.State != job.StateFailed) {
		t.Fatalf("%s moved a %s job to %s", op, before.State, after.State)
	}
	if op != "claim" && after.Fence != before.Fence {
		t.Fatalf("%s moved the fence from %d to %d", op, before.Fence, after.Fence)
	}
	free := after.State == job.StateWaiting && (op == "release" || op == "return")
	if back := before.Attempt - after.Attempt; op != "claim" && (back != 0 && !free || free && back != 1) {
		t.Fatalf("%s moved the attempt from %d to %d", op, before.Attempt, after.Attempt)
	}
	if !after.UpdatedAt.Equal(now) {
		t.Fatalf("%s at %s left updated_at at %s", op, now, after.UpdatedAt)
	}
	if before.State == job.StateLeased && op != "renew" {
		l.end(t, op, now, before, after)
	}
	l.j = after
}

// end adds the attempt that has just ended to the history that must be.
func (l *life) end(t *rapid.T, op string, now time.Time, before, after job.Job) {
	t.Helper()
	outcome := map[string]job.AttemptOutcome{
		"claim": job.AttemptExpired, "expire": job.AttemptExpired, "complete": job.AttemptSucceeded,
		"fail": job.AttemptFailed, "fail for good": job.AttemptFailed, "cancel": job.AttemptCancelled,
		"release": job.AttemptReleased, "return": job.AttemptReturned,
	}[op]
	if op == "return" && l.returnsInARow() >= job.FreeReturns {
		outcome = job.AttemptFailed
	}
	lines := endedLines(after)
	if len(lines) == 0 {
		t.Fatalf("%s ended an attempt that is not in the history", op)
	}
	line, open := lines[len(lines)-1], before.AttemptsLog[len(before.AttemptsLog)-1]
	want := job.Attempt{
		Number: before.Attempt, Fence: before.Fence, Worker: before.WorkerID,
		Started: open.Started, Ended: now.UTC(), Outcome: outcome, Reason: line.Reason,
	}
	if line != want {
		t.Fatalf("%s: the history has %+v, want %+v", op, line, want)
	}
	l.ended = append(l.ended, line)
}

func (l *life) returnsInARow() int {
	count := 0
	for _, line := range slices.Backward(l.ended) {
		if line.Outcome != job.AttemptReturned {
			break
		}
		count++
	}
	return count
}

func endedLines(j job.Job) []job.Attempt {
	if n := len(j.AttemptsLog); n > 0 && j.AttemptsLog[n-1].Outcome == "" {
		return j.AttemptsLog[:n-1]
	}
	return j.AttemptsLog
}

// check is what must hold between any two steps.
func (l *life) check(t *rapid.T) {
	if l.j.Attempt > l.j.MaxAttempts || l.j.Attempt < 0 || l.j.Attempt > l.j.Fence {
		t.Fatalf("attempt %d of %d at fence %d", l.j.Attempt, l.j.MaxAttempts, l.j.Fence)
	}
	if !slices.Equal(endedLines(l.j), l.ended[max(0, len(l.ended)-10):]) {
		t.Fatalf("the history is %+v,\nwant the end of %+v", l.j.AttemptsLog, l.ended)
	}
	if err := checkHistory(l.j); err != nil {
		t.Fatal(err)
	}
	l.checkTokens(t)
	checkReadBack(t, l.j)
	if l.j.Attempt == 0 && len(l.ended) == 0 {
		return
	}
	if spec := l.j.Spec; !spec.Same(l.j) {
		t.Fatal("the job is not the same as its own spec")
	}
}

// checkTokens tries every token that was ever handed out: at most one of them,
// and only the record's own, is good for anything.
func (l *life) checkTokens(t *rapid.T) {
	for _, token := range l.tokens {
		_, err := l.j.Complete(token, token.WorkerID, "s3://out/1", l.now)
		_, held := l.j.Release(token, token.WorkerID, l.now)
		if (err == nil || held == nil) && (token != l.j.Token() || l.j.State != job.StateLeased) {
			t.Fatalf("token %+v is valid beside %+v in state %s", token, l.j.Token(), l.j.State)
		}
	}
}

func checkHistory(j job.Job) error {
	for i, line := range j.AttemptsLog {
		if i > 0 {
			before, step := j.AttemptsLog[i-1], int64(1)
			if before.Outcome == job.AttemptReleased || before.Outcome == job.AttemptReturned {
				step = 0
			}
			if line.Number != before.Number+step || line.Fence != before.Fence+1 {
				return fmt.Errorf("%+v follows %+v", line, before)
			}
		}
		open := line.Outcome == ""
		if open != line.Ended.IsZero() || open && (i != len(j.AttemptsLog)-1 || line.Fence != j.Fence || line.Number != j.Attempt) {
			return fmt.Errorf("line %d of %d is %+v", i+1, len(j.AttemptsLog), line)
		}
	}
	if open := len(endedLines(j)) != len(j.AttemptsLog); open != (j.State == job.StateLeased) {
		return fmt.Errorf("a %s job has an open attempt: %t", j.State, open)
	}
	return nil
}

// checkReadBack checks that the record decodes to the job and back to itself.
func checkReadBack(t rapid.TB, j job.Job) {
	t.Helper()
	text := j.AppendJSON(nil)
	again := decodeJob(t, text)
	if len(j.WaitingOn) == 0 {
		j.WaitingOn = nil // an emptied list is not written
	}
	if !reflect.DeepEqual(again, j) {
		t.Fatalf("read back %#v,\nwant %#v,\nfrom %s", again, j, text)
	}
	if got := again.AppendJSON(nil); string(got) != string(text) {
		t.Fatalf("written again as %s, was %s", got, text)
	}
}

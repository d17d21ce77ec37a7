package history

import (
	"slices"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/weft-fabric/weft/job"
)

// at is a moment of a history, in milliseconds.
func at(ms int) time.Duration { return time.Duration(ms) * time.Millisecond }

// past builds the history of one job, call by call.
type past struct{ ops []Op }

func (p *past) op(kind Kind, call, ret int, worker string, fence int64, result string, shown *Told) *past {
	p.ops = append(p.ops, Op{
		Kind: kind, Job: "j", Call: at(call), Return: at(ret), Worker: worker, Fence: fence, Result: result, Told: shown,
	})
	return p
}

func (p *past) enqueued(call, ret int) *past {
	return p.op(Enqueue, call, ret, "", 0, OK, &Told{State: job.StateWaiting, Max: 3})
}

func (p *past) claimed(call, ret int, worker string, fence, attempt int64) *past {
	return p.op(Claim, call, ret, worker, 0, OK, &Told{
		State: job.StateLeased, Fence: fence, Attempt: attempt, Max: 3, Worker: worker, Until: at(ret) + lease,
	})
}

func (p *past) settled(kind Kind, call, ret int, worker string, fence int64, result string) *past {
	return p.op(kind, call, ret, worker, fence, result, nil)
}

func (p *past) got(call, ret int, shown Told) *past { return p.op(Get, call, ret, "", 0, OK, &shown) }

func TestJudgeOfOperations(t *testing.T) {
	begun := func() *past { return new(past).enqueued(0, 10).claimed(20, 30, "a", 1, 1) }
	stale, terminal := string(job.CodeStaleLease), string(job.CodeTerminalJob)
	for name, c := range map[string]struct {
		past  *past
		legal bool
	}{
		"a whole life":                       {begun().settled(Complete, 40, 50, "a", 1, OK), true},
		"a takeover after the lease":         {begun().claimed(1200, 1300, "b", 2, 2).settled(Complete, 1400, 1410, "a", 1, stale), true},
		"a takeover within the lease":        {begun().claimed(400, 500, "b", 2, 2), false},
		"a takeover of a claim unheard of":   {new(past).enqueued(0, 10).got(1900, 1910, Told{State: job.StateWaiting, Max: 3}).claimed(2000, 2100, "b", 2, 2), true},
		"one taken over within the lease":    {new(past).enqueued(0, 10).claimed(400, 500, "b", 2, 2), false},
		"a takeover of a renewed lease":      {begun().settled(Renew, 900, 910, "a", 1, OK).claimed(1200, 1300, "b", 2, 2), false},
		"one fence for two":                  {begun().claimed(1200, 1300, "b", 1, 1), false},
		"a fence that went back":             {begun().claimed(1200, 1300, "b", 2, 2).claimed(2500, 2600, "c", 1, 1), false},
		"a late settlement accepted":         {begun().claimed(1200, 1300, "b", 2, 2).settled(Complete, 1400, 1410, "a", 1, OK), false},
		"two outcomes":                       {begun().settled(Complete, 40, 50, "a", 1, OK).settled(Fail, 60, 70, "a", 1, OK), false},
		"refused without cause":              {begun().settled(Complete, 40, 50, "a", 1, stale), false},
		"claimed after its end":              {begun().settled(Complete, 40, 50, "a", 1, OK).claimed(1200, 1300, "b", 2, 2), false},
		"lost answer, and it happened":       {begun().settled(Complete, 40, 50, "a", 1, Unknown).got(60, 70, Told{State: job.StateSucceeded, Fence: 1, Attempt: 1, Max: 3}), true},
		"lost answer, and it did not":        {begun().settled(Complete, 40, 50, "a", 1, Unknown).claimed(1200, 1300, "b", 2, 2), true},
		"an answer that forgets an end":      {begun().settled(Complete, 40, 50, "a", 1, OK).got(60, 70, Told{State: job.StateLeased, Fence: 1, Attempt: 1, Max: 3, Worker: "a"}), false},
		"a cancel refused while it waits":    {new(past).enqueued(0, 10).op(Cancel, 20, 30, "", 0, terminal, nil), false},
		"cancelled, and then completed":      {begun().op(Cancel, 40, 50, "", 0, OK, nil).settled(Complete, 60, 70, "a", 1, OK), false},
		"a job without key cancelled":        {new(past).enqueued(0, 10).got(20, 30, Told{State: job.StateCancelled, Max: 3}), false},
		"more attempts than allowed":         {begun().claimed(1200, 1300, "b", 2, 2).claimed(2500, 2600, "c", 3, 3).claimed(3800, 3900, "d", 4, 4), false},
		"retried by an operator":             {begun().settled(Discard, 40, 50, "a", 1, OK).op(Retry, 60, 70, "", 0, OK, &Told{State: job.StateRetryWaiting, Fence: 1, Attempt: 1, Max: 4}), true},
		"retried although it had not failed": {begun().op(Retry, 40, 50, "", 0, OK, nil), false},
	} {
		want := porcupine.Illegal
		if c.legal {
			want = porcupine.Ok
		}
		if got := judgeOps(c.past.ops, Spec{Max: 3}, lease, time.Minute); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

// life is a legal sequence of records, one a second.
func life(t *testing.T) []change {
	t.Helper()
	start := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	must := func(j job.Job, err error) job.Job {
		if err != nil {
			t.Fatal(err)
		}
		return j
	}
	fresh := must(job.New(job.Spec{ID: "j", Stage: "s", InputRef: "data:,", MaxAttempts: 2}, start))
	first, token, err := fresh.Claim("a", start.Add(time.Second), lease)
	first = must(first, err)
	failed := must(first.Fail(token, "a", "mark1", start.Add(1500*time.Millisecond), 0))
	second, token, err := failed.Claim("b", start.Add(3*time.Second), lease)
	second = must(second, err)
	done := must(second.Complete(token, "b", outputMark("mark2"), start.Add(3500*time.Millisecond)))
	var changes []change
	for i, j := range []job.Job{fresh, first, failed, second, done} {
		changes = append(changes, change{revision: uint64(10 + i), before: uint64(9 + i), stored: j.UpdatedAt, job: j})
	}
	changes[0].before = 0
	return changes
}

func TestJudgeOfChanges(t *testing.T) {
	never := func(from, to time.Time) bool { return false }
	always := func(from, to time.Time) bool { return true }
	for name, c := range map[string]struct {
		edit    func([]change) []change
		excused func(from, to time.Time) bool
		gaps    int
		legal   bool
	}{
		"a whole life":         {func(c []change) []change { return c }, never, 0, true},
		"a gap":                {func(c []change) []change { return slices.Delete(c, 2, 3) }, always, 1, true},
		"a gap without excuse": {func(c []change) []change { return slices.Delete(c, 2, 3) }, never, 1, false},
		"a step left out": {func(c []change) []change {
			c = slices.Delete(c, 2, 3)
			c[2].before = c[1].revision
			return c
		}, always, 0, false},
		"a fence that went back": {func(c []change) []change { c[3].job.Fence = 0; c[3].before = 1; return c }, always, 1, false},
		"a life after the end": {func(c []change) []change {
			return append(c, change{revision: 15, before: 14, stored: c[0].stored, job: c[0].job})
		}, always, 0, false},
		"written in the future": {func(c []change) []change { c[1].stored = c[0].stored; return c }, never, 0, false},
		"born in work":          {func(c []change) []change { c[1].before = 0; return c[1:] }, never, 0, false},
	} {
		changes := c.edit(life(t))
		gaps, err := judgeChanges(changes, Spec{Max: 2}, changes[0].stored, c.excused)
		if (err == nil) != c.legal || gaps != c.gaps {
			t.Errorf("%s: %d gaps, %v", name, gaps, err)
		}
	}
}

func TestJudgeOfOutcomes(t *testing.T) {
	settle := func(kind Kind, worker string, fence int64, mark, result string) []Op {
		return []Op{{Kind: kind, Job: "j", Worker: worker, Fence: fence, Mark: mark, Result: result}}
	}
	for name, c := range map[string]struct {
		ops   []Op
		legal bool
	}{
		"recorded":                   {settle(Complete, "b", 2, "mark2", OK), true},
		"recorded, answer lost":      {settle(Fail, "a", 1, "mark1", Unknown), true},
		"refused":                    {settle(Complete, "a", 1, "mark3", "stale_lease"), true},
		"acknowledged, not recorded": {settle(Complete, "a", 1, "mark3", OK), false},
		"refused, and recorded":      {settle(Complete, "b", 2, "mark2", "stale_lease"), false},
		"recorded as something else": {settle(Fail, "b", 2, "mark2", OK), false},
	} {
		if err := judgeOutcomes(c.ops, life(t), true); (err == nil) != c.legal {
			t.Errorf("%s: %v", name, err)
		}
	}
	twice := life(t)
	twice[4].job.AttemptsLog[0].Outcome = job.AttemptSucceeded
	if err := judgeOutcomes(nil, twice, true); err == nil {
		t.Error("an attempt with two outcomes went unnoticed")
	}
}

func TestJudgeOfKeys(t *testing.T) {
	changes := life(t)
	for i := range changes {
		changes[i].job.Key, changes[i].job.KeyOrder = "k", 1
	}
	start := changes[0].stored
	ops := []Op{{Kind: Claim, Result: OK, Told: &Told{Fence: 2}}}
	for name, c := range map[string]struct {
		rival contender
		legal bool
	}{
		"a newer one, accepted before the claim": {contender{"n", 2, at(2000)}, false},
		"a newer one, accepted after the claim":  {contender{"n", 2, at(4000)}, true},
		"a newer one, never accepted":            {contender{"n", 2, 0}, true},
		"an older one":                           {contender{"n", 0, at(2000)}, true},
	} {
		if err := judgeKey(start, ops, changes, []contender{c.rival}); (err == nil) != c.legal {
			t.Errorf("%s: %v", name, err)
		}
	}
}

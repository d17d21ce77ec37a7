package history

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"github.com/weft-fabric/weft/job"
)

// judgeChanges reads one job's changes. Each must follow from the one before by
// a transition of package job; where events are missing, by some number of them.
// excused tells whether events may be missing between two moments. The result
// counts the gaps.
func judgeChanges(changes []change, spec Spec, start time.Time, excused func(from, to time.Time) bool) (gaps int, err error) {
	var before *change
	for i := range changes {
		c := &changes[i]
		switch {
		case c.bad != nil:
			return gaps, fmt.Errorf("revision %d cannot be read: %w", c.revision, c.bad)
		case c.job.UpdatedAt.Sub(c.stored) > clockSlack:
			return gaps, fmt.Errorf("revision %d was written in the future: stored at %s, it says %s",
				c.revision, c.stored.UTC().Format(time.RFC3339Nano), c.job.UpdatedAt.Format(time.RFC3339Nano))
		case before == nil && c.before == 0:
			err = born(c.job, spec)
		case before != nil && c.before == before.revision:
			err = follows(before.job, c.job)
		default:
			gaps++
			err = afterGap(before, c, start, excused)
		}
		if err != nil {
			return gaps, fmt.Errorf("revision %d: %w", c.revision, err)
		}
		before = c
	}
	return gaps, nil
}

// born refuses a first revision that is not of a new job. A bare item's may be
// its first claim.
func born(j job.Job, spec Spec) error {
	if j.State == job.StateWaiting && j.Fence == 0 && j.Attempt == 0 {
		return nil
	}
	if spec.Bare && j.State == job.StateLeased && j.Fence == 1 && j.Attempt == 1 {
		return nil // its first claim created it
	}
	return fmt.Errorf("a job was born as %s", sketch(j))
}

// follows refuses a change that no transition makes.
func follows(before, after job.Job) error {
	for _, next := range successors(before, after) {
		if sameRecord(next, after) {
			return nil
		}
	}
	return fmt.Errorf("no transition leads from %s to %s", sketch(before), sketch(after))
}

// successors are the records that the transitions make of before, with what
// after says of when, by whom and why.
func successors(before, after job.Job) []job.Job {
	now, token := after.UpdatedAt, before.Token()
	lease := after.LeaseExpiresAt.Sub(now)
	delay := after.AvailableAt.Sub(now)
	var next []job.Job
	keep := func(j job.Job, err error) {
		if err == nil {
			next = append(next, j)
		}
	}
	claimed, _, err := before.Claim(after.WorkerID, now, lease)
	keep(claimed, err)
	renewed, _, err := before.Renew(token, before.WorkerID, now, lease)
	keep(renewed, err)
	keep(before.Complete(token, before.WorkerID, after.OutputRef, now))
	keep(before.Fail(token, before.WorkerID, after.Reason, now, max(0, delay)))
	keep(before.FailPermanently(token, before.WorkerID, after.Reason, now))
	keep(before.Release(token, before.WorkerID, now))
	keep(before.Return(token, before.WorkerID, returnReason(after), now, max(0, delay)))
	keep(before.Expire(before.Fence, now))
	keep(before.Cancel(before.Fence, after.Reason, now))
	keep(before.Retry(before.Fence, after.Reason, now))
	keep(met(before, after), nil)
	return next
}

// returnReason is why a job was given back, which only its history says.
func returnReason(j job.Job) string {
	if n := len(j.AttemptsLog); n > 0 && j.State == job.StateWaiting {
		return j.AttemptsLog[n-1].Reason
	}
	return j.Reason
}

// met takes off the list of before what after no longer waits for.
func met(before, after job.Job) job.Job {
	for _, id := range before.WaitingOn {
		if !slices.Contains(after.WaitingOn, id) {
			before, _ = before.DependencyMet(id, after.UpdatedAt)
		}
	}
	return before
}

// sameRecord compares two records but for what a transition leaves to its caller:
// the item that was taken, and progress.
func sameRecord(a, b job.Job) bool {
	a.ItemSeq, b.ItemSeq, a.Progress, b.Progress = 0, 0, nil, nil
	return bytes.Equal(a.AppendJSON(nil), b.AppendJSON(nil))
}

// afterGap refuses what no number of transitions can do, and a gap that nothing
// excuses. before is nil when the first events are missing, since start.
func afterGap(before, after *change, start time.Time, excused func(from, to time.Time) bool) error {
	from := start
	if before != nil {
		from = before.stored
		if err := reachable(before.job, after.job); err != nil {
			return err
		}
	}
	if !excused(from, after.stored) {
		return fmt.Errorf("the event of revision %d is missing, and no server was disturbed", after.before)
	}
	return nil
}

func reachable(a, b job.Job) error {
	switch {
	case b.Fence < a.Fence:
		return fmt.Errorf("the fence went back: %s, then %s", sketch(a), sketch(b))
	case b.MaxAttempts < a.MaxAttempts:
		return fmt.Errorf("attempts were taken away: %s, then %s", sketch(a), sketch(b))
	case a.State == job.StateSucceeded || a.State == job.StateCancelled:
		return fmt.Errorf("a job that had ended changed: %s, then %s", sketch(a), sketch(b))
	case a.State == job.StateFailed && b.MaxAttempts == a.MaxAttempts:
		return fmt.Errorf("a failed job went on without a retry: %s, then %s", sketch(a), sketch(b))
	case b.Attempt > b.MaxAttempts:
		return fmt.Errorf("too many attempts: %s", sketch(b))
	}
	return nil
}

// sketch is a record in one line.
func sketch(j job.Job) string {
	text := fmt.Sprintf("%s fence=%d attempt=%d/%d", j.State, j.Fence, j.Attempt, j.MaxAttempts)
	if j.WorkerID != "" {
		text += fmt.Sprintf(" holder=%s item=%d until=%s", j.WorkerID, j.ItemSeq, j.LeaseExpiresAt.Format("15:04:05.000"))
	}
	if j.Reason != "" {
		text += fmt.Sprintf(" reason=%q", j.Reason)
	}
	if j.OutputRef != "" {
		text += " output=" + j.OutputRef
	}
	if len(j.WaitingOn) > 0 {
		text += fmt.Sprintf(" waiting_on=%v", j.WaitingOn)
	}
	return text + " at " + j.UpdatedAt.Format("15:04:05.000")
}

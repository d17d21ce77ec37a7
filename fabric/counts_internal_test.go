package fabric

import (
	"fmt"
	"testing"
	"time"

	"github.com/weft-fabric/weft/job"
)

// These tests prove that counts follow the time for which records are kept, and
// that what they need does not grow with the records.

func TestRecordsLeaveTheCountsWhenTheirTimeIsOver(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 10, 30, 0, 0, time.UTC)
	counts := newTallies(Retention{Succeeded: 2 * time.Hour, Cancelled: 4 * time.Hour, Failed: 8 * time.Hour})
	for i, state := range []job.State{job.StateSucceeded, job.StateSucceeded, job.StateCancelled, job.StateFailed} {
		counts.note(job.Job{Spec: job.Spec{ID: fmt.Sprint(i), Stage: "s"}, State: state}, now, now)
	}
	counts.note(job.Job{Spec: job.Spec{ID: "blocked", Stage: "s"}, State: job.StateWaiting, WaitingOn: []string{"0"}}, now, now)
	counts.note(job.Job{Spec: job.Spec{ID: "old", Stage: "s"}, State: job.StateSucceeded}, now.Add(-48*time.Hour), now) // still there
	for _, step := range []struct {
		after time.Duration
		want  Counts
	}{
		{0, Counts{Blocked: 1, Succeeded: 3, Cancelled: 1, Failed: 1}},
		{time.Hour, Counts{Blocked: 1, Succeeded: 2, Cancelled: 1, Failed: 1}},
		{2 * time.Hour, Counts{Blocked: 1, Succeeded: 2, Cancelled: 1, Failed: 1}},
		{3 * time.Hour, Counts{Blocked: 1, Cancelled: 1, Failed: 1}},
		{5 * time.Hour, Counts{Blocked: 1, Failed: 1}},
		{9 * time.Hour, Counts{Blocked: 1}},
	} {
		if got := counts.now(now.Add(step.after))["s"]; got != step.want {
			t.Errorf("after %s: %+v, want %+v", step.after, got, step.want)
		}
	}
	counts.gone("blocked")
	if got := counts.now(now.Add(9 * time.Hour))["s"]; got != (Counts{}) {
		t.Errorf("in the end %+v", got)
	}
}

func TestCountsNeedNoMemoryForJobsThatHaveEnded(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	counts := newTallies(Retention{Succeeded: 24 * time.Hour})
	for i := range 50_000 {
		at := now.Add(time.Duration(i) * time.Second)
		counts.note(job.Job{Spec: job.Spec{ID: fmt.Sprint(i), Stage: "s"}, State: job.StateSucceeded}, at, at)
	}
	if n := len(counts.ended["s"]); n > 15 || len(counts.blocked) > 0 {
		t.Errorf("%d buckets for 14 hours", n)
	}
}

func TestOnlyAnOperatorsRetryWasFailedBefore(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	j, err := job.New(job.Spec{ID: "a", Stage: "s", InputRef: "x", MaxAttempts: 2}, now)
	if err != nil {
		t.Fatal(err)
	}
	attempt := func() {
		leased, token, err := j.Claim("w", now, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		now = now.Add(time.Second)
		if j, err = leased.Fail(token, "w", "no", now, 0); err != nil {
			t.Fatal(err)
		}
	}
	attempt()
	if _, before := failedBefore(j.AppendJSON(nil)); before {
		t.Errorf("a failure with attempts left: %+v", j)
	}
	attempt()
	failed := j.FinishedAt
	now = now.Add(time.Hour)
	if j, err = j.Retry(j.Fence, "once more", now); err != nil {
		t.Fatal(err)
	}
	if at, before := failedBefore(j.AppendJSON(nil)); !before || !at.Equal(failed) {
		t.Errorf("a retry: %v, %s for %s", before, at, failed)
	}
	attempt()
	if j.State != job.StateFailed {
		t.Errorf("it is %s", j.State)
	}
}

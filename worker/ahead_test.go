package worker_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/weft-fabric/weft/job"
	"github.com/weft-fabric/weft/worker"
)

// quick is how many jobs of a millisecond come before the slow one.
const quick = 200

// pacedBench has one slot and jobs that take a millisecond, so that claims are made
// ahead, and then one, "slow", that takes as long as is asked for, with more behind.
func pacedBench(t *testing.T, slow time.Duration) (b *bench, started func() []string) {
	t.Helper()
	var mu sync.Mutex
	var ids []string
	b = setup(t, func(ctx context.Context, task *worker.Task) job.Outcome {
		id := task.Job().ID
		mu.Lock()
		ids = append(ids, id)
		mu.Unlock()
		if id == "slow" {
			return obedient(ctx, slow)
		}
		return obedient(ctx, time.Millisecond)
	}, func(o *worker.Options) { o.Concurrency = 1 })
	jobs := make([]job.Spec, 0, 2*quick)
	for i := range quick {
		jobs = append(jobs, job.Spec{ID: fmt.Sprintf("quick-%d", i)})
	}
	jobs = append(jobs, job.Spec{ID: "slow"})
	for i := range quick {
		jobs = append(jobs, job.Spec{ID: fmt.Sprintf("behind-%d", i)})
	}
	b.run(jobs...)
	return b, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(ids)
	}
}

// leased are the jobs that are leased and have not started.
func (b *bench) leased(started []string) (ids []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for id, j := range b.jobs {
		if j.State == job.StateLeased && !slices.Contains(started, id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// untilSlow lets time pass until the slow job runs.
func untilSlow(t *testing.T, b *bench, started func() []string) (waiting []string) {
	t.Helper()
	b.pass(time.Duration(quick+50) * time.Millisecond)
	if got := started(); got[len(got)-1] != "slow" {
		t.Fatalf("%d jobs have started, the last is %s", len(got), got[len(got)-1])
	}
	waiting = b.leased(started())
	if len(waiting) < 5 || len(waiting) > 30 {
		t.Fatalf("%d jobs were claimed ahead at a pace of a thousand a second, want about 25", len(waiting))
	}
	return waiting
}

func TestJobCancelledWhileItWaitsForASlotDoesNotStart(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b, started := pacedBench(t, 600*time.Millisecond)
		waiting := untilSlow(t, b, started)
		b.cancel(waiting[0], "not needed", true)
		b.cancel(waiting[1], "superseded", true)
		b.pass(5 * time.Second)
		if slices.Contains(started(), waiting[0]) || slices.Contains(started(), waiting[1]) {
			t.Error("a cancelled job has started")
		}
		if n := b.states()[job.StateSucceeded]; n != 2*quick+1-2 {
			t.Errorf("%d jobs succeeded, want all but the cancelled ones", n)
		}
	})
}

func TestWhatWaitsTooLongForASlotGoesBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b, started := pacedBench(t, 10*time.Second)
		waiting := untilSlow(t, b, started)
		b.pass(3 * time.Second)
		for _, id := range waiting {
			b.wantOutcomes(id, "released")
			if j := b.job(id); j.State != job.StateWaiting || j.Attempt != 0 {
				t.Errorf("%s is %s with attempt %d, want it to wait at no charge", id, j.State, j.Attempt)
			}
		}
		if again := b.leased(started()); len(again) != 0 {
			t.Errorf("%d jobs are claimed ahead of a handler that takes long", len(again))
		}
		b.pass(20 * time.Second)
		if n := b.states()[job.StateSucceeded]; n != 2*quick+1 {
			t.Errorf("%d jobs succeeded, want all", n)
		}
	})
}

func TestDrainGivesBackWhatWaitsForASlot(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b, started := pacedBench(t, 600*time.Millisecond)
		waiting := untilSlow(t, b, started)
		b.worker.Stop()
		if err := b.stopped(); err != nil {
			t.Fatal(err)
		}
		for _, id := range waiting {
			b.wantOutcomes(id, "released")
			if j := b.job(id); j.State != job.StateWaiting || j.Attempt != 0 {
				t.Errorf("%s is %s with attempt %d, want it to wait at no charge", id, j.State, j.Attempt)
			}
		}
		b.wantOutcomes("slow", "completed")
	})
}

// A call for claims that was told to want none is told to want some when the slot is
// free again: it is still under way.
func TestSlotThatWasFullWhenThePaceEndedIsUsedAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := setup(t, func(ctx context.Context, task *worker.Task) job.Outcome {
			if task.Job().ID == "slow" {
				return obedient(ctx, 600*time.Millisecond)
			}
			return obedient(ctx, time.Millisecond)
		}, func(o *worker.Options) { o.Concurrency = 1 })
		jobs := make([]job.Spec, 0, quick+1)
		for i := range quick {
			jobs = append(jobs, job.Spec{ID: fmt.Sprintf("quick-%d", i)})
		}
		b.run(append(jobs, job.Spec{ID: "slow"})...)
		b.pass(5 * time.Second)
		b.wantState("slow", job.StateSucceeded)
		b.enqueue(job.Spec{ID: "later"})
		b.pass(6 * time.Second)
		b.wantState("later", job.StateSucceeded)
	})
}

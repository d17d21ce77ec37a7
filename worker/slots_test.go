package worker_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weft-fabric/weft/job"
	"github.com/weft-fabric/weft/worker"
)

func TestSlotsAreNeverExceededAndExactlyTheFreeOnesAskedFor(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var now, most, beyond atomic.Int64
		b := setup(t, func(ctx context.Context, task *worker.Task) job.Outcome {
			defer now.Add(-1)
			switch n := now.Add(1); {
			case n == 3:
				most.Store(n)
			case n > 3:
				beyond.Add(1)
			}
			return obedient(ctx, time.Duration(task.Job().InputRevision)*time.Second)
		}, func(o *worker.Options) { o.Concurrency = 3 })
		jobs := specs(7)
		for i := range jobs {
			jobs[i].InputRevision = int64(i + 1)
		}
		b.run(jobs...)
		b.pass(time.Minute)
		if most.Load() != 3 || beyond.Load() != 0 {
			t.Errorf("3 handlers at once: %v, more: %d times", most.Load() == 3, beyond.Load())
		}
		if n := b.states()[job.StateSucceeded]; n != 7 {
			t.Errorf("%d jobs succeeded, want 7", n)
		}
		// a, b, c take all slots; the others come one by one as a slot gets free.
		// The last asks find nothing and are out until Run ends; slots that get
		// free meanwhile are asked for once that ask is answered.
		if got, want := b.asked(), []int{3, 1, 1, 1, 1, 1}; !slices.Equal(got, want) {
			t.Errorf("asked for %v jobs, want %v", got, want)
		}
	})
}

func TestSlotsThatGotFreeTogetherAreAskedForTogether(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := setup(t, func(ctx context.Context, task *worker.Task) job.Outcome {
			return obedient(ctx, time.Second)
		}, func(o *worker.Options) { o.Concurrency = 4 })
		b.run(specs(2)...)
		b.pass(5 * time.Second) // 2 of 4 taken, 2 asked for; then 2 more are free
		b.enqueue(job.Spec{ID: "x"})
		b.pass(10 * time.Second)
		if got, want := b.asked(), []int{4, 2, 3}; !slices.Equal(got, want) {
			t.Errorf("asked for %v jobs, want %v", got, want)
		}
	})
}

func TestStagesHaveSlotsOfTheirOwn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var builds, tests atomic.Int64
		b := setup(t, func(ctx context.Context, task *worker.Task) job.Outcome {
			builds.Add(1)
			return obedient(ctx, time.Minute)
		})
		err := b.worker.Handle("test", worker.HandlerFunc(func(ctx context.Context, task *worker.Task) job.Outcome {
			tests.Add(1)
			return obedient(ctx, time.Minute)
		}), worker.WithConcurrency(5))
		if err != nil {
			t.Fatal(err)
		}
		jobs := specs(20)
		for i := range jobs[10:] {
			jobs[10+i].Stage = "test"
		}
		b.run(jobs...)
		b.pass(time.Second)
		if builds.Load() != 2 || tests.Load() != 5 {
			t.Errorf("%d builds and %d tests run, want 2 and 5", builds.Load(), tests.Load())
		}
		if got := len(b.worker.Running()); got != 7 {
			t.Errorf("Running lists %d, want 7", got)
		}
	})
}

func TestClaimErrorsBackOffAndRecover(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := setup(t, func(context.Context, *worker.Task) job.Outcome { return done() })
		b.down = true
		b.run(specs(1)...)
		b.pass(2 * time.Minute)
		b.mu.Lock()
		asks := slices.Clone(b.asks)
		b.mu.Unlock()
		for i := range asks[1:] {
			gap := asks[i+1].at.Sub(asks[i].at)
			base := min(100*time.Millisecond<<min(i, 20), 5*time.Second)
			if gap < base*79/100 || gap > base*121/100 {
				t.Errorf("wait %d is %s, want %s ± 20%%", i+1, gap, base)
			}
		}
		b.set(func() { b.down = false })
		b.pass(2*time.Minute + 10*time.Second)
		b.wantState("a", job.StateSucceeded)
		b.wantLog("level=WARN", "jobs could not be claimed", "no server")
		b.wantLog("jobs can be claimed again")

		// After a success the wait begins anew.
		before := len(b.asked())
		b.set(func() { b.down = true })
		b.pass(2*time.Minute + 11*time.Second)
		if n := len(b.asked()) - before; n < 3 || n > 5 {
			t.Errorf("asked %d times in the first second after a success, want waits from 100 ms", n)
		}
	})
}

func TestRunEndsWhenClaimingIsOfNoUse(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := setup(t, func(ctx context.Context, task *worker.Task) job.Outcome {
			return obedient(ctx, 10*time.Second)
		})
		b.run(specs(1)...)
		b.pass(time.Second)
		b.set(func() { b.refuse = job.Invalid("worker_id is taken") })
		if err := b.stopped(); !errors.Is(err, job.ErrInvalidJob) {
			t.Errorf("Run returned %v, want invalid_job", err)
		}
		b.wantState("a", job.StateSucceeded) // it drained first
	})
}

func TestEmptyAnswerIsNotAskedAgainAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		empty := &emptyFabric{memory: newMemory(lease)}
		w, err := worker.New(empty, worker.DefaultOptions())
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Handle("build", worker.HandlerFunc(func(context.Context, *worker.Task) job.Outcome { return done() })); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := w.Run(ctx); err != nil {
			t.Error(err)
		}
		if n := empty.count.Load(); n > 30 {
			t.Errorf("asked %d times in a minute", n)
		}
	})
}

// emptyFabric breaks its promise: it answers without a job and without an error.
type emptyFabric struct {
	*memory
	count atomic.Int64
}

func (f *emptyFabric) Claim(context.Context, string, int) ([]job.Claim, error) {
	f.count.Add(1)
	return nil, nil
}

package worker_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weft-fabric/weft/job"
	"github.com/weft-fabric/weft/worker"
)

// script runs its steps, then waits for the end of the context.
func script(steps func(t *worker.Task)) worker.HandlerFunc {
	return func(ctx context.Context, t *worker.Task) job.Outcome {
		steps(t)
		<-ctx.Done()
		return done()
	}
}

// written gives the progress that renewals carried, with the time since the
// beginning.
func (b *bench) written(id string) []string {
	var list []string
	for _, r := range b.renewed(id) {
		if r.progress != "" {
			list = append(list, fmt.Sprintf("%s %s", r.at.Sub(b.begun), r.progress))
		}
	}
	return list
}

func TestProgressIsWrittenSoon(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := setup(t, script(func(task *worker.Task) {
			if err := task.Progress(map[string]int{"done": 3}); err != nil {
				t.Error(err)
			}
		}))
		b.run(specs(1)...)
		b.pass(50 * time.Millisecond)
		if got := string(b.job("a").Progress); got != `{"done":3}` {
			t.Errorf("the record's progress is %q", got)
		}
		b.pass(10*time.Second + 50*time.Millisecond)
		if got := string(b.job("a").Progress); got != `{"done":3}` {
			t.Errorf("after a renewal without progress it is %q", got)
		}
	})
}

func TestProgressIsWrittenOnceASecondAndOnlyTheLatest(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := setup(t, script(func(task *worker.Task) {
			for i := range 35 {
				if err := task.Progress(i); err != nil {
					t.Error(err)
				}
				<-time.After(100 * time.Millisecond)
			}
		}))
		b.run(specs(1)...)
		b.pass(9 * time.Second)
		got := b.written("a")
		if len(got) != 5 || got[len(got)-1] != "4s 34" {
			t.Errorf("written: %q, want five, the last 34 after 4 s", got)
		}
	})
}

func TestProgressThatCouldNotBeWrittenIsKept(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := setup(t, script(func(task *worker.Task) {
			<-time.After(time.Second)
			_ = task.Progress("half")
		}))
		b.run(specs(1)...)
		b.pass(500 * time.Millisecond)
		b.set(func() { b.down = true })
		b.pass(2 * time.Second)
		if got := string(b.job("a").Progress); got != "" {
			t.Errorf("progress %q was written although the server is down", got)
		}
		b.set(func() { b.down = false })
		b.pass(5 * time.Second)
		if got := string(b.job("a").Progress); got != `"half"` {
			t.Errorf("the record's progress is %q", got)
		}
	})
}

func TestProgressThatCannotBeStoredIsRefused(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := setup(t, script(func(task *worker.Task) {
			if err := task.Progress("fine"); err != nil {
				t.Error(err)
			}
			err := task.Progress(strings.Repeat("x", job.MaxProgressSize))
			if err == nil || err.Error() != "progress of 8194 bytes is larger than 8192" {
				t.Errorf("large progress gave %v", err)
			}
			if err := task.Progress(make(chan int)); err == nil {
				t.Error("progress that is no JSON was taken")
			}
		}))
		b.run(specs(1)...)
		b.pass(2 * time.Second)
		if got := string(b.job("a").Progress); got != `"fine"` {
			t.Errorf("the record's progress is %.20q", got)
		}
	})
}

func TestTaskOfATestNeedsNoWorker(t *testing.T) {
	t.Parallel()
	task := worker.NewTask(job.Job{Spec: job.Spec{ID: "a"}, Fence: 7}, nil)
	for range 3 {
		if err := task.Progress(1); err != nil {
			t.Error(err)
		}
	}
	task.Log().Info("nobody hears it")
	if task.Fence() != 7 || task.Job().ID != "a" {
		t.Errorf("task is for %v", task.Job())
	}
}

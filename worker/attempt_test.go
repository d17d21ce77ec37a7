package worker_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weft-fabric/weft/job"
	"github.com/weft-fabric/weft/worker"
)

func TestTimeoutCancelsTheHandlerAndFailsTheAttempt(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var cause error
		b := setup(t, func(ctx context.Context, task *worker.Task) job.Outcome {
			<-ctx.Done()
			cause = context.Cause(ctx)
			return job.Discarded("killed")
		})
		b.run(job.Spec{Timeout: 2 * time.Second, MaxAttempts: 1})
		b.pass(2 * time.Second)
		if !errors.Is(cause, worker.ErrTimeout) {
			t.Errorf("cause is %v, want ErrTimeout", cause)
		}
		b.wantOutcomes("a", "failed: attempt timed out after 2s")
		b.wantState("a", job.StateFailed)
	})
}

func TestSuccessAfterTheTimeoutStillCounts(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := setup(t, func(ctx context.Context, task *worker.Task) job.Outcome {
			<-ctx.Done()
			return done()
		})
		b.run(job.Spec{Timeout: 2 * time.Second})
		b.pass(3 * time.Second)
		b.wantOutcomes("a", "completed")
	})
}

func TestTimeoutIsLongerThanALease(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := setup(t, func(ctx context.Context, task *worker.Task) job.Outcome {
			return obedient(ctx, time.Hour)
		})
		b.run(job.Spec{Timeout: 3 * lease, MaxAttempts: 1})
		b.pass(3*lease - time.Nanosecond)
		b.wantState("a", job.StateLeased)
		b.pass(3 * lease)
		b.wantOutcomes("a", "failed: attempt timed out after 1m30s")
	})
}

// stubborn is a handler that ignores its context until the gate opens.
func stubborn(g gate) worker.HandlerFunc {
	return func(context.Context, *worker.Task) job.Outcome {
		<-g
		return done()
	}
}

func TestTimedOutHandlerThatDoesNotStopLosesItsSlot(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := make(gate)
		b := setup(t, stubborn(g), func(o *worker.Options) { o.Concurrency = 1 })
		b.run(job.Spec{Timeout: 2 * time.Second, MaxAttempts: 1}, job.Spec{})
		b.pass(7*time.Second - time.Nanosecond)
		b.wantOutcomes("a")
		b.pass(7 * time.Second)
		b.wantOutcomes("a", "failed: attempt timed out after 2s and its handler did not stop")
		b.wantLog("level=ERROR", "handler did not stop", "job=a")
		b.wantState("b", job.StateLeased) // it has the slot

		running := b.worker.Running()
		if len(running) != 2 || running[0].JobID != "a" || !running[0].Stray || running[1].Stray {
			t.Errorf("Running is %+v, want a as a stray and b", running)
		}
		g.open()
		b.pass(8 * time.Second)
		b.wantLog("level=WARN", "stray handler returned", "job=a", "outcome=completed")
		b.wantState("a", job.StateFailed)
		b.wantState("b", job.StateSucceeded)
		if running := b.worker.Running(); len(running) != 0 {
			t.Errorf("Running is %+v, want none", running)
		}
	})
}

func TestCancelledJobWhoseHandlerDoesNotStopLosesItsSlotUnsettled(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := make(gate)
		defer g.open()
		b := setup(t, stubborn(g), func(o *worker.Options) { o.Concurrency = 1 })
		b.run(specs(2)...)
		b.pass(time.Second)
		b.cancel("a", "not needed", true)
		b.pass(6 * time.Second)
		b.wantOutcomes("a")
		b.wantLog("level=ERROR", "handler did not stop", "job=a", "not needed")
		b.wantState("b", job.StateLeased)
		if got := len(b.renewed("a")); got != 1 {
			t.Errorf("a was renewed %d times, want only the one that saw the cancellation", got)
		}
	})
}

func TestHandlerThatReturnsWithinTheGraceIsNoStray(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := setup(t, func(ctx context.Context, task *worker.Task) job.Outcome {
			<-ctx.Done()
			<-time.After(5*time.Second - time.Nanosecond)
			return done()
		})
		b.run(job.Spec{Timeout: time.Second})
		b.pass(10 * time.Second)
		b.wantOutcomes("a", "completed")
		if b.logs.has("did not stop") {
			t.Errorf("it was given up:\n%s", b.logs)
		}
	})
}

func TestHandlersThatDoNotReturnProperly(t *testing.T) {
	for name, c := range map[string]struct {
		work func() job.Outcome
		want string
	}{
		"panic":         {func() job.Outcome { panic("no\nluck  today") }, "failed: panic: no luck today"},
		"panic error":   {func() job.Outcome { panic(errors.New("bad")) }, "failed: panic: bad"},
		"panic nil":     {func() job.Outcome { panic(nil) }, "failed: panic: panic called with nil argument"},
		"runtime panic": {func() job.Outcome { var none []job.Outcome; return none[0] }, "failed: panic: runtime error: index out of range [0] with length 0"},
		"long panic":    {func() job.Outcome { panic(strings.Repeat("é", 400)) }, "failed: panic: " + strings.Repeat("é", 250) + "..."},
		"goexit":        {func() job.Outcome { runtime.Goexit(); return done() }, "failed: handler exited its goroutine"},
		"no outcome":    {func() job.Outcome { return job.Outcome{} }, "failed: handler gave no outcome"},
		"no output":     {func() job.Outcome { return job.Completed("") }, "failed: handler completed without an output"},
		"nil output":    {func() job.Outcome { return job.CompletedFrom(nil) }, "failed: handler completed without an output"},
		"no reason":     {func() job.Outcome { return job.Discarded("") }, "discarded: handler gave no reason"},
		"early retry":   {func() job.Outcome { return job.FailedAfter("x", -1) }, "failed: x"},
		"early snooze":  {func() job.Outcome { return job.Snoozed("x", -1) }, "returned: x"},
		"released":      {job.Released, "returned: handler released the job"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				b := setup(t, func(_ context.Context, task *worker.Task) job.Outcome {
					if task.Job().ID == "a" {
						return c.work()
					}
					return done()
				}, func(o *worker.Options) { o.Concurrency = 1 })
				b.run(job.Spec{MaxAttempts: 1}, job.Spec{})
				b.pass(0)
				if got := b.outcomes("a"); len(got) == 0 || got[0] != c.want {
					t.Errorf("outcomes of a are %q, want %q first", got, c.want)
				}
				b.wantState("b", job.StateSucceeded) // the slot came back
			})
		})
	}
}

func TestPanicIsLoggedWithItsStack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := setup(t, func(context.Context, *worker.Task) job.Outcome { panic("no luck") })
		b.run(job.Spec{MaxAttempts: 1})
		b.pass(0)
		b.wantLog("level=ERROR", "handler panicked", "job=a", "no luck", "attempt_test.go")
	})
}

func TestOutcomeThatTheFabricRefusesBecomesAFailure(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := setup(t, func(context.Context, *worker.Task) job.Outcome {
			return job.CompletedWith(make([]byte, maxOutput+1))
		})
		b.run(job.Spec{MaxAttempts: 1})
		b.pass(0)
		b.wantOutcomes("a", "failed: outcome completed was refused: invalid_job: output is too large")
		b.wantState("a", job.StateFailed)
	})
}

func TestTaskAndContextCarryWhatTheHandlerNeeds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var task *worker.Task
		var value any
		var deadline bool
		b := setup(t, func(ctx context.Context, got *worker.Task) job.Outcome {
			task, value = got, ctx.Value(contextKey{})
			_, deadline = ctx.Deadline()
			got.Log().Info("hello")
			return done()
		}, func(o *worker.Options) { o.ID = "rn_test" })
		b.run(job.Spec{Payload: []byte(`{"x":1}`), Timeout: time.Minute})
		b.pass(0)
		if j := task.Job(); j.ID != "a" || j.Attempt != 1 || string(j.Payload) != `{"x":1}` || task.Fence() != 1 {
			t.Errorf("the task is for %+v", j)
		}
		if value != "value" || !deadline {
			t.Errorf("the context has value %v and a deadline: %v", value, deadline)
		}
		b.wantLog("hello", "job=a", "stage=build", "attempt=1", "fence=1 worker=rn_test\n")
		b.wantLog("worker started", "worker=rn_test")
		if b.logs.has("worker=rn_test", "job=a", "worker=rn_test job=a") {
			t.Errorf("the worker is named twice:\n%s", b.logs)
		}
	})
}

func TestHooksComeInPairs(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var mu sync.Mutex
		got := map[string]string{}
		add := func(id, format string, args ...any) {
			mu.Lock()
			defer mu.Unlock()
			got[id] += fmt.Sprintf(format, args...) + "; "
		}
		b := setup(t, func(ctx context.Context, task *worker.Task) job.Outcome {
			return obedient(ctx, 3*time.Second)
		}, func(o *worker.Options) {
			o.Concurrency = 1
			o.Hooks = worker.Hooks{
				JobStarted: func(j job.Job) { add(j.ID, "started") },
				JobSettled: func(j job.Job, o job.Outcome, err error, took time.Duration) {
					add(j.ID, "%s %v %s", o, err, took)
				},
				LeaseLost: func(j job.Job, cause error, took time.Duration) { add(j.ID, "%v %s", cause, took) },
			}
		})
		b.run(specs(2)...)
		b.pass(4 * time.Second)
		b.cancel("b", "enough", true)
		b.pass(5 * time.Second)
		mu.Lock()
		defer mu.Unlock()
		want := map[string]string{"a": "started; completed <nil> 3s; ", "b": "started; job was cancelled: enough 1s; "}
		if !maps.Equal(got, want) {
			t.Errorf("hooks were told\n%v\nwant\n%v", got, want)
		}
	})
}

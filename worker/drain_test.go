package worker_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/weft-fabric/weft/job"
	"github.com/weft-fabric/weft/worker"
)

func TestDrainLetsRunningJobsEnd(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := setup(t, func(ctx context.Context, task *worker.Task) job.Outcome {
			return obedient(ctx, 19*time.Second)
		}, func(o *worker.Options) { o.Concurrency = 8 })
		b.run(specs(8)...)
		b.pass(time.Second)
		b.end()
		b.enqueue(job.Spec{ID: "later"})
		if err := b.stopped(); err != nil {
			t.Errorf("Run returned %v", err)
		}
		if b.elapsed() != 19*time.Second {
			t.Errorf("Run returned after %s, want as soon as the last job was settled", b.elapsed())
		}
		if n := b.states()[job.StateSucceeded]; n != 8 {
			t.Errorf("%d jobs succeeded, want all 8", n)
		}
		b.wantState("later", job.StateWaiting)
		if got := len(b.renewed("a")); got != 1 {
			t.Errorf("a was renewed %d times, want once, at 10 s, during the drain", got)
		}
	})
}

func TestDrainBeyondItsTimeReleasesAtNoCharge(t *testing.T) {
	for name, c := range map[string]struct {
		after time.Duration // how long the handler takes once cancelled
		out   job.Outcome
		want  string
	}{
		"failed":    {0, job.Failed("signal: terminated"), "released"},
		"returned":  {time.Second, job.Returned("later"), "released"},
		"released":  {0, job.Released(), "released"},
		"nothing":   {0, job.Outcome{}, "released"},
		"completed": {4 * time.Second, done(), "completed"},
		"discarded": {0, job.Discarded("bad input"), "discarded: bad input"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				var cause error
				b := setup(t, func(ctx context.Context, _ *worker.Task) job.Outcome {
					<-ctx.Done()
					cause = context.Cause(ctx)
					<-time.After(c.after)
					return c.out
				})
				b.run(specs(1)...)
				b.pass(time.Second)
				b.end()
				if err := b.stopped(); err != nil {
					t.Errorf("Run returned %v", err)
				}
				if want := 31*time.Second + c.after; b.elapsed() != want {
					t.Errorf("Run returned after %s, want %s", b.elapsed(), want)
				}
				if !errors.Is(cause, worker.ErrDraining) {
					t.Errorf("cause is %v, want ErrDraining", cause)
				}
				b.wantOutcomes("a", c.want)
				if a := b.job("a"); c.want == "released" && a.Attempt != 0 {
					t.Errorf("the drain was charged: attempt %d", a.Attempt)
				}
			})
		})
	}
}

func TestHandlerThatIgnoresTheDrainIsGivenUpAndReleased(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := make(gate)
		defer g.open()
		b := setup(t, stubborn(g))
		b.run(specs(1)...)
		b.pass(time.Second)
		b.end()
		if err := b.stopped(); !errors.Is(err, worker.ErrStrayHandlers) || err.Error() != "run worker: handlers did not stop: a" {
			t.Errorf("Run returned %v, want ErrStrayHandlers with the job", err)
		}
		if b.elapsed() != 36*time.Second {
			t.Errorf("Run returned after %s, want 1 s + Drain + StopGrace", b.elapsed())
		}
		b.wantOutcomes("a", "released")
		b.wantState("a", job.StateWaiting)
	})
}

func TestAbortCancelsAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := setup(t, func(ctx context.Context, _ *worker.Task) job.Outcome {
			return obedient(ctx, time.Hour)
		})
		b.run(specs(2)...)
		b.pass(time.Second)
		b.end()
		b.pass(5 * time.Second)
		b.wantState("a", job.StateLeased)
		b.worker.Abort()
		b.worker.Abort()
		if err := b.stopped(); err != nil || b.elapsed() != 5*time.Second {
			t.Errorf("Run returned %v after %s", err, b.elapsed())
		}
		b.wantOutcomes("a", "released")
		b.wantOutcomes("b", "released")
	})
}

func TestAbortAloneStops(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := setup(t, func(ctx context.Context, _ *worker.Task) job.Outcome {
			return obedient(ctx, time.Hour)
		})
		b.run(specs(1)...)
		b.pass(time.Second)
		b.worker.Abort()
		if err := b.stopped(); err != nil || b.elapsed() != time.Second {
			t.Errorf("Run returned %v after %s", err, b.elapsed())
		}
		b.wantOutcomes("a", "released")
	})
}

func TestStopFromWithinAHandler(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var b *bench
		b = setup(t, func(context.Context, *worker.Task) job.Outcome {
			b.worker.Stop()
			b.worker.Stop()
			return done()
		}, func(o *worker.Options) { o.Concurrency = 1 })
		b.run(specs(2)...)
		if err := b.stopped(); err != nil || b.elapsed() != 0 {
			t.Errorf("Run returned %v after %s", err, b.elapsed())
		}
		b.wantOutcomes("a", "completed")
		b.wantState("b", job.StateWaiting)
	})
}

func TestStopBeforeRunTakesNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := setup(t, func(context.Context, *worker.Task) job.Outcome { return done() })
		b.worker.Stop()
		b.run(specs(1)...)
		if err := b.stopped(); err != nil {
			t.Errorf("Run returned %v", err)
		}
		b.wantState("a", job.StateWaiting)
		if got := b.asked(); len(got) != 0 {
			t.Errorf("asked for %v jobs", got)
		}
	})
}

func TestClaimThatCrossesTheStopGoesBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		started := false
		b := setup(t, func(context.Context, *worker.Task) job.Outcome {
			started = true
			return done()
		})
		b.deaf = 2
		b.run()
		b.pass(time.Second)
		b.end()
		if err := b.stopped(); err != nil {
			t.Errorf("Run returned %v", err)
		}
		for _, id := range []string{"late-0", "late-1"} {
			b.wantOutcomes(id, "released")
			if j := b.job(id); j.Fence != 1 || j.Attempt != 0 {
				t.Errorf("%s has fence %d and attempt %d", id, j.Fence, j.Attempt)
			}
		}
		if started {
			t.Error("a handler was started after the stop")
		}
	})
}

func TestTimeoutDuringTheDrainIsATimeout(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := setup(t, func(ctx context.Context, _ *worker.Task) job.Outcome {
			return obedient(ctx, time.Hour)
		})
		b.run(job.Spec{Timeout: 10 * time.Second})
		b.pass(time.Second)
		b.end()
		_ = b.stopped()
		b.wantOutcomes("a", "failed: attempt timed out after 10s")
	})
}

func TestCancelDuringTheDrainIsSeen(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var c causes
		b := setup(t, c.work)
		b.run(specs(1)...)
		b.pass(time.Second)
		b.end()
		b.pass(2 * time.Second)
		b.cancel("a", "not needed", true)
		if err := b.stopped(); err != nil || b.elapsed() != 2*time.Second {
			t.Errorf("Run returned %v after %s", err, b.elapsed())
		}
		if !errors.Is(c.cause(), worker.ErrCancelled) {
			t.Errorf("cause is %v", c.cause())
		}
		b.wantOutcomes("a")
	})
}

func TestDrainEndsWhileTheServerIsDown(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := setup(t, func(ctx context.Context, _ *worker.Task) job.Outcome {
			return obedient(ctx, time.Hour)
		})
		b.run(specs(2)...)
		b.pass(time.Second)
		b.set(func() { b.down = true })
		b.end()
		if err := b.stopped(); !errors.Is(err, worker.ErrUnrecorded) || errors.Is(err, worker.ErrStrayHandlers) || err.Error() != "run worker: outcomes not recorded: 2" {
			t.Errorf("Run returned %v, want ErrUnrecorded with the number", err)
		}
		if b.elapsed() > time.Minute {
			t.Errorf("Run returned after %s", b.elapsed())
		}
		b.wantLog("level=ERROR", "outcome was not recorded", "job=a")
	})
}

package worker_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weft-fabric/weft/job"
	"github.com/weft-fabric/weft/worker"
)

// causes is a handler that works until told to stop and keeps the reason.
type causes struct{ got atomic.Value }

func (c *causes) work(ctx context.Context, t *worker.Task) job.Outcome {
	<-ctx.Done()
	c.got.Store(context.Cause(ctx))
	return done()
}

func (c *causes) cause() error {
	err, _ := c.got.Load().(error)
	return err
}

func TestLeaseIsRenewedEveryThird(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := setup(t, func(ctx context.Context, task *worker.Task) job.Outcome {
			return obedient(ctx, 5*lease+lease/6)
		})
		b.run(specs(1)...)
		for renewals := 1; renewals <= 15; renewals++ {
			b.pass(time.Duration(renewals) * lease / 3)
			if got := len(b.renewed("a")); got != renewals {
				t.Fatalf("%d renewals after %s, want %d", got, b.elapsed(), renewals)
			}
			b.wantState("a", job.StateLeased)
		}
		b.pass(6 * lease)
		b.wantOutcomes("a", "completed")
		if a := b.job("a"); a.Fence != 1 {
			t.Errorf("a was claimed %d times, want once", a.Fence)
		}
		if got := len(b.renewed("a")); got != 15 {
			t.Errorf("%d renewals in all, want 15: none after the settlement", got)
		}
	})
}

func TestStuckRenewalDelaysNoOther(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := setup(t, func(ctx context.Context, task *worker.Task) job.Outcome {
			return obedient(ctx, 2*lease)
		}, func(o *worker.Options) { o.Concurrency = 8 })
		b.stuck["a"] = true
		b.run(specs(8)...)
		b.pass(lease + lease/2)
		for _, id := range strings.Split("bcdefgh", "") {
			if got := len(b.renewed(id)); got != 4 {
				t.Errorf("%s was renewed %d times, want 4", id, got)
			}
		}
		b.set(func() { b.stuck["a"] = false })
		b.pass(3 * lease)
		if n := b.states()[job.StateSucceeded]; n != 8 {
			t.Errorf("%d jobs succeeded, want 8: a late renewal is forgiven", n)
		}
		b.wantLog("level=WARN", "lease was not renewed", "job=a")
		b.wantLog("level=WARN", "lease ran out", "job=a")
	})
}

func TestFailedRenewalsAreRepeatedFasterAlsoWhenTheLeaseRanOut(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := setup(t, func(ctx context.Context, task *worker.Task) job.Outcome {
			return obedient(ctx, 4*lease)
		}, func(o *worker.Options) { o.Concurrency = 1 })
		b.run(specs(1)...)
		b.pass(time.Second)
		b.set(func() { b.down = true })
		b.pass(2*lease + time.Second)
		var at []time.Duration
		for _, r := range b.renewed("a") {
			at = append(at, r.at.Sub(b.begun))
		}
		// From 10 s every 2 s up to 60 s.
		if len(at) != 26 || at[0] != 10*time.Second || at[25] != 60*time.Second {
			t.Errorf("renewals were tried at %v", at)
		}
		b.set(func() { b.down = false })
		b.pass(5 * lease)
		b.wantOutcomes("a", "completed")
		b.wantLog("lease is renewed again", "job=a")
	})
}

func TestOutcomeOfALeaseThatRanOutIsSettledIfNobodyTookTheJob(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := setup(t, func(ctx context.Context, task *worker.Task) job.Outcome {
			return obedient(ctx, lease+5*time.Second)
		}, func(o *worker.Options) { o.Concurrency = 1 })
		b.run(specs(1)...)
		b.pass(time.Second)
		b.set(func() { b.down = true })
		b.pass(lease + 7*time.Second) // the handler has returned, its settlement waits
		b.set(func() { b.down = false })
		b.pass(lease + 8*time.Second)
		b.wantOutcomes("a", "completed")
		b.wantState("a", job.StateSucceeded)
	})
}

func TestNudgeRenewsAtOnceAndStopsACancelledJob(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var c causes
		b := setup(t, c.work)
		b.run(specs(1)...)
		b.pass(3 * time.Second)
		b.cancel("a", "superseded by b", true)
		b.pass(3 * time.Second) // no time passes
		cause := c.cause()
		if !errors.Is(cause, worker.ErrCancelled) || errors.Is(cause, worker.ErrLeaseLost) {
			t.Fatalf("cause is %v, want ErrCancelled", cause)
		}
		var cancelled *worker.CancelledError
		if !errors.As(cause, &cancelled) || cancelled.Reason != "superseded by b" {
			t.Errorf("cause is %#v, want the record's reason", cause)
		}
		b.wantLog("level=WARN", "outcome dropped", "code=stale_lease", "outcome=completed")
		if len(b.settled) != 0 {
			t.Errorf("a cancelled job was settled: %v", b.settled)
		}
	})
}

func TestCancelWithoutAHintIsSeenByTheNextRenewal(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var c causes
		b := setup(t, c.work)
		b.run(specs(1)...)
		b.pass(time.Second)
		b.cancel("a", "not needed", false)
		b.pass(lease/3 - time.Nanosecond)
		if c.cause() != nil {
			t.Errorf("stopped after %s", b.elapsed())
		}
		b.pass(lease / 3)
		if err := c.cause(); err == nil || err.Error() != "job was cancelled: not needed" {
			t.Errorf("cause is %v", err)
		}
	})
}

func TestNudgesOfAJobThatDidNotChangeOnlyRenew(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := setup(t, func(ctx context.Context, task *worker.Task) job.Outcome {
			return obedient(ctx, 8*time.Second)
		})
		b.run(specs(1)...)
		for i := 1; i <= 1000; i++ {
			b.pass(time.Duration(i) * time.Millisecond)
			b.set(func() { b.hint("a") })
		}
		if got := len(b.renewed("a")); got < 2 || got > 21 {
			t.Errorf("1000 hints within a second made %d renewals", got)
		}
		b.pass(10 * time.Second)
		b.wantOutcomes("a", "completed")
	})
}

func TestOutcomeAfterALostLeaseIsDropped(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var c causes
		var lost atomic.Value
		b := setup(t, c.work, func(o *worker.Options) {
			o.Hooks.LeaseLost = func(j job.Job, cause error, _ time.Duration) { lost.Store(cause) }
		})
		b.stuck["a"] = true
		b.run(specs(1)...)
		b.pass(lease - time.Nanosecond)
		b.steal("a", b.begun.Add(lease))
		b.set(func() { b.stuck["a"] = false })
		b.pass(2 * lease)
		if err := c.cause(); !errors.Is(err, worker.ErrLeaseLost) {
			t.Fatalf("cause is %v, want ErrLeaseLost", err)
		}
		if a := b.job("a"); a.State != job.StateLeased || a.WorkerID != "rn_other" || a.Fence != 2 {
			t.Errorf("a is %s by %s, fence %d; want the thief's", a.State, a.WorkerID, a.Fence)
		}
		if len(b.settled) != 0 {
			t.Errorf("a lost job was settled: %v", b.settled)
		}
		b.wantLog("level=WARN", "outcome dropped", "code=stale_lease")
		if err, _ := lost.Load().(error); !errors.Is(err, worker.ErrLeaseLost) {
			t.Errorf("hook was told %v", err)
		}
	})
}

func TestLossThatOnlyTheSettlementSeesIsDroppedToo(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := setup(t, func(ctx context.Context, task *worker.Task) job.Outcome {
			return obedient(ctx, 5*time.Second)
		})
		b.run(specs(1)...)
		b.pass(time.Second)
		b.cancel("a", "not needed", false)
		b.pass(6 * time.Second)
		b.wantState("a", job.StateCancelled)
		b.wantLog("level=WARN", "outcome dropped", "code=stale_lease")
		if got := len(b.worker.Running()); got != 0 {
			t.Errorf("%d attempts still run", got)
		}
	})
}

func TestSettlementWaitsForTheRenewalUnderWay(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := setup(t, func(ctx context.Context, task *worker.Task) job.Outcome {
			return obedient(ctx, 11*time.Second)
		})
		b.stuck["a"] = true // its renewal is under way from 10 s to 20 s
		b.run(specs(1)...)
		b.pass(20*time.Second - time.Nanosecond)
		b.wantOutcomes("a")
		b.pass(20 * time.Second)
		b.wantOutcomes("a", "completed")
	})
}

func TestHintsDuringARenewalWaitForItsEnd(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := setup(t, func(ctx context.Context, task *worker.Task) job.Outcome {
			<-time.After(12 * time.Second)
			_ = task.Progress("half")
			return obedient(ctx, 20*time.Second)
		})
		b.stuck["a"] = true // its renewal is under way from 10 s to 20 s
		b.run(specs(1)...)
		b.pass(11 * time.Second)
		b.set(func() { b.hint("a"); b.stuck["a"] = false })
		b.pass(20 * time.Second)
		if got := b.renewed("a"); len(got) != 2 || got[1].err != nil || got[1].progress != `"half"` {
			t.Errorf("renewals are %+v, want a second one as soon as the first had ended", got)
		}
	})
}

func TestALostClaimIsNotRenewedAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := setup(t, func(ctx context.Context, task *worker.Task) job.Outcome {
			<-ctx.Done()
			_ = task.Progress("stopping")
			<-time.After(4 * time.Second)
			return done()
		})
		b.run(specs(1)...)
		b.pass(time.Second)
		b.cancel("a", "not needed", true)
		b.pass(2 * time.Second)
		b.set(func() { b.hint("a") })
		b.pass(lease)
		if got := len(b.renewed("a")); got != 1 {
			t.Errorf("a was renewed %d times, want only the one that saw the cancellation", got)
		}
	})
}

func TestSettlementHasTheRestOfARenewedLease(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := setup(t, func(ctx context.Context, task *worker.Task) job.Outcome {
			return obedient(ctx, 21*time.Second)
		})
		b.run(specs(1)...)
		b.pass(20 * time.Second) // renewed, until 50 s
		b.set(func() { b.down = true })
		b.pass(49 * time.Second)
		b.set(func() { b.down = false })
		b.pass(49 * time.Second)
		b.wantOutcomes("a", "completed")
	})
}

func TestSettlementOutlastsAnOutageButNotTheLease(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := setup(t, func(ctx context.Context, task *worker.Task) job.Outcome {
			return obedient(ctx, time.Second)
		}, func(o *worker.Options) { o.Concurrency = 1 })
		b.run(specs(1)...)
		b.pass(500 * time.Millisecond)
		b.set(func() { b.down = true })
		b.pass(lease - time.Nanosecond)
		if n := len(b.worker.Running()); n != 1 {
			t.Errorf("%d attempts wait for the server, want 1", n)
		}
		b.pass(lease)
		b.wantLog("level=ERROR", "outcome was not recorded", "job=a")
		b.set(func() { b.down = false })
		b.pass(2 * lease)
		b.wantOutcomes("a", "completed") // its second attempt
		if a := b.job("a"); a.Fence != 2 {
			t.Errorf("a was claimed %d times, want twice", a.Fence)
		}
	})
}

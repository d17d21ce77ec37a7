package worker

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/weft-fabric/weft/job"
)

// attempt is the life of one claim in this worker. Its owner is the goroutine
// that calls run or release; the handler has a goroutine of its own.
type attempt struct {
	worker *Worker
	stage  *stage
	task   *Task
	lease  *lease    // the owner's alone
	since  time.Time // when the handler was started; set before the attempt is shared
	slot   bool      // the owner's alone: it has a slot to give back

	// ended is set by whoever is first: the handler's goroutine when the handler
	// has returned, or the owner when it gives the handler up.
	ended atomic.Bool
	// returned has room for one: sent by the handler's goroutine if it was first
	// to set ended, received by the owner.
	returned chan ending

	endSpan func(job.Outcome, error) // the owner's alone; nil without a tracer

	stray bool // guarded by worker.mu: the handler was given up and still runs
}

// ending is how the handler's part ended.
type ending struct {
	outcome job.Outcome
	cause   error // why the handler's context had ended by then, or nil
	stray   bool  // the handler did not return
}

func newAttempt(s *stage, c job.Claim) *attempt {
	task := newTask(&c.Job, s.worker.taskLog)
	return &attempt{
		worker: s.worker, stage: s, task: task,
		lease:    newLease(s.worker.fabric, task, &c),
		since:    time.Now(),
		returned: make(chan ending, 1),
	}
}

// run calls the handler, keeps the lease while it works, and settles. It returns
// when the slot is free; only a handler that ignored its cancelled context may
// still run then. working ends when the drain has used up its time.
func (a *attempt) run(working context.Context) {
	base := context.WithoutCancel(working)
	ctx, cancel := context.WithCancelCause(working)
	defer cancel(nil)
	if limit := a.task.job.Timeout; limit > 0 {
		timed, stop := context.WithTimeoutCause(ctx, limit, ErrTimeout)
		defer stop()
		ctx = timed
	}
	if tracer := a.worker.options.Tracer; tracer != nil {
		ctx, a.endSpan = tracer.Attempt(ctx, a.task.Job())
	}
	a.worker.add(a)
	a.worker.hooks.started(a.task.Job())
	go a.handle(ctx)
	end := a.watch(ctx, base, cancel)
	took := time.Since(a.since)
	a.lease.land()
	a.conclude(base, end, took)
	if !end.stray {
		a.worker.forget(a)
	}
}

// watch serves the claim until the handler returns or is given up.
func (a *attempt) watch(ctx, base context.Context, cancel context.CancelCauseFunc) ending {
	l := a.lease
	defer l.timer.Stop()
	cancelled := ctx.Done()
	var grace <-chan time.Time
	for {
		select {
		case end := <-a.returned:
			return end
		case <-cancelled:
			cancelled = nil
			grace = time.After(a.worker.options.StopGrace)
		case <-grace:
			return a.giveUp(ctx)
		case <-l.timer.C:
			l.begin(base)
		case answer := <-l.answers:
			if lost := l.absorb(answer); lost != nil {
				a.task.Log().Warn("claim is lost, stopping the handler", "code", job.CodeStaleLease, "cause", lost)
				cancel(lost)
			}
		case _, open := <-l.nudges:
			l.nudged(open)
		case <-a.task.reported:
			l.reported()
		}
	}
}

// giveUp leaves the handler to itself, unless it has returned just now.
func (a *attempt) giveUp(ctx context.Context) ending {
	if !a.ended.CompareAndSwap(false, true) {
		return <-a.returned
	}
	a.worker.markStray(a)
	cause := context.Cause(ctx)
	a.task.Log().Error("handler did not stop, its slot is taken from it",
		"cause", cause, "grace", a.worker.options.StopGrace)
	return ending{cause: cause, stray: true}
}

// conclude settles what the handler's end amounts to, or drops it if the claim
// is no longer this worker's.
func (a *attempt) conclude(base context.Context, end ending, took time.Duration) {
	outcome := a.verdict(end)
	if outcome.Open() == nil && a.leaveEarly() {
		defer func() { <-a.stage.settling }()
	}
	if a.lease.lost == nil {
		err := a.lease.settle(base, outcome)
		if errors.Is(err, job.ErrInvalidJob) {
			outcome = job.Failed(fmt.Sprintf("outcome %s was refused: %v", outcome, err))
			err = a.lease.settle(base, outcome)
		}
		if !gone(err) {
			a.settled(outcome, err, took)
			return
		}
		if a.lease.lost == nil {
			a.lease.lost = ErrLeaseLost
		}
	}
	a.task.Log().Warn("outcome dropped", "code", job.CodeStaleLease, "outcome", outcome.String(),
		"reason", outcome.Reason(), "cause", a.lease.lost)
	a.span(outcome, a.lease.lost)
	a.worker.hooks.lost(a.task.Job(), a.lease.lost, took)
}

// leave gives the slot back, once.
func (a *attempt) leave() {
	if a.slot {
		a.slot = false
		a.stage.free(1)
	}
}

// leaveEarly gives the slot back before the settlement, which is one write that
// needs no more of this process than to be waited for; meanwhile the next job is
// asked for. It reports false, and keeps the slot, when as many attempts as the
// stage has slots are being settled already: then it is the server that is slow.
func (a *attempt) leaveEarly() bool {
	select {
	case a.stage.settling <- struct{}{}:
		a.leave()
		return true
	default:
		return false
	}
}

func (a *attempt) settled(outcome job.Outcome, err error, took time.Duration) {
	if err != nil {
		a.worker.unrecorded.Add(1)
		a.task.Log().Error("outcome was not recorded, the job will be offered again",
			"outcome", outcome.String(), "reason", outcome.Reason(), "error", err)
	} else if outcome.Kind() != job.KindCompleted {
		a.task.Log().Info("attempt ended", "outcome", outcome.String(), "reason", outcome.Reason(), "took", took)
	}
	a.span(outcome, err)
	a.worker.hooks.settled(a.task.Job(), outcome, err, took)
}

// span ends the attempt's span, if it has one.
func (a *attempt) span(outcome job.Outcome, err error) {
	if a.endSpan != nil {
		a.endSpan(outcome, err)
	}
}

// release gives back a claim that came too late to be worked on.
func (a *attempt) release(working context.Context) {
	a.lease.timer.Stop()
	err := a.lease.settle(context.WithoutCancel(working), job.Released())
	if err != nil && !gone(err) {
		a.task.Log().Error("claim was not given back, the job will be offered again", "error", err)
	}
}

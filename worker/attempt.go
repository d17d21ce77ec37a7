package worker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/weft-fabric/weft/job"
)

// attempt is the life of one claim in this worker. One goroutine calls the handler
// and then settles; what else happens meanwhile, renewals above all, comes by
// timers and calls, each in a goroutine of its own, and meets in mu.
type attempt struct {
	worker *Worker
	stage  *stage
	task   Task
	since  time.Time // when it began to wait for a slot, and then when its handler was started

	endSpan func(job.Outcome, error) // set before the handler can be ended; nil without a tracer

	mu     sync.Mutex
	lease  lease                   // guarded by mu
	cancel context.CancelCauseFunc // guarded by mu: ends the handler's context; nil before it is started
	grace  *time.Timer             // guarded by mu: set once the context has ended
	ended  bool                    // guarded by mu: the handler has returned, or was given up
	stray  bool                    // guarded by mu: it was given up, and its slot taken from it
}

// ending is how the handler's part ended.
type ending struct {
	outcome job.Outcome
	cause   error // why the handler's context had ended by then, or nil
	stray   bool  // the handler did not return
}

func newAttempt(s *stage, c *job.Claim) *attempt {
	s.worker.running.Add(1)
	a := &attempt{worker: s.worker, stage: s, since: time.Now()}
	a.task.job, a.task.base, a.task.onProgress, a.task.inputs = &c.Job, s.worker.taskLog, a.reported, s.worker.inputs
	a.lease.open(c, a.since, a.due)
	c.Nudge.OnHint(a.nudged)
	return a
}

// run calls the handler, keeps the lease while it works, and settles. It returns
// when the slot is free, unless that was taken from it because the handler ignored
// its cancelled context.
func (a *attempt) run() {
	ctx, cancel := context.WithCancelCause(a.worker.base)
	defer cancel(nil)
	if a.begin(cancel) {
		return
	}
	if tracer := a.worker.options.Tracer; tracer != nil {
		ctx, a.endSpan = tracer.Attempt(ctx, *a.task.job)
	}
	if limit := a.task.job.Timeout; limit > 0 {
		timed, stop := context.WithTimeoutCause(ctx, limit, ErrTimeout)
		defer stop()
		ctx = timed
		over := time.AfterFunc(limit, func() { a.stop(ErrTimeout) })
		defer over.Stop()
	}
	if a.worker.add(a) {
		a.stop(ErrDraining)
	}
	a.worker.hooks.started(a.task.job)
	a.handle(ctx)
}

// begin lets the handler's context be ended from now on. It reports that the claim
// was lost while it waited for a slot; the attempt is over then, and its job does
// not start.
func (a *attempt) begin(cancel context.CancelCauseFunc) (lost bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.lease.lost == nil {
		a.cancel = cancel
		return false
	}
	a.ended = true
	a.task.Log().Info("claim was lost before its handler was started", "code", job.CodeStaleLease, "cause", a.lease.lost)
	a.leave()
	a.worker.running.Done()
	return true
}

// leave tells a fabric that wants to know that a claim which was lost has no handler
// that runs.
func (a *attempt) leave() {
	if leaver, ok := a.worker.fabric.(Leaver); ok {
		claim := *a.lease.claim
		a.worker.running.Go(func() { leaver.Leave(claim) })
	}
}

// stop ends the handler's context, which at a timeout ends by itself, and gives the
// handler StopGrace to return.
func (a *attempt) stop(cause error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.cancel == nil || a.ended || a.grace != nil {
		return
	}
	a.grace = time.AfterFunc(a.worker.options.StopGrace, func() { a.giveUp(cause) })
	if cause != ErrTimeout {
		a.cancel(cause)
	}
}

// finish goes on when the handler has returned. A handler that had been given up
// has nothing more to say.
func (a *attempt) finish(end ending) {
	took := time.Since(a.since)
	if !a.end(false) {
		a.worker.forget(a)
		a.task.Log().Warn("stray handler returned, its outcome is dropped",
			"outcome", end.outcome.String(), "reason", end.outcome.Reason())
		return
	}
	a.conclude(end, took)
}

// giveUp leaves a handler that did not return to itself, and its slot to another.
func (a *attempt) giveUp(cause error) {
	took := time.Since(a.since)
	if !a.end(true) {
		return
	}
	a.task.Log().Error("handler did not stop, its slot is taken from it",
		"cause", cause, "grace", a.worker.options.StopGrace)
	a.conclude(ending{cause: cause, stray: true}, took)
	a.stage.handOn()
}

// end marks the end of the handler's part, for whoever comes first, and then waits
// for a renewal that is under way. From here on the lease is the caller's alone.
func (a *attempt) end(stray bool) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ended {
		return false
	}
	a.ended, a.stray = true, stray
	a.lease.timer.Stop()
	if a.grace != nil {
		a.grace.Stop()
	}
	a.land()
	return true
}

// land waits for the renewal under way, if there is one. mu is held.
func (a *attempt) land() {
	for a.lease.flying != nil {
		landing := a.lease.flying
		a.mu.Unlock()
		<-landing
		a.mu.Lock()
	}
}

// keepsSlot reports whether the slot is still this attempt's to hand on.
func (a *attempt) keepsSlot() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return !a.stray
}

// conclude settles what the handler's end amounts to, or drops it if the claim is
// no longer this worker's. It returns when the slot is free.
func (a *attempt) conclude(end ending, took time.Duration) {
	c := &conclusion{a: a, outcome: a.verdict(end), took: took, stray: end.stray}
	if a.lease.lost != nil {
		c.err = a.lease.lost
		c.end()
		return
	}
	if c.free = c.outcome.Open() == nil && a.stage.settleFreely(); !c.free {
		c.done = make(chan struct{})
	}
	c.settle()
	if !c.free {
		<-c.done
	}
}

// conclusion is the end of an attempt on its way into the record.
type conclusion struct {
	a       *attempt
	outcome job.Outcome
	took    time.Duration
	stray   bool          // the handler still runs
	free    bool          // the slot does not wait for it
	done    chan struct{} // closed at its end if the slot does
	again   int           // how often it was settled anew
	err     error         // what became of it
}

// settle asks for the settlement.
func (c *conclusion) settle() {
	a := c.a
	a.worker.fabric.SettleThen(a.worker.base, *a.lease.claim, c.outcome, c.settled)
}

// settled is called with the answer, by a goroutine that must not wait: others bring
// theirs behind it. Logs and hooks may take their time, so they get one of their own.
func (c *conclusion) settled(err error) {
	c.err = err
	switch {
	case err != nil && c.again < 2 && (errors.Is(err, job.ErrInvalidJob) || errors.Is(err, job.ErrLeaseExpired)):
		c.again++
		go c.settleAgain()
	case err == nil && c.outcome.Kind() == job.KindCompleted && c.a.endSpan == nil && c.a.worker.hooks.JobSettled == nil:
		c.end()
	default:
		go c.end()
	}
}

// settleAgain settles once more: a failure in place of an outcome that was refused,
// or the same one when the lease ran out and could be renewed.
func (c *conclusion) settleAgain() {
	if errors.Is(c.err, job.ErrInvalidJob) {
		c.outcome = job.Failed(fmt.Sprintf("outcome %s was refused: %v", c.outcome, c.err))
	} else if err := c.a.renewNow(); err != nil {
		c.settled(err)
		return
	}
	c.settle()
}

// end says what has become of the attempt, and then ends it.
func (c *conclusion) end() {
	a := c.a
	switch {
	case a.lease.lost == nil && !gone(c.err):
		a.settled(c.outcome, c.err, c.took)
	default:
		if a.lease.lost == nil {
			a.lease.lost = ErrLeaseLost
		}
		a.task.Log().Warn("outcome dropped", "code", job.CodeStaleLease, "outcome", c.outcome.String(),
			"reason", c.outcome.Reason(), "cause", a.lease.lost)
		a.span(c.outcome, a.lease.lost)
		a.worker.hooks.lost(a.task.job, a.lease.lost, c.took)
		if !c.stray {
			a.leave()
		}
	}
	if c.free {
		a.stage.settledFreely()
	} else if c.done != nil {
		close(c.done)
	}
	if !c.stray {
		a.worker.forget(a)
	}
	a.worker.running.Done()
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
	a.worker.hooks.settled(a.task.job, outcome, err, took)
}

// span ends the attempt's span, if it has one.
func (a *attempt) span(outcome job.Outcome, err error) {
	if a.endSpan != nil {
		a.endSpan(outcome, err)
	}
}

// release gives back a claim that was not worked on.
func (a *attempt) release() {
	defer a.worker.running.Done()
	a.end(false)
	if a.lease.lost != nil {
		a.leave()
		return
	}
	answer := make(chan error, 1)
	a.worker.fabric.SettleThen(a.worker.base, *a.lease.claim, job.Released(), func(err error) { answer <- err })
	if err := <-answer; err != nil && !gone(err) {
		a.task.Log().Error("claim was not given back, the job will be offered again", "error", err)
	}
}

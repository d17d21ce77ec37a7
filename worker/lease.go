package worker

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/weft-fabric/weft/job"
)

const (
	// renewalsPerLease is how often a lease is renewed before it would run out.
	renewalsPerLease = 3
	// retriesPerLease is the pace while renewals fail.
	retriesPerLease = 15
	// progressGap lies between two renewals that store progress.
	progressGap = time.Second
	// nudgeGap keeps a flood of hints from becoming a flood of writes; it is also
	// the least wait between any two renewals.
	nudgeGap = 50 * time.Millisecond
	// minRenewLimit bounds a renewal that has little of its lease left, for a late
	// write counts as long as nobody took the job over.
	minRenewLimit = 2 * time.Second
)

// lease keeps one claim alive. It is a part of its attempt, and guarded by its mu.
// While a renewal is under way nothing else is written for the claim.
//
// The next renewal is at the earlier of regular and wanted. Renewals are paced a
// claim at a time, so one that is stuck delays no other.
type lease struct {
	claim   *job.Claim    // as it stands; never written, a renewal puts another in its place
	until   time.Time     // when the lease runs out, by this process's clock
	sent    time.Time     // when the last renewal began
	stored  time.Time     // when the last renewal that carried progress began
	regular time.Time     // when the next renewal is due by cadence or retry
	wanted  time.Time     // an earlier one that a nudge or progress asks for, or zero
	timer   *time.Timer   // set while no renewal is under way and the lease is not lost
	flying  chan struct{} // closed when the renewal under way has ended; nil without one

	failures   int   // renewals that failed in a row
	expiryTold bool  // the log has it that the lease ran out among those failures
	lost       error // why the claim may not be settled any more, or nil
}

// open begins to keep the lease of a claim: due is called when a renewal is.
func (l *lease) open(c *job.Claim, now time.Time, due func()) {
	left := cmp.Or(c.Left, c.Lease)
	l.claim, l.until = c, now.Add(left)
	first := max(l.every(renewalsPerLease)-(c.Lease-left), 0)
	l.regular = now.Add(first)
	l.timer = time.AfterFunc(first, due)
}

// every is the wait that fits n times into the lease.
func (l *lease) every(n time.Duration) time.Duration {
	return max(l.claim.Lease/n, nudgeGap)
}

// plan sets the timer for the next renewal.
func (l *lease) plan() {
	next := l.regular
	if !l.wanted.IsZero() && l.wanted.Before(next) {
		next = l.wanted
	}
	l.timer.Reset(time.Until(next))
}

// want asks for a renewal by at, if none is due before. During a renewal the
// wish is kept for the next.
func (l *lease) want(at time.Time) {
	if l.wanted.IsZero() || at.Before(l.wanted) {
		l.wanted = at
	}
	if l.flying == nil && l.lost == nil {
		l.plan()
	}
}

// nudged reacts to a hint.
func (a *attempt) nudged() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.ended {
		a.lease.want(a.lease.sent.Add(nudgeGap))
	}
}

// reported reacts to progress.
func (a *attempt) reported() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.ended {
		a.lease.want(a.lease.stored.Add(progressGap))
	}
}

// due renews the lease because it is time. It has a goroutine of its own.
func (a *attempt) due() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ended || a.lease.flying != nil || a.lease.lost != nil {
		return
	}
	if a.renew(); a.lease.lost != nil && !a.ended {
		a.task.Log().Warn("claim is lost, stopping the handler", "code", job.CodeStaleLease, "cause", a.lease.lost)
		go a.stop(a.lease.lost)
	}
}

// renewNow renews a lease that ran out before its claim was settled, and returns
// why that could not be done.
func (a *attempt) renewNow() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.renew()
}

// renew runs one renewal, bounded by itself, and plans the next. mu is held, but
// not while the server is waited for.
func (a *attempt) renew() error {
	l := &a.lease
	flying := make(chan struct{})
	l.flying, l.sent, l.wanted = flying, time.Now(), time.Time{}
	claim, progress := *l.claim, a.task.takeProgress()
	if progress != nil {
		l.stored = l.sent
	}
	limit := max(l.every(renewalsPerLease), minRenewLimit)
	a.mu.Unlock()
	ctx, cancel := context.WithTimeout(a.worker.base, limit)
	renewed, err := a.worker.fabric.Renew(ctx, claim, progress)
	cancel()
	a.mu.Lock()
	l.flying = nil
	close(flying)
	switch {
	case err == nil:
		a.renewed(renewed)
	case gone(err):
		l.lost = lossCause(renewed.Job, claim.Job)
		return err
	default:
		a.failed(progress, err)
	}
	if !a.ended {
		l.plan()
	}
	return err
}

func (a *attempt) renewed(c job.Claim) {
	l := &a.lease
	if l.failures > 0 {
		a.task.Log().Info("lease is renewed again", "failures", l.failures)
	}
	next := *l.claim
	next.Job, next.Token = c.Job, c.Token
	if c.Lease > 0 { // the stage's setting may have changed
		next.Lease = c.Lease
	}
	l.claim, l.failures, l.expiryTold = &next, 0, false
	l.until = l.sent.Add(l.claim.Lease)
	l.regular = l.sent.Add(l.every(renewalsPerLease))
}

// failed plans another try soon, also when the lease has run out: it can still be
// had as long as nobody took the job, and once the server is back that is a race.
func (a *attempt) failed(progress json.RawMessage, err error) {
	if progress != nil && !errors.Is(err, job.ErrInvalidJob) {
		a.task.putBackProgress(progress) // else the progress may be what was refused
	}
	now, l := time.Now(), &a.lease
	a.logFailure(err, !l.expiryTold && !now.Before(l.until))
	l.failures++
	l.regular = now.Add(l.every(retriesPerLease))
}

// logFailure says it when the trouble begins and when the lease has run out, and
// in between only to who wants the details: one line a try from every claim would
// bury what matters.
func (a *attempt) logFailure(err error, ranOut bool) {
	log, l := a.task.Log(), &a.lease
	switch {
	case ranOut:
		l.expiryTold = true
		log.Warn("lease ran out and is still not renewed, trying on", "error", err)
	case l.failures == 0:
		log.Warn("lease was not renewed, trying again", "error", err, "lease_left", time.Until(l.until))
	default:
		log.Debug("lease was not renewed, trying again", "error", err)
	}
}

// gone tells errors after which the claim is nobody's to renew or settle.
func gone(err error) bool {
	for _, target := range []error{job.ErrStaleLease, job.ErrTerminalJob, job.ErrMissingJob, job.ErrFenceChanged} {
		if errors.Is(err, target) {
			return true
		}
	}
	return false
}

// lossCause tells a cancelled job from one that somebody else took: now is the
// record that came with the refusal, held the one the claim was for.
func lossCause(now, held job.Job) error {
	if now.ID == held.ID && now.State == job.StateCancelled {
		return &CancelledError{Reason: now.Reason}
	}
	return ErrLeaseLost
}

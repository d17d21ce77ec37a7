package worker

import (
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
	// minRenewLimit and minSettleLimit bound a call that has little of its lease
	// left, for a late write counts as long as nobody took the job over.
	minRenewLimit  = 2 * time.Second
	minSettleLimit = 10 * time.Second
)

// lease keeps one claim alive. All its fields belong to the goroutine of the
// attempt; the only other goroutine is the renewal under way, which has its own
// copy of the claim and answers through answers. While it is under way nothing
// else is written for the claim.
//
// The next renewal is at the earlier of regular and wanted. Renewals are paced a
// claim at a time, so one that is stuck delays no other.
type lease struct {
	fabric Fabric
	task   *Task

	claim   *job.Claim      // as it stands; never written, a renewal puts another in its place
	nudges  <-chan struct{} // the claim's Nudge, nil once it was closed
	until   time.Time       // when the lease runs out, by this process's clock
	sent    time.Time       // when the last renewal began
	stored  time.Time       // when the last renewal that carried progress began
	regular time.Time       // when the next renewal is due by cadence or retry
	wanted  time.Time       // an earlier one that a nudge or progress asks for, or zero
	timer   *time.Timer     // set while no renewal is under way and the lease is not lost

	flying     bool        // a renewal is under way
	answers    chan answer // room for one, so that a renewal never waits for its reader
	failures   int         // renewals that failed in a row
	expiryTold bool        // the log has it that the lease ran out among those failures
	lost       error       // why the claim may not be settled any more, or nil
}

// answer is what became of one renewal.
type answer struct {
	claim    job.Claim
	progress json.RawMessage
	err      error
}

func newLease(f Fabric, t *Task, c *job.Claim) *lease {
	now := time.Now()
	l := &lease{
		fabric: f, task: t, claim: c, nudges: c.Nudge,
		until: now.Add(c.Lease), answers: make(chan answer, 1),
	}
	l.regular = now.Add(l.every(renewalsPerLease))
	l.timer = time.NewTimer(time.Until(l.regular))
	return l
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
	if !l.flying && l.lost == nil {
		l.plan()
	}
}

// nudged reacts to one receive from nudges.
func (l *lease) nudged(open bool) {
	if !open {
		l.nudges = nil
		return
	}
	l.want(l.sent.Add(nudgeGap))
}

// reported reacts to progress.
func (l *lease) reported() { l.want(l.stored.Add(progressGap)) }

// begin starts a renewal. It is called for the timer, which is not set while one
// is under way or when the lease is lost, and by settle. ctx carries values
// alone; the call is bounded by itself.
func (l *lease) begin(ctx context.Context) {
	l.flying, l.sent, l.wanted = true, time.Now(), time.Time{}
	a := answer{claim: *l.claim, progress: l.task.takeProgress()}
	if a.progress != nil {
		l.stored = l.sent
	}
	ctx, cancel := context.WithTimeout(ctx, max(l.every(renewalsPerLease), minRenewLimit))
	go func() {
		defer cancel()
		a.claim, a.err = l.fabric.Renew(ctx, a.claim, a.progress)
		l.answers <- a
	}()
}

// land waits for the renewal under way, if there is one.
func (l *lease) land() {
	if l.flying {
		l.absorb(<-l.answers)
	}
}

// absorb takes in what became of a renewal and plans the next. It returns why
// the lease is lost, or nil.
func (l *lease) absorb(a answer) error {
	l.flying = false
	switch {
	case a.err == nil:
		l.renewed(a)
	case gone(a.err):
		l.lost = lossCause(a.claim.Job, l.claim.Job)
		l.timer.Stop()
		return l.lost
	default:
		l.failed(a)
	}
	l.plan()
	return nil
}

func (l *lease) renewed(a answer) {
	if l.failures > 0 {
		l.task.Log().Info("lease is renewed again", "failures", l.failures)
	}
	next := *l.claim
	next.Job, next.Token = a.claim.Job, a.claim.Token
	if a.claim.Lease > 0 { // the stage's setting may have changed
		next.Lease = a.claim.Lease
	}
	l.claim, l.failures, l.expiryTold = &next, 0, false
	l.until = l.sent.Add(l.claim.Lease)
	l.regular = l.sent.Add(l.every(renewalsPerLease))
}

// failed plans another try soon, also when the lease has run out: it can still be
// had as long as nobody took the job, and once the server is back that is a race.
func (l *lease) failed(a answer) {
	if a.progress != nil && !errors.Is(a.err, job.ErrInvalidJob) {
		l.task.putBackProgress(a.progress) // else the progress may be what was refused
	}
	now := time.Now()
	l.logFailure(a.err, !l.expiryTold && !now.Before(l.until))
	l.failures++
	l.regular = now.Add(l.every(retriesPerLease))
}

// logFailure says it when the trouble begins and when the lease has run out, and
// in between only to who wants the details: one line a try from every claim would
// bury what matters.
func (l *lease) logFailure(err error, ranOut bool) {
	log := l.task.Log()
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

// settle ends the claim. ctx carries values alone; the call is bounded by what
// is left of the lease, though not to less than minSettleLimit, and with an output
// to store by the fabric, which keeps the lease meanwhile. A lease that ran out is
// renewed first. No renewal may be under way.
func (l *lease) settle(ctx context.Context, o job.Outcome) error {
	if o.Open() == nil {
		bounded, cancel := context.WithTimeout(ctx, max(time.Until(l.until), minSettleLimit))
		defer cancel()
		ctx = bounded
	}
	err := l.fabric.Settle(ctx, *l.claim, o)
	if errors.Is(err, job.ErrLeaseExpired) {
		l.begin(ctx)
		a := <-l.answers
		if l.absorb(a); a.err != nil {
			return a.err
		}
		err = l.fabric.Settle(ctx, *l.claim, o)
	}
	return err
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

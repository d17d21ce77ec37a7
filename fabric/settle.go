package fabric

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/weft-fabric/weft/job"
	"github.com/weft-fabric/weft/kv"
)

// Settle ends a claim: first in the record, then in the work queue. Writes that
// stay undecided are repeated until ctx ends. It fails with job.ErrStaleLease
// when the job is no longer this worker's, and the outcome is dropped. Settling
// once more in the same way what was settled is a success; another outcome is
// refused, since the first one stands.
//
// An output may take longer to store than the lease lasts. Settle renews the
// lease meanwhile, so the caller need not, and if ctx has no deadline it gives up
// once the lease has run out and cannot be renewed.
func (r *Runner) Settle(ctx context.Context, c job.Claim, o job.Outcome) error {
	h := r.holding(c.Token)
	if h == nil {
		r.Leave(c)
		return r.settledBefore(ctx, c.Token, o)
	}
	if outputToStore(o) {
		var err error
		if o, err = r.stored(ctx, h, c, o); err != nil {
			return err
		}
		var cancel context.CancelFunc
		ctx, cancel = within(ctx, h.left())
		defer cancel()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.settled { // by another call, while this one waited
		return r.settledBefore(ctx, c.Token, o)
	}
	if r.f.opts.Faults.AckBeforeWrite {
		h.item.Ack()
	}
	return r.ended(ctx, h, c.Token, o, r.end(ctx, h, o))
}

// ended goes on when the outcome's transition was run. h.mu is held.
func (r *Runner) ended(ctx context.Context, h *holding, t job.Token, o job.Outcome, err error) error {
	if errors.Is(err, job.ErrStaleLease) && settledAs(h.rec.Job, t, o) {
		err = nil // an earlier try, whose answer was lost, has done it
	}
	if errors.Is(err, job.ErrStaleLease) {
		r.f.opts.Observer.Lost(h.stage.Name, h.rec.Job.State)
	}
	if err != nil {
		return err
	}
	h.settled = true
	r.drop(t.JobID, h)
	r.leave(h)
	return r.followUp(ctx, h)
}

// end runs the outcome's transition. A lease that ran out while nobody took the
// job is renewed first.
func (r *Runner) end(ctx context.Context, h *holding, o job.Outcome) error {
	err := r.change(ctx, h, func(j job.Job) (job.Job, error) { return r.settle(j, o) })
	if !errors.Is(err, job.ErrLeaseExpired) {
		return err
	}
	err = r.change(ctx, h, func(j job.Job) (job.Job, error) {
		next, _, err := j.Renew(j.Token(), r.id, r.f.Now(), h.stage.Lease)
		return next, err
	})
	if err != nil {
		return err
	}
	return r.change(ctx, h, func(j job.Job) (job.Job, error) { return r.settle(j, o) })
}

// settle is the transition that an outcome asks for.
func (r *Runner) settle(j job.Job, o job.Outcome) (job.Job, error) {
	now, token := r.f.Now(), j.Token()
	switch o.Kind() {
	case job.KindCompleted:
		return j.Complete(token, r.id, o.OutputRef(), now)
	case job.KindDiscarded:
		return j.FailPermanently(token, r.id, orElse(o.Reason(), "discarded by its handler"), now)
	case job.KindReturned:
		return j.Return(token, r.id, o.Reason(), now, r.delay(o, int64(j.Returns())+1))
	case job.KindReleased:
		return j.Release(token, r.id, now)
	case job.KindFailed:
		return j.Fail(token, r.id, o.Reason(), now, r.delay(o, j.Attempt))
	}
	return j, job.Invalid("outcome: the handler gave none")
}

// delay is the wait that the handler asked for, or the backoff of the n-th time.
func (r *Runner) delay(o job.Outcome, n int64) time.Duration {
	if d, asked := o.Delay(); asked {
		return max(0, d)
	}
	return r.f.opts.Backoff.Delay(n, rand.Float64())
}

// followUp does with the item what the record now says: nothing more to do, or
// again now, or again later. If that fails, the item comes back after ack-wait
// and its next taker does it.
func (r *Runner) followUp(ctx context.Context, h *holding) error {
	if h.rec.Job.State.Terminal() {
		h.item.Ack()
		return nil
	}
	later := r.f.byScheduleAt(h.rec.Job.AvailableAt)
	if err := r.f.offer(ctx, h.rec); err != nil {
		r.log.Warn("job recorded, but not offered again yet", attemptOf(h.rec.Job), "error", err)
		return nil
	}
	r.remember(h.stage, h.rec.Job)
	if later { // offered now, it has replaced the item that would be acknowledged
		h.item.Ack()
	}
	return nil
}

// settledBefore answers for a claim that this process does not hold: if its
// record shows that it was settled in this way, once more is a success.
func (r *Runner) settledBefore(ctx context.Context, t job.Token, o job.Outcome) error {
	rec, err := r.f.bucket.Load(ctx, t.JobID)
	if err != nil && !errors.Is(err, job.ErrMissingJob) && !errors.Is(err, kv.ErrUnreadable) {
		return explain(r.f.nc, err)
	}
	if err == nil && settledAs(rec.Job, t, o) {
		return nil
	}
	return stale(t.JobID)
}

// settledAs reports whether the record's history shows that the claim's holder
// settled it with this outcome.
func settledAs(j job.Job, t job.Token, o job.Outcome) bool {
	for _, a := range j.AttemptsLog {
		if a.Fence != t.Fence || a.Worker != t.WorkerID || !slices.Contains(endings(o.Kind()), a.Outcome) {
			continue
		}
		return a.Outcome != job.AttemptSucceeded || sameOutput(j, o)
	}
	return false
}

// sameOutput reports whether an outcome has the output that was recorded. Of one
// that is an object, whose name says whose it is, the bytes are not compared.
func sameOutput(j job.Job, o job.Outcome) bool {
	if o.OutputRef() != "" || o.Open() == nil {
		return o.OutputRef() == j.OutputRef
	}
	body, err := o.Open()()
	if err != nil {
		return false
	}
	defer body.Close()
	ref, err := inline(body)
	return err == nil && (ref == j.OutputRef || ref == "" && strings.HasPrefix(j.OutputRef, objectScheme))
}

// endings are what history has of an outcome. A job that was returned too often
// has failed.
func endings(kind job.OutcomeKind) []job.AttemptOutcome {
	switch kind {
	case job.KindCompleted:
		return []job.AttemptOutcome{job.AttemptSucceeded}
	case job.KindFailed, job.KindDiscarded:
		return []job.AttemptOutcome{job.AttemptFailed}
	case job.KindReturned:
		return []job.AttemptOutcome{job.AttemptReturned, job.AttemptFailed}
	case job.KindReleased:
		return []job.AttemptOutcome{job.AttemptReleased}
	}
	return nil
}

func orElse(text, fallback string) string {
	if text == "" {
		return fallback
	}
	return text
}

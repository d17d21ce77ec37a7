package fabric

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/weft-fabric/weft/job"
	"github.com/weft-fabric/weft/kv"
)

// Renew extends a lease by the stage's lease from now, first in the record and
// only then in the work queue, and stores progress if there is any. A lease that
// ran out is renewed while nobody else took the job. It fails with
// job.ErrStaleLease when the job is no longer this worker's; the returned claim
// then has the job as it stands, if it could be read.
func (r *Runner) Renew(ctx context.Context, c job.Claim, progress json.RawMessage) (job.Claim, error) {
	if len(progress) > job.MaxProgressSize || progress != nil && !json.Valid(progress) {
		return c, job.Invalid("progress must be JSON of at most %d bytes", job.MaxProgressSize)
	}
	h := r.holding(c.Token)
	if h == nil {
		return r.lost(ctx, c)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if r.f.opts.Faults.InProgressWithoutWrite {
		h.item.InProgress()
		return h.claim(), nil
	}
	err := r.change(ctx, h, func(j job.Job) (job.Job, error) {
		next, _, err := j.Renew(j.Token(), r.id, r.f.Now(), h.stage.Lease)
		if err == nil && progress != nil {
			next.Progress = progress
		}
		return next, err
	})
	r.f.opts.Observer.Renewed(h.stage.Name, err)
	if errors.Is(err, job.ErrStaleLease) || errors.Is(err, job.ErrMissingJob) {
		r.f.opts.Observer.Lost(h.stage.Name, h.rec.Job.State)
		c.Job = h.rec.Job
		return c, err
	}
	if err != nil {
		return c, err
	}
	r.stay(ctx, h, r.f.Now().UnixNano() >= h.until.Load())
	h.overdue.Store(false)
	h.until.Store(h.rec.Job.LeaseExpiresAt.UnixNano())
	h.item.InProgress()
	return h.claim(), nil
}

// lost answers for a claim that this process does not hold (any more).
func (r *Runner) lost(ctx context.Context, c job.Claim) (job.Claim, error) {
	if rec, err := r.f.bucket.Load(ctx, c.Token.JobID); err == nil {
		c.Job = rec.Job
	}
	return c, stale(c.Token.JobID)
}

// change runs a transition of the holder on its record and saves it. When the
// record moved, but is still leased to this claim, an earlier write of the claim
// has arrived late: its token is adopted and the transition run again. Otherwise
// somebody else decided, the claim is dropped, and the error is
// job.ErrStaleLease; h.rec then is what they wrote. h.mu is held.
func (r *Runner) change(ctx context.Context, h *holding, step func(job.Job) (job.Job, error)) error {
	id := h.rec.Job.ID
	if h.settled {
		return stale(id)
	}
	for range maxRounds {
		next, err := step(h.rec.Job)
		if err != nil {
			return fmt.Errorf("job %s: %w", id, err)
		}
		rec, err := r.f.bucket.Save(ctx, next, h.rec.Revision, r.f.opts.Retention.of(next.State))
		again, err := r.changed(h, rec, err)
		if !again {
			return err
		}
	}
	return errRestless
}

// changed takes in what became of a write of the holder. again means that the
// record has moved, is still this claim's, and the transition is to be run anew.
// h.mu is held.
func (r *Runner) changed(h *holding, rec kv.Record, err error) (again bool, _ error) {
	conflict, moved := errors.AsType[*kv.Conflict](err)
	if !moved {
		if err != nil {
			return false, explain(r.f.nc, err)
		}
		r.f.observe(&h.rec.Job, &rec.Job)
		h.rec = rec
		return false, nil
	}
	id := h.rec.Job.ID
	rec, err = kv.RecordOf(id, conflict.Current)
	if err == nil {
		h.rec = rec
	}
	if err != nil || !r.mine(h, rec.Job) {
		h.settled = true
		r.drop(id, h)
		r.lose(h)
		return false, stale(id)
	}
	return true, nil
}

// mine reports whether the record is leased to this very claim. Fences are not
// given twice, so worker and fence together name one claim.
func (r *Runner) mine(h *holding, j job.Job) bool {
	return j.State == job.StateLeased && j.WorkerID == r.id && j.Fence == h.fence
}

package fabric

import (
	"context"
	"errors"
	"time"

	"github.com/weft-fabric/weft/job"
	"github.com/weft-fabric/weft/kv"
	"github.com/weft-fabric/weft/stream"
)

// A claim is named by its worker and its fence, and its truth is the record alone.
// So a process that did not make a claim, but acts for the same worker, can take
// it up: what it lacks is the delivery of the item, and without that it can
// neither report it in progress nor give it back. The item then comes to another
// taker once ack-wait has passed, which finds the lease held and puts it off.
// That two processes hold one claim is safe, since each of their changes is a
// compare-and-set of the same record, and the first that settles wins.

// Resume takes up a claim that another process made for this worker, so that
// Renew and Settle work with its token here. It does nothing when the job is held
// here, and nothing when it is no longer the token's: the call that follows says
// what became of it.
func (r *Runner) Resume(ctx context.Context, t job.Token) error {
	if t.WorkerID != r.id || r.holding(t) != nil || r.ancient(t) {
		return nil
	}
	rec, err := r.f.bucket.Load(ctx, t.JobID)
	switch {
	case errors.Is(err, job.ErrMissingJob), errors.Is(err, kv.ErrUnreadable):
		return nil
	case err != nil:
		return explain(r.f.nc, err)
	case !holds(rec.Job, t):
		return nil
	}
	st, err := r.f.stages.get(ctx, rec.Job.Stage, rec.Job.Lane())
	if err != nil {
		return err
	}
	item, there, err := r.f.queue.Pick(ctx, rec.Job.Stage, rec.Job.Lane(), t.JobID)
	if err != nil {
		return explain(r.f.nc, err)
	}
	if !there || item.Seq != rec.Job.ItemSeq {
		item = &stream.Delivery{} // not the one that was taken: left to its own taker
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if known := r.claims[t.JobID]; known == nil || known.fence < t.Fence {
		r.claims[t.JobID] = newHolding(item, rec, st)
	}
	return nil
}

// holds reports whether the record is leased to the claim that a token names.
func holds(j job.Job, t job.Token) bool {
	return j.State == job.StateLeased && j.WorkerID == t.WorkerID && j.Fence == t.Fence && j.InputRevision == t.InputRevision
}

// ancient reports whether a token is so old that its record may be gone and its
// id used again, with fences that begin anew.
func (r *Runner) ancient(t job.Token) bool {
	return t.ExpiresAt.Add(r.f.opts.Retention.shortest() / 2).Before(r.f.Now())
}

// Forget drops what is held here and was neither renewed nor settled for so many
// leases after its lease ran out, and tells how many claims are left. The jobs
// are not touched: the keeper, or whoever takes them, ends their leases.
func (r *Runner) Forget(leases int) (held int) {
	now := r.f.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, h := range r.claims {
		until := time.Unix(0, h.until.Load())
		if until.Add(time.Duration(leases) * h.stage.Lease).Before(now) {
			delete(r.claims, id)
		}
	}
	return len(r.claims)
}

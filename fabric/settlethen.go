package fabric

import (
	"context"

	"github.com/weft-fabric/weft/job"
	"github.com/weft-fabric/weft/kv"
)

// SettleThen is Settle for a worker that does not wait: it calls then, once, with
// what Settle would return, from any goroutine. then must not block, since other
// answers of the server may wait behind it. Without a deadline in ctx undecided
// writes are repeated for what is left of the lease, and for 10 s at least.
//
// Nearly every settlement is one write that succeeds and an acknowledgement; it
// needs no goroutine while it is on its way.
func (r *Runner) SettleThen(ctx context.Context, c job.Claim, o job.Outcome, then func(error)) {
	h := r.holding(c.Token)
	if h == nil || !r.settleStraight(ctx, h, c.Token, o, then) {
		r.settleAside(ctx, h, c, o, then)
	}
}

// settleAside settles in a goroutine of its own.
func (r *Runner) settleAside(ctx context.Context, h *holding, c job.Claim, o job.Outcome, then func(error)) {
	go func() {
		limit := leastLeft
		if h != nil {
			limit = h.left()
		}
		if h == nil || !outputToStore(o) { // else the lease is kept meanwhile
			var cancel context.CancelFunc
			ctx, cancel = within(ctx, limit)
			defer cancel()
		}
		then(r.Settle(ctx, c, o))
	}()
}

// settleStraight sends the write of an outcome that ends the job. It reports false,
// and has done nothing, if there is more to do than that write.
func (r *Runner) settleStraight(ctx context.Context, h *holding, t job.Token, o job.Outcome, then func(error)) bool {
	if outputToStore(o) || len(h.gates) > 0 || r.f.opts.Faults.AckBeforeWrite || !h.mu.TryLock() {
		return false
	}
	if h.settled {
		h.mu.Unlock()
		return false
	}
	next, err := r.settle(h.rec.Job, o)
	if err != nil || !next.State.Terminal() {
		h.mu.Unlock()
		return false
	}
	told := ended(&h.rec.Job, &next)
	// mu stays held until the write has been answered.
	r.f.bucket.BeginJob(&next, h.rec.Revision, r.f.opts.Retention.of(next.State), func(p *kv.Pending) {
		revision, ok := p.Done()
		if !ok {
			go func() { then(r.settleOn(ctx, h, t, o, p)) }()
			return
		}
		r.f.tell(told)
		h.rec.Revision, h.settled = revision, true // nobody looks at the rest of it any more
		r.drop(t.JobID, h)
		h.item.Ack()
		h.mu.Unlock()
		then(nil)
	})
	return true
}

// settleOn goes on with a settlement whose write was refused or not answered. It
// releases mu, which is held.
func (r *Runner) settleOn(ctx context.Context, h *holding, t job.Token, o job.Outcome, p *kv.Pending) error {
	defer h.mu.Unlock()
	ctx, cancel := within(ctx, h.left())
	defer cancel()
	revision, err := p.End(ctx)
	rec := kv.Record{Revision: revision, Raw: p.Value()}
	if err == nil {
		rec.Job, err = job.Decode(p.Value())
	}
	again, err := r.changed(h, rec, err)
	if again {
		err = r.end(ctx, h, o)
	}
	return r.ended(ctx, h, t, o, err)
}

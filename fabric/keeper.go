package fabric

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/weft-fabric/weft/job"
	"github.com/weft-fabric/weft/kv"
)

// The keeper keeps moving what nobody holds. Any number of processes may run
// one; one of them leads, and even two that believe they lead do no harm, since
// all they do is the same compare-and-sets and hints as everybody's.

const (
	// keeperGrace is how long a record may be without its item, or a pointer
	// without its move, before the keeper does it for whoever began.
	keeperGrace = 5 * time.Second
	// expiryGrace is how long after its end the keeper lets a lease be renewed
	// by its holder or taken over by a taker of its item.
	expiryGrace = time.Second
	// keeperTick is how often the keeper looks at what has become due.
	keeperTick = 500 * time.Millisecond
	// auditEvery is how often all waiting records are held against all items.
	auditEvery = 5 * time.Minute
	// keeperHands is how many jobs the keeper works on at once.
	keeperHands = 16
)

// Keep runs a keeper until ctx ends. It returns after its last write, and gives
// the lead up.
func (f *Fabric) Keep(ctx context.Context) error {
	return newElection(f).run(ctx, func(ctx context.Context) error {
		k := &keeper{f: f, index: newIndex(), wake: make(chan struct{}, 1)}
		return k.lead(ctx)
	})
}

// keeper is one term of leading.
type keeper struct {
	f     *Fabric
	index *index
	wake  chan struct{} // a dependency has ended
}

// lead works until ctx ends or the watch breaks. Nothing is done before the
// watch has shown everything that is there.
func (k *keeper) lead(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var working sync.WaitGroup
	defer working.Wait()
	defer cancel()
	for change, err := range k.f.bucket.Watch(ctx, kv.AllJobs) {
		if err != nil {
			return err
		}
		if change.Synced {
			k.f.log.Info("keeper leads")
			working.Go(func() { k.work(ctx) })
			working.Go(func() { k.audits(ctx) })
			continue
		}
		k.observe(change.Entry)
	}
	return ctx.Err()
}

// observe notes what a change means for the keeper.
func (k *keeper) observe(e kv.Entry) {
	id, ok := kv.JobID(e.Key)
	if !ok {
		return
	}
	if e.Marker {
		k.index.remove(id)
		return
	}
	rec, err := kv.RecordOf(id, e)
	if err != nil {
		k.index.remove(id)
		k.f.log.Error("record left as it is", "job", id, "error", err)
		return
	}
	if k.index.put(rec.Job, time.Now()) {
		select {
		case k.wake <- struct{}{}:
		default:
		}
	}
}

// work does what is due, again and again.
func (k *keeper) work(ctx context.Context) {
	tick := time.NewTicker(keeperTick)
	defer tick.Stop()
	for {
		due := k.index.due(time.Now(), k.f.Now())
		k.each(ctx, due.blocked, k.lookAtDependencies)
		k.each(ctx, due.expired, k.expire)
		k.each(ctx, due.settledDown, k.complete)
		select {
		case <-ctx.Done():
			return
		case <-k.wake:
		case <-tick.C:
		}
	}
}

// each runs one action on many jobs, some at a time. An action that fails is
// logged, and found due again by the audit or a later change.
func (k *keeper) each(ctx context.Context, ids []string, act func(context.Context, string) error) {
	var acting sync.WaitGroup
	hands := make(chan struct{}, keeperHands)
	for _, id := range ids {
		if ctx.Err() != nil {
			break
		}
		hands <- struct{}{}
		acting.Go(func() {
			defer func() { <-hands }()
			if err := act(ctx, id); err != nil && ctx.Err() == nil && !harmless(err) {
				k.f.log.Warn("keeper", "job", id, "error", err)
			}
		})
	}
	acting.Wait()
}

// harmless are refusals which say that somebody else was faster.
func harmless(err error) bool {
	return errors.Is(err, job.ErrTerminalJob) || errors.Is(err, job.ErrMissingJob) ||
		errors.Is(err, job.ErrLeaseHeld) || errors.Is(err, job.ErrStaleLease) || errors.Is(err, job.ErrFenceChanged)
}

// expire ends an attempt whose lease is past its end, so that the state is true
// even if no worker lives, and offers the job again.
func (k *keeper) expire(ctx context.Context, id string) error {
	rec, err := k.f.bucket.Load(ctx, id)
	if err != nil {
		return err
	}
	if rec.Job.State != job.StateLeased || k.f.Now().Before(rec.Job.LeaseExpiresAt.Add(expiryGrace)) {
		return nil // renewed or taken over meanwhile: the watch brings it
	}
	st, err := k.f.stages.get(ctx, rec.Job.Stage, rec.Job.Lane())
	if err != nil {
		return err
	}
	if k.f.clock.steppedWithin(st.Lease) {
		k.index.put(rec.Job, time.Now()) // its deadline may be of the old time: look again
		return nil
	}
	fence := rec.Job.Fence
	rec, err = k.f.transition(ctx, rec, func(j job.Job) (job.Job, error) { return j.Expire(fence, k.f.Now()) })
	if err != nil {
		return err
	}
	k.f.log.Info("lease expired", "job", id, "fence", fence, "state", rec.Job.State)
	return k.f.offer(ctx, rec)
}

// complete makes good what an enqueue, a retry or a release did not get done:
// the move of its key's pointer, and its item.
func (k *keeper) complete(ctx context.Context, id string) error {
	rec, err := k.f.bucket.Load(ctx, id)
	if err != nil || rec.Job.State.Terminal() {
		return err
	}
	if rec, err = k.f.makeCurrent(ctx, rec); err != nil {
		return err
	}
	for _, other := range k.index.rivals(rec.Job) {
		if err := k.f.supersede(ctx, other, pointerTo(rec.Job)); err != nil {
			return err
		}
	}
	return k.offerMissing(ctx, rec)
}

// offerMissing offers a ready job that has neither item nor schedule.
func (k *keeper) offerMissing(ctx context.Context, rec kv.Record) error {
	if !ready(rec.Job) {
		return nil
	}
	there, err := k.f.queue.Offered(ctx, rec.Job.Stage, rec.Job.Lane(), rec.Job.ID)
	if err != nil || there {
		return err
	}
	// The item may be away because a worker has just taken it to its end.
	now, err := k.f.bucket.Load(ctx, rec.Job.ID)
	if err != nil || now.Revision != rec.Revision {
		return err
	}
	k.f.log.Info("job offered again", "job", rec.Job.ID, "stage", rec.Job.Stage)
	return k.f.offer(ctx, rec)
}

package fabric

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
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
	// auditEvery is how often all waiting records are held against all items: from
	// the beginning of an audit to that of the next.
	auditEvery = 5 * time.Minute
	// keeperHands is how many jobs the keeper works on at once.
	keeperHands = 16
	// probed is for how many jobs at once the keeper asks one by one whether
	// they have an item; for up to listed it lists all items, and more are left to
	// an audit, which comes the sooner.
	probed = 256
	listed = 20_000
	// auditRest lies at least between the end of an audit and one that a burst has
	// asked for, and as long as the audit took: it must not become what the server is
	// busy with. A list of all items, which takes what it can get, is followed by a
	// rest of restShare times as long.
	auditRest = keeperGrace
	restShare = 20
)

// Keep runs a keeper until ctx ends. It returns after its last write, and gives
// the lead up.
func (f *Fabric) Keep(ctx context.Context) error {
	e := newElection(f)
	return e.run(undated{ctx}, func(ctx context.Context) error {
		k := newKeeper(f)
		k.id = e.id
		return k.lead(ctx)
	})
}

// keeper is one term of leading.
type keeper struct {
	f       *Fabric
	id      string // by which it was elected
	index   *index
	tallies *tallies
	wake    chan struct{} // a dependency has ended
	burst   chan struct{} // more jobs wait than were probed
	changed atomic.Int64  // when the last change was followed, in nanoseconds since 1970
	synced  bool          // of the follower's goroutine alone: everything that was there is known

	unproved []string  // of tidy alone: jobs that wait unchanged and may have no item
	nextList time.Time // of tidy alone: before that no items are listed
}

func newKeeper(f *Fabric) *keeper {
	return &keeper{
		f: f, index: newIndex(), tallies: newTallies(f.opts.Retention),
		wake: make(chan struct{}, 1), burst: make(chan struct{}, 1),
	}
}

// lead works until ctx ends or following breaks. Nothing is done before
// everything that is there has been seen.
func (k *keeper) lead(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var working sync.WaitGroup
	defer working.Wait()
	defer cancel()
	for change, err := range k.f.bucket.Follow(ctx, kv.AllJobs) {
		if err != nil {
			return err
		}
		if change.Synced {
			k.f.log.Info("keeper leads")
			k.f.opts.Observer.Leads(true)
			defer k.f.opts.Observer.Leads(false)
			k.synced = true
			working.Go(func() { k.work(ctx) })
			working.Go(func() { k.tidy(ctx) })
			working.Go(func() { k.audits(ctx) })
			working.Go(func() { k.publishCounts(ctx) })
			working.Go(func() { k.ticks(ctx) })
			working.Go(func() { k.crons(ctx) })
			working.Go(func() { k.sweeps(ctx) })
			continue
		}
		k.changed.Store(time.Now().UnixNano())
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
		k.tallies.gone(id)
		return
	}
	j, err := job.Peek(e.Value)
	if err != nil || j.ID != id {
		k.index.remove(id)
		k.tallies.gone(id)
		k.f.opts.Observer.Unreadable()
		k.f.log.Error("record left as it is", "job", id, "error", err)
		return
	}
	k.count(e, j)
	fresh := k.synced || k.f.Now().Sub(e.Created) <= keeperGrace
	if k.index.put(j, time.Now(), fresh) {
		select {
		case k.wake <- struct{}{}:
		default:
		}
	}
}

// work does what must not wait, again and again: dependencies and leases.
func (k *keeper) work(ctx context.Context) {
	tick := time.NewTicker(keeperTick)
	defer tick.Stop()
	for {
		blocked, expired := k.index.urgent(k.f.Now())
		k.each(ctx, blocked, k.lookAtDependencies)
		k.expireAll(ctx, expired)
		select {
		case <-ctx.Done():
			return
		case <-k.wake:
		case <-tick.C:
		}
	}
}

// tidy does what may wait, again and again: what somebody began and did not get
// done, and what failed before.
func (k *keeper) tidy(ctx context.Context) {
	tick := time.NewTicker(keeperTick)
	defer tick.Stop()
	for {
		settledDown, failed, contested := k.index.patient(time.Now())
		k.completeAll(ctx, settledDown)
		k.each(ctx, failed, k.lookAgain)
		k.settleKeys(ctx, contested)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// each runs one action on many jobs, some at a time. A job whose action fails is
// looked at again after the grace.
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
				k.f.log.Warn("keeper failed, it tries again", "job", id, "error", err)
				k.index.again([]string{id}, time.Now())
			}
		})
	}
	acting.Wait()
}

// harmless are refusals which say that somebody else was faster.
func harmless(err error) bool {
	return errors.Is(err, job.ErrTerminalJob) || errors.Is(err, job.ErrMissingJob) ||
		errors.Is(err, job.ErrLeaseHeld) || errors.Is(err, job.ErrStaleLease) || errors.Is(err, job.ErrFenceChanged) ||
		errors.Is(err, errDone) || errors.Is(err, kv.ErrUnreadable)
}

// errDone ends a transition for which somebody else has left nothing to do.
var errDone = errors.New("done by somebody else")

// lookAgain does for a job whatever its state asks for, since something failed.
func (k *keeper) lookAgain(ctx context.Context, id string) error {
	rec, err := k.f.bucket.Load(ctx, id)
	switch {
	case err != nil:
		return err
	case rec.Job.State == job.StateLeased:
		return k.expire(ctx, id)
	case len(rec.Job.WaitingOn) > 0:
		return k.lookAtDependencies(ctx, id)
	}
	return k.complete(ctx, id)
}

// expireAll ends attempts whose leases seem to have run out. The clock is
// measured first: this process's own may have been set in between, and a lease
// must not end by that.
func (k *keeper) expireAll(ctx context.Context, ids []string) {
	if len(ids) == 0 {
		return
	}
	if err := k.f.clock.measure(ctx); err != nil {
		k.index.again(ids, time.Now())
		return
	}
	k.each(ctx, ids, k.expire)
}

// expire ends an attempt whose lease is past its end, so that the state is true
// even if no worker lives, and offers the job again.
func (k *keeper) expire(ctx context.Context, id string) error {
	rec, err := k.f.bucket.Load(ctx, id)
	if err != nil {
		return err
	}
	if rec.Job.State != job.StateLeased {
		return nil
	}
	if k.f.Now().Before(rec.Job.LeaseExpiresAt.Add(expiryGrace)) { // renewed meanwhile, or it was the clock
		k.index.lasts(id, rec.Job.LeaseExpiresAt)
		return nil
	}
	st, err := k.f.stages.get(ctx, rec.Job.Stage, rec.Job.Lane())
	if err != nil {
		return err
	}
	if k.f.clock.distrusted(st.Lease) {
		k.index.again([]string{id}, time.Now())
		return nil
	}
	held := rec.Job
	rec, err = k.f.transition(ctx, rec, func(j job.Job) (job.Job, error) { return j.Expire(held.Fence, k.f.Now()) })
	if err != nil {
		return err
	}
	k.f.opts.Observer.Kept(ExpiredLease)
	k.f.log.Info("lease expired", attemptOf(held), "worker", held.WorkerID, "state", rec.Job.State)
	return k.f.offer(ctx, rec)
}

// completeAll completes jobs that wait unchanged. Nearly all of many have been
// enqueued whole and only wait for their turn, which a list of all items shows.
func (k *keeper) completeAll(ctx context.Context, ids []string) {
	k.unproved = append(k.unproved, ids...)
	switch n := len(k.unproved); {
	case n > listed:
		select {
		case k.burst <- struct{}{}:
		default: // it is known already
		}
	case n > probed:
		began := time.Now()
		if began.Before(k.nextList) {
			return
		}
		offered, err := k.offered(ctx)
		k.nextList = time.Now().Add(restShare * time.Since(began))
		if err != nil {
			return
		}
		k.each(ctx, slices.DeleteFunc(k.unproved, offered.has), k.complete)
	default:
		k.each(ctx, k.unproved, k.complete)
	}
	k.unproved = nil
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
	return k.offerMissing(ctx, rec)
}

// settleKeys cancels the live jobs of a key that its pointer is ahead of, where
// whoever moved the pointer did not get that far.
func (k *keeper) settleKeys(ctx context.Context, keys []string) {
	for _, key := range keys {
		p, _, err := k.f.pointer(ctx, key)
		for _, j := range k.index.live(key) {
			if err != nil || !p.ahead(j) {
				continue
			}
			var cancelled bool
			if cancelled, err = k.f.supersede(ctx, j.ID, p); cancelled {
				k.f.opts.Observer.Kept(CancelledSuperseded)
			}
		}
		if err != nil && ctx.Err() == nil {
			k.f.log.Warn("keeper failed, it tries again", "key", key, "error", err)
		}
	}
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
	// Somebody else may have offered it meanwhile, and a worker taken that item:
	// it must stay. No acknowledgement can be under way, since there was no item.
	if err := k.f.offerFirst(ctx, rec); err != nil {
		return err
	}
	k.f.opts.Observer.Kept(OfferedItem)
	return nil
}

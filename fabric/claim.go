package fabric

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weft-fabric/weft/job"
	"github.com/weft-fabric/weft/kv"
	"github.com/weft-fabric/weft/stream"
)

// taking is one item on its way to a claim, or to whatever its record says that
// it is instead.
type taking struct {
	r     *Runner
	ctx   context.Context
	item  *stream.Delivery
	stage Stage
	// guess is true while rec comes from the item's body and was not read.
	guess   bool
	rec     kv.Record
	counted bool   // the stage's rate has let the job begin
	gates   []gate // in which the job has a place
	entered holder // by which it has
}

// take claims the job of an item and calls done with it, or with nil when the
// item came to nothing: it was void, or not due, or somebody else's. The record
// is read only when the item's own copy of it turns out to be old.
//
// Nearly every item is what it says it is. Its claim is sent at once, needs no
// goroutine while it is on its way, and any number of them are at the same time.
func (r *Runner) take(d *stream.Delivery, done func(*holding)) {
	h := r.straight(d)
	if h == nil {
		t := &taking{r: r, item: d}
		go t.finish(done, t.run)
		return
	}
	r.f.bucket.BeginJob(&h.rec.Job, d.Revision, 0, func(p *kv.Pending) {
		if r.wonStraight(h, p) {
			done(h)
			return
		}
		t := &taking{r: r, item: d, stage: h.stage, guess: true}
		go t.finish(done, func() (*holding, bool, error) { return t.saved(t.end(h.rec.Job, p)) })
	})
}

// straight is what the claim of an item makes of its job, if the item's body can be
// taken for the record and nothing has to be read or asked for it; else nil.
func (r *Runner) straight(d *stream.Delivery) *holding {
	st, known := r.f.stages.known(d.Stage)
	if !known || !st.uses(d.Lane) || st.limited() || again(d) || r.held(d.JobID) != nil {
		return nil
	}
	j, ok := fromBody(d)
	if !ok || !j.State.Idle() || len(j.WaitingOn) > 0 {
		return nil
	}
	next, _, err := j.Claim(r.id, r.f.Now(), st.Lease)
	if err != nil {
		return nil
	}
	next.ItemSeq = d.Seq
	h := newHolding(d, kv.Record{Job: next}, st)
	h.available = availableSince(&j)
	return h
}

// again reports whether an item was delivered before. Its body then is most likely
// not what the bucket has: somebody has claimed the job meanwhile.
func again(d *stream.Delivery) bool { return d.Deliveries > 1 }

// wonStraight keeps a claim that was written and that nothing more is to be looked
// up for. It reports false for any other.
func (r *Runner) wonStraight(h *holding, p *kv.Pending) bool {
	revision, ok := p.Done()
	if !ok || h.rec.Job.Key != "" || !r.f.Now().Before(h.rec.Job.LeaseExpiresAt) {
		return false
	}
	h.rec.Revision, h.rec.Raw = revision, p.Value()
	r.f.observeWait(&h.rec.Job, h.available)
	r.keep(h)
	return true
}

// atOnce is how many items a runner looks up at once. A thousand orphans that all
// come in the same moment to a slow machine would otherwise share their time so
// that it is over for every one of them.
const atOnce = 64

// finish runs what is left of a claim, for as long as its lease would last. An item
// whose ack-wait is over before its turn comes again.
func (t *taking) finish(done func(*holding), first func() (*holding, bool, error)) {
	t.r.turns <- struct{}{}
	defer func() { <-t.r.turns }()
	if !t.item.Mine() {
		done(nil)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), max(t.leaseKnown(), MinLease))
	defer cancel()
	t.ctx = ctx
	h, again, err := first()
	for round := 0; again && err == nil; round++ {
		if round == maxRounds {
			err = errRestless
			break
		}
		h, again, err = t.try()
	}
	if h == nil {
		t.goBack()
	}
	if err != nil {
		// The item stays as it is and comes again after ack-wait.
		t.r.log.Warn("item not claimed", "job", t.item.JobID, "stage", t.item.Stage, "error", err)
		h = nil
	}
	done(h)
}

// leaseKnown is the stage's lease, which is the item's ack-wait too.
func (t *taking) leaseKnown() time.Duration {
	st, _ := t.r.f.stages.known(t.item.Stage)
	return st.Lease
}

// run looks the item up and says by again that there is something to claim.
func (t *taking) run() (h *holding, again bool, err error) {
	if job.CheckID(t.item.JobID) != nil || job.CheckStage(t.item.Stage) != nil {
		t.report("item removed: no job can have its subject", nil)
		t.item.Remove()
		return nil, false, nil
	}
	if t.stage, err = t.r.f.stages.get(t.ctx, t.item.Stage, t.item.Lane); err != nil {
		return nil, false, err
	}
	done, err := t.look()
	return nil, !done, err
}

// look finds the record to claim: the item's own copy of it, or the one that is
// read. It reports that the item is done with when there is nothing to claim.
func (t *taking) look() (done bool, err error) {
	h := t.r.held(t.item.JobID)
	if h == nil && !again(t.item) && t.fromBody() {
		return false, nil
	}
	if done, err := t.read(); done || err != nil || h == nil {
		return done, err
	}
	return t.heldHere(h), nil
}

// heldHere deals with an item whose job this process believes to hold, since it
// must not hold it twice. It reports false when that claim is over: somebody else
// has decided, or its holder was asked to renew and did not. Then the holder is
// told, and the job may be claimed anew. A write of the holder that is under way,
// or newer than what was read here, decides; the item waits for it.
func (t *taking) heldHere(h *holding) (done bool) {
	if !h.mu.TryLock() {
		t.item.Nak(t.stage.Lease / 3)
		return true
	}
	defer h.mu.Unlock()
	j, now := t.rec.Job, t.r.f.Now()
	if h.rec.Revision > t.rec.Revision {
		t.item.Nak(t.stage.Lease / 3)
		return true
	}
	if !h.settled && t.r.mine(h, j) {
		switch {
		case j.ItemSeq != t.item.Seq: // the holder has another item of the job: this one is a duplicate
			t.item.Remove()
			return true
		case now.Before(j.LeaseExpiresAt):
			t.item.Nak(j.LeaseExpiresAt.Sub(now))
			return true
		case h.overdue.CompareAndSwap(false, true):
			h.hint()
			t.item.Nak(t.stage.Lease / 3)
			return true
		}
	}
	if !h.settled {
		t.r.f.opts.Observer.Lost(t.item.Stage, j.State)
	}
	h.settled = true
	t.r.drop(j.ID, h)
	t.r.lose(h)
	h.hint()
	return false
}

// fromBody takes the record that the item carries for what the bucket has. If
// that is no longer so, the compare-and-set finds out.
func (t *taking) fromBody() bool {
	j, ok := fromBody(t.item)
	if ok {
		t.rec, t.guess = kv.Record{Job: j, Revision: t.item.Revision, Raw: t.item.Body}, true
	}
	return ok
}

// fromBody is the record that an item carries, if it does.
func fromBody(d *stream.Delivery) (job.Job, bool) {
	if d.Revision == 0 {
		return job.Job{}, false
	}
	j, err := job.Decode(d.Body)
	return j, err == nil && j.ID == d.JobID && j.Stage == d.Stage
}

// read looks the record up. It reports that the item is done with when there is
// nothing to claim.
func (t *taking) read() (done bool, err error) {
	rec, err := t.r.f.bucket.Load(t.ctx, t.item.JobID)
	return t.found(rec, err)
}

// found goes on with what a read or a conflict has shown.
func (t *taking) found(rec kv.Record, err error) (done bool, _ error) {
	t.guess = false
	switch {
	case errors.Is(err, kv.ErrUnreadable):
		t.r.f.opts.Observer.Unreadable()
		t.report("item removed: its record cannot be read; the audit offers the job again once it is repaired", err)
		t.item.Remove()
		return true, nil
	case errors.Is(err, job.ErrMissingJob):
		return t.adopt(rec.Revision)
	case err != nil:
		return false, err
	case rec.Job.Stage != t.item.Stage:
		t.report("item removed: its job belongs to another stage", fmt.Errorf("the record's stage is %q", rec.Job.Stage))
		t.item.Remove()
		return true, nil
	}
	t.rec = rec
	return false, nil
}

// try runs the claim once. again means that the record has moved or was a guess
// that proved wrong, and that t now has what it is.
func (t *taking) try() (h *holding, again bool, err error) {
	now := t.r.f.Now()
	if len(t.rec.Job.WaitingOn) > 0 {
		return t.refused(nil, now)
	}
	next, _, err := t.rec.Job.Claim(t.r.id, now, t.stage.Lease)
	if err == nil && t.overByTheClockAlone() {
		err = &job.Error{Code: job.CodeLeaseHeld, ExpiresAt: t.rec.Job.LeaseExpiresAt}
	}
	if err != nil {
		return t.refused(err, now)
	}
	if t.stage.limited() {
		if ok, err := t.pass(next); !ok || err != nil {
			return nil, false, err
		}
		if next, _, err = t.rec.Job.Claim(t.r.id, t.r.f.Now(), t.stage.Lease); err != nil { // that took its time
			return nil, false, err
		}
	}
	next.ItemSeq = t.item.Seq
	return t.saved(t.r.f.bucket.Save(t.ctx, next, t.rec.Revision, 0))
}

// end waits for a claim that was sent.
func (t *taking) end(next job.Job, p *kv.Pending) (kv.Record, error) {
	revision, err := p.End(t.ctx)
	return kv.Record{Job: next, Revision: revision, Raw: p.Value()}, err
}

// saved goes on with what became of the claim's write.
func (t *taking) saved(rec kv.Record, err error) (h *holding, again bool, _ error) {
	if conflict, moved := errors.AsType[*kv.Conflict](err); moved {
		done, err := t.found(kv.RecordOf(t.item.JobID, conflict.Current))
		return nil, !done, err
	}
	if err != nil {
		return nil, false, err
	}
	return t.won(rec)
}

// overByTheClockAlone reports whether nothing but a clock that was set says that
// the job's lease is over. Otherwise the item would say so too: the one that the
// holder has is delivered again when it falls silent.
func (t *taking) overByTheClockAlone() bool {
	j := t.rec.Job
	if j.State != job.StateLeased || j.ItemSeq == t.item.Seq {
		return false
	}
	err := t.r.f.clock.measure(t.ctx)
	return err != nil || t.r.f.clock.distrusted(t.stage.Lease) || t.r.f.Now().Before(j.LeaseExpiresAt)
}

// won looks at the job's key before it hands the claim out.
func (t *taking) won(rec kv.Record) (*holding, bool, error) {
	by, ok, err := t.r.f.current(t.ctx, rec.Job)
	if err != nil {
		return nil, false, fmt.Errorf("claimed, but its key's pointer could not be read: %w", err)
	}
	if !ok {
		_, err := t.r.f.cancel(t.ctx, rec, supersededBy(by))
		return nil, false, err
	}
	if !t.r.f.Now().Before(rec.Job.LeaseExpiresAt) {
		return nil, false, errors.New("claimed, but the lease ran out meanwhile")
	}
	t.r.f.observeClaim(&t.rec.Job, &rec.Job)
	return t.r.hold(t.item, rec, t.stage), false, nil
}

// refused does with the item what its record says. A refusal of a guess is
// looked at once more with the record itself.
func (t *taking) refused(err error, now time.Time) (*holding, bool, error) {
	if t.guess {
		done, err := t.read()
		return nil, !done, err
	}
	t.r.f.opts.Observer.ClaimRefused(t.item.Stage, refusalCode(err))
	j := t.rec.Job
	switch codeOf(err) {
	case job.CodeLeaseHeld:
		if j.ItemSeq == t.item.Seq {
			t.item.Nak(j.LeaseExpiresAt.Sub(now))
		} else { // the holder has another item of the job: this one is a duplicate
			t.item.Remove()
		}
	case job.CodeNotAvailable:
		if err := t.r.f.offer(t.ctx, t.rec); err != nil {
			return nil, false, err
		}
		t.item.Ack()
	case job.CodeAttemptLimitReached:
		if j.State == job.StateLeased {
			return t.expire()
		}
		t.report("item removed: its job waits with no attempt left, which no transition does; cancel it", err)
		t.item.Remove()
	case job.CodeTerminalJob, "": // ended, or blocked on dependencies
		t.item.Remove()
	default:
		return nil, false, err
	}
	return nil, false, nil
}

// expire ends a job whose last attempt was lost with its worker.
func (t *taking) expire() (*holding, bool, error) {
	rec, err := t.r.f.transition(t.ctx, t.rec, func(j job.Job) (job.Job, error) { return j.Expire(j.Fence, t.r.f.Now()) })
	if err == nil { // granted another attempt meanwhile, it is to be offered
		err = t.r.f.offer(t.ctx, rec)
	}
	if err != nil {
		return nil, false, err
	}
	t.item.Ack()
	return nil, false, nil
}

// report says what was wrong with an item or a record.
func (t *taking) report(what string, err error) {
	log := t.r.log
	if err != nil {
		log = log.With("error", err)
	}
	log.Error(what, "job", t.item.JobID, "stage", t.item.Stage, "seq", t.item.Seq)
}

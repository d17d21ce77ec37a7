package fabric

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/weft-fabric/weft/job"
	"github.com/weft-fabric/weft/kv"
)

// How a claim goes through the limits of its stage: the gates first, then the rate,
// so that no start is spent on a job that may not run.

const (
	// putOffLeast and putOffMost bound how long a job is put off whose gate is full,
	// which is a quarter of the time it has been due, spread by as much. So the many of a long
	// backlog ask seldom, and together often enough to fill each place soon.
	putOffLeast = 500 * time.Millisecond
	putOffMost  = 30 * time.Second
	putOffPart  = 4
	// leaveWait bounds how long giving a place back may take.
	leaveWait = 5 * time.Second
)

// pass takes the job that is about to be claimed through the stage's limits. If one
// of them holds it back, the item is dealt with.
func (t *taking) pass(next job.Job) (ok bool, err error) {
	mine := holder{JobID: next.ID, Fence: next.Fence, Since: t.r.f.Now()}
	if len(t.gates) > 0 && t.entered.Fence == mine.Fence { // a try before has come through
		return t.begins()
	}
	t.goBack()
	for _, g := range t.stage.gates(next) {
		entered, err := t.r.f.enter(t.ctx, g, mine, t.stage.Lease)
		if err != nil {
			return false, err
		}
		if !entered {
			t.goBack()
			if g.whole { // then no other item of the stage could begin in its place
				t.item.Nak(fullFor/2 + rand.N(fullFor))
				return false, nil
			}
			return false, t.putOff()
		}
		t.entered, t.gates = mine, append(t.gates, g)
	}
	return t.begins()
}

// goBack gives the places back that a claim has taken which came to nothing. What
// fails is made good by whoever finds the gate full.
func (t *taking) goBack() {
	if len(t.gates) == 0 {
		return
	}
	leaveAll(t.r.f, t.gates, t.entered)
	t.entered, t.gates = holder{}, nil
}

func leaveAll(f *Fabric, gates []gate, mine holder) {
	ctx, cancel := context.WithTimeout(context.Background(), leaveWait)
	defer cancel()
	for _, g := range gates {
		if err := f.leave(ctx, g, mine); err != nil {
			f.log.Debug("place not given back", "limit", g.what, "job", mine.JobID, "error", err)
		}
	}
}

// putOff has the item come again later, by a schedule: an item that is given back
// with a delay would count as one that runs. It costs no attempt, since the job's
// record is not touched.
func (t *taking) putOff() error {
	if t.rec.Revision == 0 { // a bare item, whose claim would have made the record
		rec, err := t.r.f.bucket.Save(t.ctx, t.rec.Job, 0, 0)
		if conflict, taken := errors.AsType[*kv.Conflict](err); taken {
			rec, err = kv.RecordOf(t.item.JobID, conflict.Current)
		}
		if err != nil {
			return err
		}
		t.rec = rec
	}
	now := t.r.f.Now()
	wait := min(max(now.Sub(t.rec.Job.AvailableAt)/putOffPart, putOffLeast), putOffMost)
	wait += rand.N(wait/2) - wait/4
	err := t.r.f.withStage(t.ctx, t.rec.Job, func() error {
		return t.r.f.queue.OfferLater(t.ctx, itemOf(t.rec), now.Add(wait))
	})
	if err == nil {
		t.item.Ack()
	}
	return err
}

// leave gives back the places of a claim whose handler has ended.
func (r *Runner) leave(h *holding) {
	if len(h.gates) > 0 {
		leaveAll(r.f, h.gates, holder{JobID: h.rec.Job.ID, Fence: h.fence})
	}
}

// stay keeps the places of a claim that is renewed: rarely, so that the gates'
// records do not expire, and after its lease had lapsed.
func (r *Runner) stay(ctx context.Context, h *holding, lapsed bool) {
	now := r.f.Now()
	if len(h.gates) == 0 || !lapsed && now.Sub(h.stayed) < gateKept/4 {
		return
	}
	h.stayed = now
	for _, g := range h.gates {
		if err := r.f.stay(ctx, g, holder{JobID: h.rec.Job.ID, Fence: h.fence, Since: now}); err != nil {
			r.log.Debug("place not kept", "limit", g.what, "job", h.rec.Job.ID, "error", err)
		}
	}
}

// lose remembers a claim that somebody else has ended while its handler runs, and
// that has places: they are given back when the handler has returned. Those of which
// nobody says so are forgotten after a while; their places lapse by themselves.
func (r *Runner) lose(h *holding) {
	if len(h.gates) == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.f.Now().UnixNano()
	for id, other := range r.adrift {
		if other.until.Load()+int64(other.stage.Lease) < now {
			delete(r.adrift, id)
		}
	}
	r.adrift[h.rec.Job.ID] = h
}

// Leave says that the handler of a claim which was lost has returned. What counts as
// running until then, by the stage's limits of a label or a key, does not any more.
func (r *Runner) Leave(c job.Claim) {
	r.mu.Lock()
	h := r.adrift[c.Token.JobID]
	if h == nil || h.fence != c.Token.Fence {
		r.mu.Unlock()
		return
	}
	delete(r.adrift, c.Token.JobID)
	r.mu.Unlock()
	r.leave(h)
}

package fabric

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/oklog/ulid/v2"

	"github.com/weft-fabric/weft/job"
	"github.com/weft-fabric/weft/kv"
	"github.com/weft-fabric/weft/stream"
)

// workerPrefix marks the worker ids that the fabric makes.
const workerPrefix = "rn_"

// Runner takes, renews and settles jobs for one worker. It is safe for
// concurrent use, but Claim is for one caller a stage.
type Runner struct {
	f      *Fabric
	id     string
	log    *slog.Logger
	signal *nats.Subscription
	turns  chan struct{} // holds one for each item that is being looked up

	mu     sync.Mutex
	claims map[string]*holding // guarded by mu: by job id, one claim each
	adrift map[string]*holding // guarded by mu: by job id, ended by others while their handlers run
	takers map[string]*taker   // guarded by mu: by stage
}

// holding is a claim of this process: the record as it wrote it last and the
// item that goes with it.
type holding struct {
	stage Stage
	fence int64
	nudge job.Nudge
	// overdue says that the lease ran out and the holder was asked to renew it;
	// set by a taker, taken back by the renewal.
	overdue atomic.Bool
	// until is when the lease runs out, in ns; set when it is claimed or renewed.
	until atomic.Int64
	// available is when the job could first have been claimed; of a straight claim
	// alone, for the observer.
	available time.Time
	// claimed is when it began to wait for a call of Claim, by the local clock;
	// guarded by the mu of its taker.
	claimed time.Time

	mu      sync.Mutex       // one compare-and-set of a claim at a time
	gates   []gate           // in which it has places; never changed
	stayed  time.Time        // guarded by mu: when its places were last made sure of
	rec     kv.Record        // guarded by mu
	item    *stream.Delivery // its acknowledgement is guarded by mu
	settled bool             // guarded by mu: nothing is left to do
}

// Runner makes the claims of one worker; an empty id gets a fresh one. Close it
// when the worker has ended.
func (f *Fabric) Runner(id string) (*Runner, error) {
	if id == "" {
		id = workerPrefix + ulid.Make().String()
	}
	if err := job.CheckWorker(id); err != nil {
		return nil, err
	}
	r := &Runner{f: f, id: id, log: f.log.With("worker", id), turns: make(chan struct{}, atOnce), claims: map[string]*holding{}, adrift: map[string]*holding{}, takers: map[string]*taker{}}
	sub, err := f.nc.Subscribe(f.signalSubject(id), r.signalled)
	if err != nil {
		return nil, fmt.Errorf("worker %s: %w", id, err)
	}
	r.signal = sub
	return r, nil
}

// ID is the worker's id.
func (r *Runner) ID() string { return r.id }

// Close ends the runner once its worker has settled what it held. What was taken
// and not handed out is given back; a call of Claim that is still under way does
// so itself when its context ends.
func (r *Runner) Close() error {
	for _, t := range r.idle() {
		t.close(nil)
	}
	return r.signal.Unsubscribe()
}

// idle takes out the takers that no call of Claim uses.
func (r *Runner) idle() (idle []*taker) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for stage, t := range r.takers {
		if !t.called {
			idle = append(idle, t)
			delete(r.takers, stage)
		}
	}
	return idle
}

// signalled passes a hint on to whoever holds the job.
func (r *Runner) signalled(msg *nats.Msg) {
	if h := r.held(string(msg.Data)); h != nil {
		h.hint()
	}
}

// hint asks the holder to renew now, and so to learn what has become of its job.
func (h *holding) hint() { h.nudge.Hint() }

// held gives this process's claim of a job, nil if it has none.
func (r *Runner) held(id string) *holding {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.claims[id]
}

// hold notes a claim that was just won. The same job cannot be held twice,
// because take refuses an item of a job that is.
func (r *Runner) hold(d *stream.Delivery, rec kv.Record, st Stage) *holding {
	h := newHolding(d, rec, st)
	r.keep(h)
	return h
}

func (r *Runner) keep(h *holding) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.claims[h.rec.Job.ID] = h
}

func newHolding(d *stream.Delivery, rec kv.Record, st Stage) *holding {
	h := &holding{stage: st, fence: rec.Job.Fence, rec: rec, item: d}
	h.until.Store(rec.Job.LeaseExpiresAt.UnixNano())
	if st.limited() {
		h.gates, h.stayed = st.gates(rec.Job), rec.Job.UpdatedAt
	}
	return h
}

// holding finds the claim that a token speaks of.
func (r *Runner) holding(t job.Token) *holding {
	if h := r.held(t.JobID); h != nil && h.fence == t.Fence && t.WorkerID == r.id {
		return h
	}
	return nil
}

func (r *Runner) drop(id string, h *holding) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.claims[id] != h {
		return
	}
	delete(r.claims, id)
	if t := r.takers[h.stage.Name]; t != nil && h.stage.Concurrency > 0 {
		t.poke() // the stage's limit may have room now
	}
}

// running counts this worker's claims of a stage whose leases last.
func (r *Runner) running(stage string) (n int) {
	now := r.f.Now().UnixNano()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, h := range r.claims {
		if h.stage.Name == stage && now < h.until.Load() {
			n++
		}
	}
	return n
}

// handOut gives a claim to its worker, unless its lease has run out while it was
// ready and nobody asked for it. Somebody else may have the job then.
func (r *Runner) handOut(h *holding) (c job.Claim, lasts bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if left := h.rec.Job.LeaseExpiresAt.Sub(r.f.Now()); left > 0 {
		c = h.claim()
		c.Left = min(left, c.Lease)
		return c, true
	}
	h.settled = true
	r.drop(h.rec.Job.ID, h)
	r.log.Warn("claimed job not handed out, its lease ran out first", attemptOf(h.rec.Job))
	return job.Claim{}, false
}

// current is claim for who does not hold h.mu.
func (h *holding) current() job.Claim {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.claim()
}

// claim is what the worker gets to see of a holding. h.mu is held.
func (h *holding) claim() job.Claim {
	return job.Claim{Job: h.rec.Job, Token: h.rec.Job.Token(), Lease: h.stage.Lease, Nudge: &h.nudge}
}

// Claim blocks until at least one job of the stage is leased to this worker, and
// returns at most n. It asks the server for as many items as jobs are wanted, no
// more, so call it again with all free slots. When ctx ends, what was taken but
// not handed out is given back at no charge, and ctx's error returned.
func (r *Runner) Claim(ctx context.Context, stage string, n int) ([]job.Claim, error) {
	if err := job.CheckStage(stage); err != nil {
		return nil, err
	}
	if n < 1 {
		return nil, job.Invalid("a claim of %d jobs; ask for at least 1", n)
	}
	t := r.call(stage)
	claims, err := t.claim(undated{ctx}, n)
	over := ctx.Err()
	if over != nil {
		t.close(claims)
		claims, err = nil, over
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	t.called = false
	if over != nil {
		delete(r.takers, stage)
	}
	return claims, err
}

// Want says that n jobs of the stage are wanted now, of those that the last call of
// Claim asked for. It lasts until the next call, and does not wait.
func (r *Runner) Want(stage string, n int) {
	r.mu.Lock()
	t := r.takers[stage]
	r.mu.Unlock()
	if t != nil {
		t.want(n)
	}
}

// call gives the stage's taker to one call of Claim.
func (r *Runner) call(stage string) *taker {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.takers[stage]
	if t == nil {
		t = newTaker(r, stage)
		r.takers[stage] = t
	}
	t.called = true
	return t
}

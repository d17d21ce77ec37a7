package fabric

import (
	"context"
	"fmt"
	"log/slog"
	"sync"

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

	mu     sync.Mutex
	claims map[string]*holding // guarded by mu: by job id, one claim each
	takers map[string]*taker   // guarded by mu: by stage
}

// holding is a claim of this process: the record as it wrote it last and the
// item that goes with it.
type holding struct {
	stage Stage
	fence int64
	nudge chan struct{}

	mu      sync.Mutex       // one compare-and-set of a claim at a time
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
	r := &Runner{f: f, id: id, log: f.log.With("worker", id), claims: map[string]*holding{}, takers: map[string]*taker{}}
	sub, err := f.nc.Subscribe(f.signalSubject(id), r.signalled)
	if err != nil {
		return nil, fmt.Errorf("worker %s: %w", id, err)
	}
	r.signal = sub
	return r, nil
}

// ID is the worker's id.
func (r *Runner) ID() string { return r.id }

// Close ends the runner once its worker has settled what it held and no call of
// Claim is under way. What was taken and not handed out is given back.
func (r *Runner) Close() error {
	r.mu.Lock()
	takers := r.takers
	r.takers = map[string]*taker{}
	r.mu.Unlock()
	for _, t := range takers {
		t.close(nil)
	}
	return r.signal.Unsubscribe()
}

// signalled passes a hint on to whoever holds the job.
func (r *Runner) signalled(msg *nats.Msg) {
	if h := r.held(string(msg.Data)); h != nil {
		h.hint()
	}
}

// hint asks the holder to renew now, and so to learn what has become of its job.
func (h *holding) hint() {
	select {
	case h.nudge <- struct{}{}:
	default: // a hint is on its way already
	}
}

// held gives this process's claim of a job, nil if it has none.
func (r *Runner) held(id string) *holding {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.claims[id]
}

// hold notes a claim that was just won. The same job cannot be held twice,
// because take refuses an item of a job that is.
func (r *Runner) hold(d *stream.Delivery, rec kv.Record, st Stage) *holding {
	h := &holding{stage: st, fence: rec.Job.Fence, nudge: make(chan struct{}, 1), rec: rec, item: d}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.claims[rec.Job.ID] = h
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
	if r.claims[id] == h {
		delete(r.claims, id)
	}
}

// claim is what the worker gets to see of a holding. h.mu is held.
func (h *holding) claim() job.Claim {
	return job.Claim{Job: h.rec.Job, Token: h.rec.Job.Token(), Lease: h.stage.Lease, Nudge: h.nudge}
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
	t := r.taker(stage)
	claims, err := t.claim(ctx, n)
	if ctx.Err() != nil {
		t.close(claims)
		r.mu.Lock()
		delete(r.takers, stage)
		r.mu.Unlock()
		return nil, ctx.Err()
	}
	return claims, err
}

func (r *Runner) taker(stage string) *taker {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.takers[stage]
	if t == nil {
		t = newTaker(r, stage)
		r.takers[stage] = t
	}
	return t
}

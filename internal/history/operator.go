package history

import (
	"context"
	"fmt"

	"github.com/weft-fabric/weft/job"
)

// operator reads, cancels and retries jobs at random until ctx ends.
func (w *world) operator(ctx context.Context, n int) {
	r := w.cfg.random("operator", int64(n))
	m, err := w.join(ctx, skew(r))
	if err != nil {
		return
	}
	defer m.leave()
	name := fmt.Sprintf("operator%d", n)
	for pause(ctx, about(r, operates)) == nil {
		what, which := r.Float64(), r.IntN(1<<30)
		spec, ok := w.pick(which)
		switch {
		case !ok:
		case what < 0.15:
			w.operate(name, Cancel, spec.ID, m.f.Cancel)
		case what < 0.5:
			w.operate(name, Retry, spec.ID, m.f.Retry)
		default:
			w.operate(name, Get, spec.ID, func(ctx context.Context, id, _ string) (job.Job, error) { return m.f.Get(ctx, id) })
		}
	}
}

// operate makes one call on a job and writes down what it was told. A refusal
// shows the record too.
func (w *world) operate(name string, kind Kind, id string, do func(ctx context.Context, id, reason string) (job.Job, error)) {
	ctx, cancel := call()
	defer cancel()
	op := Op{Client: name, Kind: kind, Job: id, Call: w.log.now()}
	j, err := do(ctx, id, "by "+name)
	op.Result = resultOf(err)
	if op.Result != Unknown {
		op.Told = w.log.told(j)
	}
	w.note(op)
}

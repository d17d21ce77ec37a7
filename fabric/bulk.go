package fabric

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"

	"github.com/weft-fabric/weft/job"
	"github.com/weft-fabric/weft/kv"
	"github.com/weft-fabric/weft/stream"
)

// bulkWindow is how many jobs of one call of EnqueueMany are between two of its
// steps. It bounds the call's memory, and what is unanswered at the server.
const bulkWindow = 512

// Enqueued is what became of one spec of EnqueueMany.
type Enqueued struct {
	Job job.Job
	Err error // as of Enqueue
}

// EnqueueMany enqueues specs as they come, in constant memory and with many
// writes on their way at once. It gives what became of each, in their order. Each
// spec is treated as by Enqueue with the options; one with dependencies or a key
// sees all before it recorded.
//
// When give returns an error, no more specs are read, those that were read are
// still enqueued and given, and that error is returned. When ctx ends the call
// ends at once, with ctx's error: specs that were read and not given may have been
// enqueued then, and with ids of their own, repeating the call is safe.
func (f *Fabric) EnqueueMany(ctx context.Context, specs iter.Seq[job.Spec], give func(Enqueued) error, opts ...EnqueueOption) error {
	b := &bulk{
		f: f, enough: make(chan struct{}),
		records: make(chan *bulkJob, bulkWindow), items: make(chan *bulkJob, bulkWindow),
	}
	for _, opt := range opts {
		opt(&b.how)
	}
	var steps sync.WaitGroup
	defer steps.Wait()
	steps.Go(func() { b.begin(ctx, specs) })
	steps.Go(func() { b.offer(ctx) })
	var refused error
	for e := range b.items {
		if ctx.Err() != nil {
			e.end(e.job, context.Cause(ctx))
			continue // the steps before end by themselves
		}
		if err := give(b.end(ctx, e)); err != nil && refused == nil {
			refused = err
			close(b.enough)
		}
	}
	if refused != nil {
		return refused
	}
	return context.Cause(ctx)
}

// bulk is one call of EnqueueMany: three steps, each of which takes the jobs in
// their order.
type bulk struct {
	f       *Fabric
	how     enqueueing    // what the options say
	enough  chan struct{} // closed when no more is to be read
	records chan *bulkJob // whose records are on their way
	items   chan *bulkJob // whose items are on their way
}

// bulkJob is one job on its way through the steps.
type bulkJob struct {
	spec   job.Spec
	job    job.Job
	err    error
	end    func(job.Job, error) // of the span
	record *kv.Pending
	item   *stream.Pending // nil if none is to be published, or has been
}

// begin sends the records.
func (b *bulk) begin(ctx context.Context, specs iter.Seq[job.Spec]) {
	defer close(b.records)
	for spec := range specs {
		if ctx.Err() != nil || b.over() {
			return
		}
		e := &bulkJob{spec: b.f.complete(spec)}
		e.end = b.f.traced(ctx, &e.spec)
		if e.job, e.err = b.f.fresh(e.spec); e.err == nil {
			_, e.err = b.f.stages.get(ctx, e.spec.Stage, e.spec.Lane())
		}
		if e.err == nil && b.plain(e.spec) {
			e.record = b.f.bucket.BeginJob(&e.job, 0, 0, nil)
		}
		b.records <- e
	}
}

func (b *bulk) over() bool {
	select {
	case <-b.enough:
		return true
	default:
		return false
	}
}

// plain reports whether a job's record can be written without reading anything
// before.
func (b *bulk) plain(spec job.Spec) bool {
	return spec.Key == "" && len(spec.Dependencies) == 0 && (b.how.policy == "" || b.how.policy == Supersede)
}

// offer waits for the records and sends the items.
func (b *bulk) offer(ctx context.Context) {
	defer close(b.items)
	for e := range b.records {
		switch {
		case e.err != nil:
		case e.record == nil:
			e.job, e.err = b.f.enqueue(ctx, e.spec, b.how)
		default:
			b.offerOne(ctx, e)
		}
		b.items <- e
	}
}

func (b *bulk) offerOne(ctx context.Context, e *bulkJob) {
	revision, err := e.record.End(ctx)
	if _, taken := errors.AsType[*kv.Conflict](err); taken {
		e.job, e.err = b.f.enqueue(ctx, e.spec, b.how) // the id exists: the slow way says what that means
		return
	}
	if err != nil {
		e.err = fmt.Errorf("enqueue %s: %w", e.spec.ID, explain(b.f.nc, err))
		return
	}
	rec := kv.Record{Job: e.job, Revision: revision, Raw: e.record.Value()}
	if e.job.AvailableAt.After(b.f.Now()) {
		e.err = b.f.offerFirst(ctx, rec)
		return
	}
	e.item = b.f.queue.BeginNew(itemOf(rec))
}

// end waits for the item.
func (b *bulk) end(ctx context.Context, e *bulkJob) Enqueued {
	if e.err == nil && e.item != nil {
		e.err = b.f.withStage(ctx, e.job, func() error { return e.item.End(ctx) })
	}
	e.end(e.job, e.err)
	return Enqueued{Job: e.job, Err: e.err}
}

package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/weft-fabric/weft/fabric"
	"github.com/weft-fabric/weft/internal/app"
	"github.com/weft-fabric/weft/job"
)

const (
	// linesAhead is how many lines of a file may be read before their results are
	// known.
	linesAhead = 4096
	// silence is how long no result may come before the server counts as gone.
	silence = 30 * time.Second
)

// errSilence ends the enqueueing of a file whose server does not answer any more.
var errSilence error = &app.ServerError{Err: fmt.Errorf("the server has not answered for %s; jobs whose ids were not printed may be enqueued too: "+
	"give lines their ids, or --resumable, to repeat the command without doubles", silence)}

// enqueueFunc enqueues many specs, as the fabric does.
type enqueueFunc func(ctx context.Context, specs iter.Seq[job.Spec], give func(fabric.Enqueued) error, opts ...fabric.EnqueueOption) error

// enqueued is what became of one line.
type enqueued struct {
	numbered
	job job.Job
	err error
}

// enqueueAll enqueues the lines of a file in constant memory and gives the results
// in their order. After the first error of done no more are read; what has been
// read is enqueued and given all the same.
func enqueueAll(ctx context.Context, enqueue enqueueFunc, lines iter.Seq2[numbered, error], done func(enqueued) error, opts ...fabric.EnqueueOption) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	late := time.AfterFunc(silence, func() { stop(errSilence) })
	defer late.Stop()
	ahead := make(chan numbered, linesAhead)
	var broken error // of the reading goroutine until enqueue has returned
	specs := func(yield func(job.Spec) bool) {
		for n, err := range lines {
			if err != nil {
				broken = err
				return
			}
			select {
			case ahead <- n:
			case <-ctx.Done():
				return
			}
			if !yield(n.spec) {
				return
			}
		}
	}
	err := enqueue(ctx, specs, func(e fabric.Enqueued) error {
		n := <-ahead
		if e.Err != nil && ctx.Err() != nil {
			return context.Cause(ctx) // nothing is known of this line
		}
		late.Reset(silence)
		return done(enqueued{n, e.Job, e.Err})
	}, opts...)
	return errors.Join(err, broken)
}

package main

import (
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	"github.com/weft-fabric/weft/job"
)

const (
	// inFlight is how many specs of a file are enqueued at once.
	inFlight = 64
	// enqueueTimeout bounds one of them.
	enqueueTimeout = 30 * time.Second
)

// enqueueFunc enqueues one spec.
type enqueueFunc func(ctx context.Context, spec job.Spec) (job.Job, error)

// enqueued is what became of one spec.
type enqueued struct {
	numbered
	job job.Job
	err error
}

// enqueueAll enqueues specs, several at once, and gives the results in the order
// of the specs. A spec with dependencies waits for all before it, since they may
// be among them, and one with a key for the others of that key, since the last
// of them is to win. After the first error of done no more are started.
func enqueueAll(ctx context.Context, enqueue enqueueFunc, specs iter.Seq2[numbered, error], done func(enqueued) error) error {
	w := &window{enqueue: enqueue, done: done}
	for n, err := range specs {
		if err == nil {
			err = w.makeRoom(n.spec)
		}
		if err == nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			return errors.Join(err, w.settle(len(w.pending)))
		}
		w.start(ctx, n)
	}
	return w.settle(len(w.pending))
}

// window is the specs in flight, in order.
type window struct {
	enqueue enqueueFunc
	done    func(enqueued) error
	pending []pendingSpec
}

type pendingSpec struct {
	key    string
	result chan enqueued // receives once
}

// makeRoom waits until the spec may start.
func (w *window) makeRoom(spec job.Spec) error {
	switch {
	case len(spec.Dependencies) > 0:
		return w.settle(len(w.pending))
	case spec.Key != "":
		same := func(p pendingSpec) bool { return p.key == spec.Key }
		if at := slices.IndexFunc(w.pending, same); at >= 0 {
			return w.settle(at + 1)
		}
	}
	if len(w.pending) == inFlight {
		return w.settle(1)
	}
	return nil
}

func (w *window) start(ctx context.Context, n numbered) {
	p := pendingSpec{key: n.spec.Key, result: make(chan enqueued, 1)}
	w.pending = append(w.pending, p)
	go func() {
		ctx, cancel := context.WithTimeout(ctx, enqueueTimeout)
		defer cancel()
		j, err := w.enqueue(ctx, n.spec)
		p.result <- enqueued{n, j, err}
	}()
}

// settle waits for the first n in flight and hands on their results, also after
// one that done has refused: the others have been enqueued all the same.
func (w *window) settle(n int) error {
	var first error
	for _, p := range w.pending[:n] {
		if err := w.done(<-p.result); err != nil && first == nil {
			first = err
		}
	}
	w.pending = w.pending[n:]
	return first
}

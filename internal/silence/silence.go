// Package silence gives up a fetch over HTTP when nothing comes for a while, however
// long the whole takes. The time that its reader takes does not count.
package silence

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// Err is why a fetch was given up.
var Err = errors.New("the server is silent")

// Watch is one fetch that is waited for. End it, or close its Body.
type Watch struct {
	limit  time.Duration
	left   *time.Timer     // runs while something is waited for
	ctx    context.Context // of this fetch alone; it ends with it
	cancel context.CancelCauseFunc
}

// Start begins to wait for an answer.
func Start(ctx context.Context, limit time.Duration) *Watch {
	ctx, cancel := context.WithCancelCause(ctx)
	return &Watch{limit: limit, ctx: ctx, cancel: cancel, left: time.AfterFunc(limit, func() { cancel(Err) })}
}

// Context is the fetch's: it ends with that of Start, after a silence, and at End.
func (w *Watch) Context() context.Context { return w.ctx }

// Explain says that silence was the cause of an error, if it was, and leaves off what
// may show the address of the fetch.
func (w *Watch) Explain(err error) error {
	if errors.Is(context.Cause(w.ctx), Err) {
		return fmt.Errorf("%w for %s", Err, w.limit)
	}
	if at, ok := errors.AsType[*net.OpError](err); ok {
		return at
	}
	return err
}

// End ends the fetch.
func (w *Watch) End() {
	w.left.Stop()
	w.cancel(nil)
}

// Body is what the server answered with, waited for read by read.
func (w *Watch) Body(from io.ReadCloser) io.ReadCloser {
	w.left.Stop()
	return &body{w, from}
}

type body struct {
	watch *Watch
	from  io.ReadCloser
}

// Read waits for bytes.
func (b *body) Read(p []byte) (int, error) {
	b.watch.left.Reset(b.watch.limit)
	n, err := b.from.Read(p)
	b.watch.left.Stop()
	if err != nil && !errors.Is(err, io.EOF) {
		err = b.watch.Explain(err)
	}
	return n, err
}

// Close ends the fetch, also one that waits.
func (b *body) Close() error {
	b.watch.End()
	return b.from.Close()
}

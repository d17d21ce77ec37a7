package kv

import (
	"context"
	"errors"
	"iter"
	"time"
)

// A browser rests after each page, quietShare times as long as the page took, or
// busyShare times when others are at work: it then takes a tenth of what the server
// could do.
const (
	quietShare = 1
	busyShare  = 9
)

// Browse gives what the matching keys hold, as List does, for who has time and must
// not get in the way of others' work, of which busy tells. What is written after it
// has begun is left out, so that it ends however much that is. A lost connection
// ends it with an error.
func (b *Bucket) Browse(ctx context.Context, pattern string, busy func() bool) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		head, err := b.LastRevision(ctx)
		if err != nil {
			yield(Entry{}, err)
			return
		}
		f := &follower{b: b, subject: b.prefix + pattern, give: func(c Change) bool {
			return c.Revision <= head && (c.Marker || yield(c.Entry, nil))
		}}
		if err := f.browse(ctx, busy); err != nil && !errors.Is(err, errStopped) {
			yield(Entry{}, err)
		}
	}
}

// browse gives everything once, a page at a time.
func (f *follower) browse(ctx context.Context, busy func() bool) error {
	consumer, err := f.open(ctx)
	if err != nil {
		return err
	}
	defer f.close(ctx, consumer)
	for {
		began := time.Now()
		n, err := f.page(ctx)
		if err != nil || n < followPage {
			return err
		}
		share := time.Duration(quietShare)
		if busy() {
			share = busyShare
		}
		if err := rest(ctx, share*time.Since(began)); err != nil {
			return err
		}
	}
}

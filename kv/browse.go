package kv

import (
	"context"
	"errors"
	"iter"
	"time"
)

// browseShare is how long a browser rests after each page, in parts of the time
// that the page took: it takes a fifth of what the server and this process could do,
// about a minute for a million keys.
const browseShare = 4

// Browse gives what the matching keys hold, as List does, for who has time and must
// not get in the way of others' work. What is written after it has begun is left
// out, so that it ends however much that is. A lost connection ends it with an error.
func (b *Bucket) Browse(ctx context.Context, pattern string) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		head, err := b.LastRevision(ctx)
		if err != nil {
			yield(Entry{}, err)
			return
		}
		f := &follower{b: b, subject: b.prefix + pattern, give: func(c Change) bool {
			return c.Revision <= head && (c.Marker || yield(c.Entry, nil))
		}}
		if err := f.browse(ctx); err != nil && !errors.Is(err, errStopped) {
			yield(Entry{}, err)
		}
	}
}

// browse gives everything once, a page at a time.
func (f *follower) browse(ctx context.Context) error {
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
		if err := rest(ctx, browseShare*time.Since(began)); err != nil {
			return err
		}
	}
}

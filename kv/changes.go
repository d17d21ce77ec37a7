package kv

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

const (
	// changesAsked is how many changes are asked for at once.
	changesAsked = 256
	// changesKept is how long the server keeps a consumer that is not asked. A
	// reader that comes back later begins again where it was.
	changesKept = 30 * time.Second
)

// Changes is a feed without a name: what the matching keys hold now, and then every
// change as it happens, until ctx ends or the caller stops. Nothing of it stays on
// the server. Once it has begun it goes on after a server's restart and a lost
// connection, for as long as these last; a key that changed several times meanwhile
// is given once.
func (b *Bucket) Changes(ctx context.Context, patterns ...string) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		r := &reader{b: b, subjects: prefixed(b.prefix, patterns), give: func(e Entry) bool { return yield(e, nil) }}
		for retry := newRetry(); ; {
			place := r.last
			err := r.run(ctx)
			switch {
			case errors.Is(err, errStopped):
				return
			case ctx.Err() != nil:
				yield(Entry{}, ctx.Err())
				return
			case !r.began || errors.Is(err, jetstream.ErrStreamNotFound):
				yield(Entry{}, fmt.Errorf("changes of %s: %w", strings.Join(patterns, " "), err))
				return
			case r.last != place:
				retry.Reset()
			}
			if wait(ctx, retry) != nil {
				yield(Entry{}, ctx.Err())
				return
			}
		}
	}
}

func prefixed(prefix string, patterns []string) []string {
	subjects := make([]string, len(patterns))
	for i, p := range patterns {
		subjects[i] = prefix + p
	}
	return subjects
}

// reader is how far one call of Changes has come.
type reader struct {
	b        *Bucket
	subjects []string
	give     func(Entry) bool
	last     uint64 // revision of the last change given
	began    bool   // a consumer was made
}

// run reads with one consumer until it, the caller or ctx ends.
func (r *reader) run(ctx context.Context) error {
	limit := watchSilence // to find what is there may take its time
	if r.began {
		limit = answerWait
	}
	making, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	c, err := r.b.stream.CreateConsumer(making, jetstream.ConsumerConfig{
		FilterSubjects: r.subjects,
		DeliverPolicy:  jetstream.DeliverByStartSequencePolicy, OptStartSeq: r.last + 1,
		AckPolicy: jetstream.AckNonePolicy, MemoryStorage: true, Replicas: 1, InactiveThreshold: changesKept,
	})
	if err != nil {
		return err
	}
	r.began = true
	defer func() {
		if r.b.js.Conn().IsConnected() {
			r.b.endScan(c.CachedInfo())
		}
	}()
	received, bad := uint64(0), error(nil)
	for {
		err := r.b.take(ctx, c, changesAsked, func(msg jetstream.Msg) bool {
			e, place, err := r.b.scanned(msg)
			if received++; err != nil || place.consumer != received {
				bad = errors.Join(errFollowGap, err)
				return false
			}
			r.last = e.Revision
			return r.give(e)
		})
		if bad != nil {
			return bad
		}
		if err != nil {
			return err
		}
	}
}

package kv

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/weft-fabric/weft/internal/natserr"
)

const (
	// scanFirst is how many messages a scan asks for at first, and scanBatch after
	// that. Leaving early wastes at most that.
	scanFirst = 64
	scanBatch = 256
	// scanSilence is how long a scan waits for what it asked for before it begins
	// anew from where it is.
	scanSilence = 2 * time.Second
	// scanKept is how long the server keeps a scan whose client is gone. One that
	// comes back later begins anew.
	scanKept = 30 * time.Second
)

// Scan gives every job's key as List does, beginning after a revision; 0 begins at
// the start. It is for a bucket of very many records: it begins at once, since the
// server needs to prepare nothing, and its memory on either side does not grow
// with what is there. A record that changes while the scan runs may come twice, as
// it was and as it is.
func (b *Bucket) Scan(ctx context.Context, after uint64) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		if err := b.scan(ctx, after, func(e Entry) bool { return yield(e, nil) }); err != nil {
			yield(Entry{}, fmt.Errorf("scan bucket %s: %w", b.name, err))
		}
	}
}

// scan asks for batch after batch. Whatever goes wrong with one, a message that got
// lost or a consumer that is gone, it begins anew after the last message it had,
// until nothing has come for as long as a watch may be silent. The client's own
// ordered consumer would do the same, but has room for exactly the messages that it
// asks for, drops some when the server adds a word, and begins anew time and again.
func (b *Bucket) scan(ctx context.Context, after uint64, give func(Entry) bool) error {
	s := &scanner{b: b, after: after, give: give, batch: scanFirst}
	retry, heard := newRetry(), time.Now()
	for {
		before := s.after
		done, err := s.run(ctx)
		switch {
		case done:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && !passing(err):
			return err
		case s.after != before:
			retry, heard = newRetry(), time.Now()
		case time.Since(heard) > watchSilence:
			return errors.Join(errWatchSilent, err)
		}
		if err := wait(ctx, retry); err != nil {
			return err
		}
	}
}

// passing reports whether a scan may begin anew after the error.
func passing(err error) bool {
	return natserr.Unknown(err) || errors.Is(err, jetstream.ErrConsumerNotFound) ||
		errors.Is(err, jetstream.ErrConsumerDeleted) || errors.Is(err, jetstream.ErrNoHeartbeat)
}

// scanner is how far a scan has come.
type scanner struct {
	b     *Bucket
	after uint64 // the last revision seen
	batch int    // how many to ask for next
	give  func(Entry) bool
}

// run scans with one consumer, until the end, the caller's or that of the consumer.
func (s *scanner) run(ctx context.Context) (done bool, err error) {
	// Without a filter the server does not need to look which messages match.
	// Keys that are no jobs are few, or small.
	consumer, err := s.b.js.CreateConsumer(ctx, "KV_"+s.b.name, jetstream.ConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: s.after + 1,
		AckPolicy: jetstream.AckNonePolicy, MaxDeliver: 1, MemoryStorage: true, Replicas: 1, InactiveThreshold: scanKept,
	})
	if err != nil {
		return false, err
	}
	info := consumer.CachedInfo()
	defer s.b.endScan(info)
	left, received := info.NumPending, uint64(0)
	for left > 0 {
		batch, err := consumer.Fetch(int(min(uint64(s.batch), left)), jetstream.FetchMaxWait(scanSilence))
		if err != nil {
			return false, err
		}
		s.batch = scanBatch
		before := received
		for msg := range untilDone(ctx, batch.Messages()) {
			e, place, err := s.b.scanned(msg)
			if err != nil {
				return false, err
			}
			if received++; place.consumer != received {
				return false, nil // one got lost
			}
			s.after, left = e.Revision, place.left
			if isJob := strings.HasPrefix(e.Key, jobPrefix); isJob && !e.Marker && !s.give(e) {
				return true, nil
			}
		}
		if received == before || ctx.Err() != nil {
			return false, batch.Error()
		}
	}
	return true, nil
}

// untilDone gives what a channel brings until it is closed or ctx ends.
func untilDone[T any](ctx context.Context, from <-chan T) iter.Seq[T] {
	return func(yield func(T) bool) {
		for ctx.Err() == nil {
			select {
			case <-ctx.Done():
			case value, open := <-from:
				if !open || !yield(value) {
					return
				}
			}
		}
	}
}

// endScan has the server forget a scan. If it does not learn of it, it does so by
// itself.
func (b *Bucket) endScan(info *jetstream.ConsumerInfo) {
	ctx, cancel := context.WithTimeout(context.Background(), answerWait)
	defer cancel()
	_ = b.js.DeleteConsumer(ctx, info.Stream, info.Name)
}

// place is where in a scan a message is.
type place struct {
	consumer uint64 // which one of its consumer's, from 1
	left     uint64 // how many come behind it

	deliveries uint64 // how often it was given since the consumer exists
}

// scanned is a message as an entry, and its place.
func (b *Bucket) scanned(msg jetstream.Msg) (Entry, place, error) {
	meta, err := msg.Metadata()
	if err != nil {
		return Entry{}, place{}, err
	}
	return Entry{
		Key: strings.TrimPrefix(msg.Subject(), b.prefix), Value: msg.Data(), Revision: meta.Sequence.Stream, Created: meta.Timestamp,
		Write:  msg.Headers().Get(WriteHeader),
		Marker: isMarker(msg.Headers()),
	}, place{meta.Sequence.Consumer, meta.NumPending, meta.NumDelivered}, nil
}

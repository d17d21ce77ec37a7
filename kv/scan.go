package kv

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	// scanBatch is how many messages of a scan are on their way at once, and
	// scanBytes how much they may be. Leaving early wastes at most that.
	scanBatch = 512
	scanBytes = 4 << 20
	// scanSilence is how long a scan waits for a message before it asks whether
	// there is one.
	scanSilence = time.Second
	// scanKept is how long the server keeps a scan whose client is gone.
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

func (b *Bucket) scan(ctx context.Context, after uint64, give func(Entry) bool) error {
	// Without a filter the server does not need to look which messages match.
	// Keys that are no jobs are few, or small.
	config := jetstream.OrderedConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: after + 1, InactiveThreshold: scanKept,
	}
	consumer, err := b.js.OrderedConsumer(ctx, "KV_"+b.name, config)
	if err != nil {
		return err
	}
	defer func() { b.endScan(consumer) }()
	if consumer.CachedInfo().NumPending == 0 {
		return nil
	}
	messages, err := consumer.Messages(jetstream.PullMaxMessagesWithBytesLimit(scanBatch, scanBytes))
	if err != nil {
		return err
	}
	defer messages.Stop()
	defer context.AfterFunc(ctx, messages.Stop)()
	for silent := time.Duration(0); ; {
		msg, err := messages.Next(jetstream.NextMaxWait(scanSilence))
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, nats.ErrTimeout):
			// What was still to come may have gone meanwhile, or its leader.
			info, err := consumer.Info(ctx)
			if err == nil && info.NumPending == 0 {
				return nil
			}
			if silent += scanSilence; silent >= watchSilence {
				return errors.Join(errWatchSilent, err)
			}
			continue
		case err != nil:
			return err
		}
		silent = 0
		e, left, err := b.scanned(msg)
		if err != nil {
			return err
		}
		if isJob := strings.HasPrefix(e.Key, jobPrefix); isJob && !e.Marker && !give(e) || left == 0 {
			return nil
		}
	}
}

// endScan has the server forget a scan. If it does not learn of it, it does so by
// itself.
func (b *Bucket) endScan(consumer jetstream.Consumer) {
	info := consumer.CachedInfo()
	if info == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), answerWait)
	defer cancel()
	_ = b.js.DeleteConsumer(ctx, info.Stream, info.Name)
}

// scanned is an entry and how many messages are left behind it.
func (b *Bucket) scanned(msg jetstream.Msg) (Entry, uint64, error) {
	meta, err := msg.Metadata()
	if err != nil {
		return Entry{}, 0, err
	}
	return Entry{
		Key: strings.TrimPrefix(msg.Subject(), b.prefix), Value: msg.Data(), Revision: meta.Sequence.Stream, Created: meta.Timestamp,
		Write:  msg.Headers().Get(WriteHeader),
		Marker: isMarker(msg.Headers()),
	}, meta.NumPending, nil
}

package kv

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/nats-io/nats.go"

	"github.com/weft-fabric/weft/internal/flight"
	"github.com/weft-fabric/weft/internal/natserr"
)

// WriteHeader carries the random mark by which a write recognises itself when
// its answer was lost.
const WriteHeader = "Weft-Write"

// operationHeader is where the client's key-value store says that a message
// stands for no value.
const operationHeader = "KV-Operation"

// answerWait is how long one try of a read waits for the server, as one of a write
// does. A try that got no answer is repeated while the caller's context lasts.
const answerWait = flight.Wait

// Entry is a key as the leader has it.
type Entry struct {
	Key      string
	Value    []byte
	Revision uint64 // 0 if there is nothing, not even a marker
	Created  time.Time
	Write    string // the mark of the write that made it
	Marker   bool   // the key was deleted or has expired; Value is empty
}

// Exists reports whether the key has a value.
func (e Entry) Exists() bool { return e.Revision != 0 && !e.Marker }

// Get reads a key from the stream's leader. A key without value is no error: its
// Entry says that it does not exist. Without an answer the question is repeated
// while ctx lasts.
func (b *Bucket) Get(ctx context.Context, key string) (Entry, error) {
	retry := newRetry()
	for {
		e, err := b.getOnce(ctx, key)
		if err == nil || !natserr.Unknown(err) {
			return e, err
		}
		if wait(ctx, retry) != nil {
			return Entry{}, fmt.Errorf("get %s: %w", key, err)
		}
	}
}

func (b *Bucket) getOnce(ctx context.Context, key string) (Entry, error) {
	ctx, cancel := context.WithTimeout(ctx, answerWait)
	defer cancel()
	msg, err := b.stream.GetLastMsgForSubject(ctx, b.prefix+key)
	if isNoMessage(err) {
		return Entry{Key: key}, nil
	}
	if err != nil {
		return Entry{}, fmt.Errorf("get %s: %w", key, err)
	}
	return Entry{
		Key: key, Value: msg.Data, Revision: msg.Sequence, Created: msg.Time,
		Write:  msg.Header.Get(WriteHeader),
		Marker: isMarker(msg.Header),
	}, nil
}

// isMarker reports whether a message stands for a value that is gone, by a
// person's delete or by its time to live.
func isMarker(h nats.Header) bool {
	return h.Get(operationHeader) != "" || h.Get("Nats-Marker-Reason") != ""
}

// Write is one compare-and-set.
type Write struct {
	Key      string
	Value    []byte
	Revision uint64        // what the key must be at; 0 means it has no value
	TTL      time.Duration // whole seconds until the value expires; 0 is never

	remove  bool   // leave a marker in place of a value
	subject string // of the key; empty until it is sent
}

// Swap writes the value if the key is at the expected revision, and returns the
// new revision. It fails with a *Conflict when the revision has moved, with
// ErrUndecided when ctx ended before an answer came, and otherwise with what the
// server refused: a full disk, a missing permission. A key that was deleted or
// has expired counts as having no value.
func (b *Bucket) Swap(ctx context.Context, w Write) (uint64, error) {
	if err := ctx.Err(); err != nil {
		return 0, undecided(w.Key, err)
	}
	return b.Begin(w, nil).End(ctx)
}

// decide goes on from the answer to a write until it is known what has become of
// it. mark is what the write can be recognised by.
func (b *Bucket) decide(ctx context.Context, w Write, mark string, revision uint64, err error) (uint64, error) {
	if err == nil {
		return revision, nil
	}
	retry, create := newRetry(), w.Revision == 0
	for ; ; revision, err = b.publish(ctx, w, mark) {
		switch {
		case err == nil:
			return revision, nil
		case isConflict(err):
			current, readErr := b.Get(ctx, w.Key)
			if readErr != nil {
				return 0, undecided(w.Key, readErr)
			}
			if current.Write == mark {
				return current.Revision, nil // an earlier try, whose answer was lost
			}
			if create && current.steppedOver(&w) {
				continue
			}
			if current.Revision != w.Revision {
				return 0, &Conflict{Key: w.Key, Current: current}
			}
		case !natserr.Unknown(err):
			return 0, fmt.Errorf("write %s: %w", w.Key, err)
		}
		if wait(ctx, retry) != nil {
			return 0, undecided(w.Key, err)
		}
	}
}

// steppedOver has a write that creates expect the marker that is there, or none
// where one was. It reports false when there is a value, or nothing new to expect.
func (e Entry) steppedOver(w *Write) bool {
	if e.Exists() || e.Revision == w.Revision {
		return false
	}
	w.Revision = e.Revision
	return true
}

// publish sends a write and waits for its answer.
func (b *Bucket) publish(ctx context.Context, w Write, mark string) (uint64, error) {
	p := b.send(w, mark, nil)
	if err := p.wait(ctx); err != nil {
		return 0, err
	}
	return p.revision, p.err
}

// Delete removes a key's value if it is at the revision, and leaves a marker. It
// is for keys that are not jobs: a job's record ends by its retention. Its errors
// are those of Swap.
func (b *Bucket) Delete(ctx context.Context, key string, revision uint64) error {
	_, err := b.Swap(ctx, Write{Key: key, Revision: revision, remove: true})
	return err
}

func undecided(key string, cause error) error {
	if errors.Is(cause, ErrUndecided) {
		return cause
	}
	return fmt.Errorf("write %s: %w: %w", key, ErrUndecided, cause)
}

func newRetry() backoff.BackOff {
	retry := backoff.NewExponentialBackOff()
	retry.InitialInterval = 5 * time.Millisecond
	retry.MaxInterval = 500 * time.Millisecond
	return retry
}

// wait sleeps for the next interval, or until ctx ends, and then returns its
// error.
func wait(ctx context.Context, retry backoff.BackOff) error { return rest(ctx, retry.NextBackOff()) }

package kv

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"

	"github.com/nats-io/nats.go/jetstream"
)

// errWatchEnded means that the server side of a watch went away for good.
var errWatchEnded = errors.New("the watch ended")

// Change is one step of a watch. Synced marks the point where everything that
// was there at the start has been given; its Entry is empty.
type Change struct {
	Entry
	Synced bool
}

// Watch gives what the matching keys hold now, then a Synced change, then every
// change as it happens, until ctx ends or the caller stops. Patterns are those
// of the bucket, such as job.*.
func (b *Bucket) Watch(ctx context.Context, patterns ...string) iter.Seq2[Change, error] {
	return func(yield func(Change, error) bool) {
		// The client writes into the slice that it is given.
		watcher, err := b.watch.WatchFiltered(ctx, append([]string(nil), patterns...))
		if err != nil {
			yield(Change{}, fmt.Errorf("watch %s: %w", strings.Join(patterns, " "), err))
			return
		}
		defer watcher.Stop()
		for {
			select {
			case <-ctx.Done():
				yield(Change{}, ctx.Err())
				return
			case update, open := <-watcher.Updates():
				if !open {
					yield(Change{}, errWatchEnded)
					return
				}
				if !yield(changeOf(update), nil) {
					return
				}
			}
		}
	}
}

func changeOf(update jetstream.KeyValueEntry) Change {
	if update == nil {
		return Change{Synced: true}
	}
	return Change{Entry: Entry{
		Key: update.Key(), Value: update.Value(), Revision: update.Revision(), Created: update.Created(),
		Marker: update.Operation() != jetstream.KeyValuePut,
	}}
}

// List gives what the matching keys hold now, without markers, in the order of
// their last change.
func (b *Bucket) List(ctx context.Context, patterns ...string) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		for change, err := range b.Watch(ctx, patterns...) {
			switch {
			case err != nil:
				yield(Entry{}, err)
				return
			case change.Synced:
				return
			case change.Marker:
			case !yield(change.Entry, nil):
				return
			}
		}
	}
}

// AllJobs is the pattern of every job's key.
const AllJobs = jobPrefix + "*"

// AllStages is the pattern of every stage's key.
const AllStages = stagePrefix + "*"

// AllWorkers is the pattern of every worker's key.
const AllWorkers = workerPrefix + "*"

// JobID takes the job id out of a key, if it is a job's.
func JobID(key string) (string, bool) { return strings.CutPrefix(key, jobPrefix) }

// StageOf takes the stage out of a key, if it is a stage's.
func StageOf(key string) (string, bool) { return strings.CutPrefix(key, stagePrefix) }

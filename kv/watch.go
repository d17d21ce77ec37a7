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

// errWatchEnded means that the server side of a watch went away for good.
var errWatchEnded = errors.New("the watch ended")

// errWatchSilent means that a watch did not give what is there, in time.
var errWatchSilent = errors.New("the watch fell silent before it was complete")

// Change is one step of a watch. Synced marks the point where everything that
// was there at the start has been given; its Entry is empty.
type Change struct {
	Entry
	Synced bool
}

// watchSilence is how long a watch may give nothing before it is synced. A
// request for it, or the server side of it, can get lost when a leader changes,
// and the client waits for that without end.
const watchSilence = 10 * time.Second

// Watch gives what the matching keys hold now, then a Synced change, then every
// change as it happens, until ctx ends or the caller stops. Patterns are those
// of the bucket, such as job.*. It fails when the server falls silent before the
// Synced change.
func (b *Bucket) Watch(ctx context.Context, patterns ...string) iter.Seq2[Change, error] {
	return func(yield func(Change, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		watcher, err := b.begin(ctx, cancel, patterns)
		if err != nil {
			yield(Change{}, fmt.Errorf("watch %s: %w", strings.Join(patterns, " "), err))
			return
		}
		defer watcher.Stop()
		silence := time.NewTimer(watchSilence)
		defer silence.Stop()
		for synced := false; ; {
			if !synced {
				silence.Reset(watchSilence)
			}
			select {
			case <-ctx.Done():
				yield(Change{}, ctx.Err())
				return
			case <-silence.C:
				yield(Change{}, errWatchSilent)
				return
			case update, open := <-watcher.Updates():
				if !open {
					yield(Change{}, errWatchEnded)
					return
				}
				if update == nil {
					synced = true
					silence.Stop()
				}
				if !yield(changeOf(update), nil) {
					return
				}
			}
		}
	}
}

// begin asks for a watch, for no longer than it may be silent.
func (b *Bucket) begin(ctx context.Context, cancel context.CancelFunc, patterns []string) (jetstream.KeyWatcher, error) {
	late := time.AfterFunc(watchSilence, cancel)
	// The client writes into the slice that it is given.
	watcher, err := b.watch.WatchFiltered(ctx, append([]string(nil), patterns...))
	if !late.Stop() {
		err = errors.Join(errWatchSilent, err)
	}
	return watcher, err
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

// AllCounts is the pattern of the key of every stage's counts.
const AllCounts = countPrefix + "*"

// AllCrons is the pattern of every cron entry's key.
const AllCrons = cronPrefix + "*"

// AllFeeds is the pattern of every feed's key.
const AllFeeds = feedPrefix + "*"

// JobID takes the job id out of a key, if it is a job's.
func JobID(key string) (string, bool) { return strings.CutPrefix(key, jobPrefix) }

// StageOf takes the stage out of a key, if it is a stage's.
func StageOf(key string) (string, bool) { return strings.CutPrefix(key, stagePrefix) }

// CronOf takes the name of a cron entry out of a key, if it is an entry's.
func CronOf(key string) (string, bool) { return strings.CutPrefix(key, cronPrefix) }

// FeedOf takes the name of a feed out of a key, if it is a feed's.
func FeedOf(key string) (string, bool) { return strings.CutPrefix(key, feedPrefix) }

// CountedStage takes the stage out of a key, if it is that of a stage's counts.
func CountedStage(key string) (string, bool) { return strings.CutPrefix(key, countPrefix) }

package kv_test

// These tests prove that a follower learns what every key has become, whatever
// happens to the server meanwhile, and is not told each step of a busy key.

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/weft-fabric/weft/internal/natstest"
	"github.com/weft-fabric/weft/kv"
)

// following gives what a follower of all jobs is told until the test ends.
func following(t *testing.T, b *kv.Bucket) <-chan kv.Change {
	t.Helper()
	changes := make(chan kv.Change)
	ctx := t.Context()
	go func() {
		for change, err := range b.Follow(ctx, kv.AllJobs) {
			if err != nil && ctx.Err() == nil {
				t.Errorf("the follower ended: %v", err)
			}
			if err != nil {
				return
			}
			select {
			case changes <- change:
			case <-ctx.Done():
				return
			}
		}
	}()
	return changes
}

// until reads changes until one is as wanted, and counts the others.
func until(t *testing.T, changes <-chan kv.Change, wanted func(kv.Change) bool) (others int) {
	t.Helper()
	for {
		if wanted(next(t, changes)) {
			return others
		}
		others++
	}
}

func synced(c kv.Change) bool { return c.Synced }

func at(key string, revision uint64) func(kv.Change) bool {
	return func(c kv.Change) bool { return c.Key == key && c.Revision == revision }
}

func TestFollowGivesWhatIsThereThenSyncedThenChanges(t *testing.T) {
	t.Parallel()
	b, _ := bucket(t)
	first := swap(t, b, kv.Write{Key: "job.a", Value: []byte("one")})
	swap(t, b, kv.Write{Key: "stage.hash", Value: []byte("{}")})
	changes := following(t, b)
	if c := next(t, changes); c.Key != "job.a" || c.Revision != first || string(c.Value) != "one" || c.Created.IsZero() {
		t.Fatalf("first: %+v", c)
	}
	if c := next(t, changes); !c.Synced {
		t.Fatalf("not synced: %+v", c)
	}
	second := swap(t, b, kv.Write{Key: "job.a", Value: []byte("two"), Revision: first})
	if c := next(t, changes); c.Revision != second || string(c.Value) != "two" {
		t.Fatalf("changed: %+v", c)
	}
	if err := b.Delete(t.Context(), "job.a", second); err != nil {
		t.Fatal(err)
	}
	if c := next(t, changes); !c.Marker || c.Key != "job.a" {
		t.Fatalf("deleted: %+v", c)
	}
}

func TestFollowGivesMoreThanAPage(t *testing.T) {
	t.Parallel()
	const keys = 2500
	b, _ := bucket(t)
	fill(t, b, keys)
	if n := until(t, following(t, b), synced); n != keys {
		t.Fatalf("%d of %d keys", n, keys)
	}
}

func TestFollowSkipsTheStepsOfABusyKey(t *testing.T) {
	t.Parallel()
	const steps = 3000
	b, _ := bucket(t)
	changes := following(t, b)
	until(t, changes, synced)
	revision := uint64(0)
	for range steps {
		revision = swap(t, b, kv.Write{Key: "job.a", Value: []byte("x"), Revision: revision})
	}
	if told := until(t, changes, at("job.a", revision)); told >= steps/2 {
		t.Errorf("told of %d of %d steps", told, steps)
	}
}

func TestFollowGoesOnAfterARestart(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	b := openBucket(t, s.Connect(), config)
	old := swap(t, b, kv.Write{Key: "job.old", Value: []byte("x")})
	changes := following(t, b)
	until(t, changes, synced)
	for round := range 3 {
		s.Restart()
		key := fmt.Sprintf("job.new%d", round)
		revision := swap(t, b, kv.Write{Key: key, Value: []byte("x")})
		for others := 0; ; others++ {
			c := next(t, changes)
			if at("job.old", old)(c) {
				t.Fatal("what was known is given again")
			}
			if at(key, revision)(c) {
				break
			}
		}
	}
}

func TestFollowGoesOnWhenItsConsumerIsDeleted(t *testing.T) {
	t.Parallel()
	b, nc := bucket(t)
	changes := following(t, b)
	until(t, changes, synced)
	stream, err := jetStream(t, nc).Stream(t.Context(), "KV_weft")
	if err != nil {
		t.Fatal(err)
	}
	for name := range stream.ConsumerNames(t.Context()).Name() {
		if err := stream.DeleteConsumer(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	revision := swap(t, b, kv.Write{Key: "job.a", Value: []byte("x")})
	until(t, changes, at("job.a", revision))
}

func TestFollowEndsWithItsContextAndItsCaller(t *testing.T) {
	t.Parallel()
	b, nc := bucket(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var last error
	for change, err := range b.Follow(ctx, kv.AllJobs) {
		if last = err; change.Synced {
			cancel()
		}
	}
	if !errors.Is(last, context.Canceled) {
		t.Errorf("it ended with %v", last)
	}
	for range b.Follow(t.Context(), kv.AllJobs) {
		break
	}
	noConsumerStays(t, nc)
}

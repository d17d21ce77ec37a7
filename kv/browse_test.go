package kv_test

// These tests prove that whoever browses sees each key that was there once, and
// ends however much is written meanwhile.

import (
	"context"
	"errors"
	"testing"

	"github.com/weft-fabric/weft/kv"
)

func quiet() bool { return false }

func TestBrowseGivesEachKeyOnceAndNothingNewer(t *testing.T) {
	t.Parallel()
	const keys = 2500
	b, _ := bucket(t)
	fill(t, b, keys)
	swap(t, b, kv.Write{Key: "stage.hash", Value: []byte("{}")})
	gone := get(t, b, "job.j7")
	if err := b.Delete(t.Context(), gone.Key, gone.Revision); err != nil {
		t.Fatal(err)
	}
	seen := map[string]uint64{}
	for e, err := range b.Browse(t.Context(), kv.AllJobs, quiet) {
		if err != nil {
			t.Fatal(err)
		}
		if seen[e.Key] != 0 {
			t.Fatalf("%s at %d and %d", e.Key, seen[e.Key], e.Revision)
		}
		seen[e.Key] = e.Revision
		// A write for each key that is seen would keep it going for ever.
		swap(t, b, kv.Write{Key: "job.new", Value: []byte("x"), Revision: seen["last"]})
		seen["last"] = get(t, b, "job.new").Revision
	}
	delete(seen, "last")
	if len(seen) != keys-1 || seen["job.new"] != 0 || seen["job.j7"] != 0 || seen["stage.hash"] != 0 {
		t.Errorf("%d of %d keys; job.new %d, job.j7 %d, stage.hash %d", len(seen), keys-1, seen["job.new"], seen["job.j7"], seen["stage.hash"])
	}
}

func TestBrowseEndsWithItsContextAndItsCaller(t *testing.T) {
	t.Parallel()
	b, nc := bucket(t)
	for range b.Browse(t.Context(), kv.AllJobs, quiet) {
		t.Error("something is there")
	}
	fill(t, b, 1500)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var last error
	n := 0
	for _, err := range b.Browse(ctx, kv.AllJobs, quiet) {
		n++
		last = err
		cancel()
	}
	if !errors.Is(last, context.Canceled) || n > 1100 {
		t.Errorf("it ended with %v after %d", last, n)
	}
	for range b.Browse(t.Context(), kv.AllJobs, quiet) {
		break
	}
	noConsumerStays(t, nc)
}

package kv_test

// These tests prove that a watch gives what is there, says when that was all, and
// then every change, and that a list gives what is there without what is gone.

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"testing"
	"time"

	"github.com/weft-fabric/weft/internal/natstest"
	"github.com/weft-fabric/weft/kv"
)

// flowing gives what comes until the test ends.
func flowing[T any](ctx context.Context, coming iter.Seq2[T, error]) <-chan T {
	flow := make(chan T)
	go func() {
		defer close(flow)
		for one, err := range coming {
			if err != nil {
				return
			}
			select {
			case flow <- one:
			case <-ctx.Done():
				return
			}
		}
	}()
	return flow
}

// next is what comes next.
func next[T any](t *testing.T, flow <-chan T) (one T) {
	t.Helper()
	select {
	case one, open := <-flow:
		if !open {
			t.Fatal("it ended")
		}
		return one
	case <-time.After(2 * soon):
		t.Fatal("nothing comes")
	}
	return one
}

// watching gives the changes of the patterns until the test ends.
func watching(t *testing.T, b *kv.Bucket, patterns ...string) <-chan kv.Change {
	t.Helper()
	return flowing(t.Context(), b.Watch(t.Context(), patterns...))
}

func TestWatchGivesWhatIsThereThenSyncedThenChanges(t *testing.T) {
	t.Parallel()
	b, _ := bucket(t)
	first := swap(t, b, kv.Write{Key: "job.a", Value: []byte("one")})
	swap(t, b, kv.Write{Key: "stage.hash", Value: []byte("{}")})
	patterns := []string{kv.AllJobs}
	changes := watching(t, b, patterns...)
	if c := next(t, changes); c.Key != "job.a" || c.Revision != first || string(c.Value) != "one" || c.Synced {
		t.Fatalf("first: %+v", c)
	}
	if c := next(t, changes); !c.Synced {
		t.Fatalf("then: %+v", c)
	}
	second := swap(t, b, kv.Write{Key: "job.a", Value: []byte("two"), Revision: first})
	if c := next(t, changes); c.Key != "job.a" || c.Revision != second || string(c.Value) != "two" {
		t.Fatalf("changed: %+v", c)
	}
	if err := b.Delete(t.Context(), "job.a", second); err != nil {
		t.Fatal(err)
	}
	if c := next(t, changes); c.Key != "job.a" || !c.Marker || c.Exists() {
		t.Fatalf("deleted: %+v", c)
	}
	swap(t, b, kv.Write{Key: "job.b", Value: []byte("x"), TTL: time.Second})
	if c := next(t, changes); c.Key != "job.b" || !c.Exists() {
		t.Fatalf("created: %+v", c)
	}
	if c := next(t, changes); c.Key != "job.b" || !c.Marker {
		t.Fatalf("expired: %+v", c)
	}
	if patterns[0] != kv.AllJobs {
		t.Fatalf("the caller's patterns became %q", patterns)
	}
}

func TestWatchGoesOnAfterARestart(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	b := openBucket(t, s.Connect(), config)
	changes := watching(t, b, kv.AllJobs)
	if c := next(t, changes); !c.Synced {
		t.Fatalf("first: %+v", c)
	}
	s.Restart()
	revision := swap(t, b, kv.Write{Key: "job.a", Value: []byte("x")})
	if c := next(t, changes); c.Key != "job.a" || c.Revision != revision {
		t.Fatalf("after the restart: %+v", c)
	}
}

func TestWatchEndsWithItsContext(t *testing.T) {
	t.Parallel()
	b, _ := bucket(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var last error
	for change, err := range b.Watch(ctx, kv.AllJobs) {
		if change.Synced {
			cancel()
		}
		last = err
	}
	if !errors.Is(last, context.Canceled) {
		t.Fatalf("ended with %v", last)
	}
}

func TestWatchOfOneKeyAmongMany(t *testing.T) {
	t.Parallel()
	b, _ := bucket(t)
	changes := watching(t, b, kv.JobKey("b"), kv.JobKey("c"))
	if c := next(t, changes); !c.Synced {
		t.Fatalf("first: %+v", c)
	}
	for _, id := range []string{"a", "b", "bb", "c"} {
		swap(t, b, kv.Write{Key: kv.JobKey(id), Value: []byte("x")})
	}
	for _, want := range []string{"job.b", "job.c"} {
		if c := next(t, changes); c.Key != want {
			t.Fatalf("%+v, want %s", c, want)
		}
	}
}

func TestListGivesWhatIsThereInTheOrderOfItsLastChange(t *testing.T) {
	t.Parallel()
	b, _ := bucket(t)
	const n = 700 // more than a watch holds ready
	revisions := map[string]uint64{}
	for i := range n {
		key := kv.JobKey(fmt.Sprint(i))
		revisions[key] = swap(t, b, kv.Write{Key: key, Value: []byte("x")})
	}
	swap(t, b, kv.Write{Key: "job.0", Value: []byte("y"), Revision: revisions["job.0"]})
	if err := b.Delete(t.Context(), "job.1", revisions["job.1"]); err != nil {
		t.Fatal(err)
	}
	var order []kv.Entry
	for e, err := range b.List(t.Context(), kv.AllJobs) {
		if err != nil {
			t.Fatal(err)
		}
		if n := len(order); n > 0 && order[n-1].Revision >= e.Revision {
			t.Fatalf("%s at %d after %d", e.Key, e.Revision, order[n-1].Revision)
		}
		order = append(order, e)
	}
	if len(order) != n-1 || order[len(order)-1].Key != "job.0" {
		t.Fatalf("%d entries, the last is %+v", len(order), order[len(order)-1])
	}
}

func TestListOfNothingEnds(t *testing.T) {
	t.Parallel()
	b, _ := bucket(t)
	for e, err := range b.List(t.Context(), kv.AllStages) {
		t.Fatalf("%+v, %v", e, err)
	}
}

func TestListMayBeLeftEarly(t *testing.T) {
	t.Parallel()
	b, nc := bucket(t)
	for i := range 20 {
		swap(t, b, kv.Write{Key: kv.JobKey(fmt.Sprint(i)), Value: []byte("x")})
	}
	before := nc.NumSubscriptions()
	for range 20 {
		for _, err := range b.List(t.Context(), kv.AllJobs) {
			if err != nil {
				t.Fatal(err)
			}
			break
		}
	}
	natstest.Eventually(t, soon, "the lists' subscriptions end", func() bool { return nc.NumSubscriptions() <= before })
}

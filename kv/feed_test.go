package kv_test

// These tests prove that changes come as they are and as they happen, to a reader
// that leaves nothing behind and to one whose place the server keeps.

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/weft-fabric/weft/internal/natstest"
	"github.com/weft-fabric/weft/kv"
)

// reading gives what Changes gives until the test ends.
func reading(t *testing.T, b *kv.Bucket, patterns ...string) <-chan kv.Entry {
	t.Helper()
	return flowing(t.Context(), b.Changes(t.Context(), patterns...))
}

func TestChangesGiveWhatIsThereAndWhatHappens(t *testing.T) {
	t.Parallel()
	b, _ := bucket(t)
	first := swap(t, b, kv.Write{Key: "job.a", Value: []byte("one")})
	swap(t, b, kv.Write{Key: "job.c", Value: []byte("not asked for")})
	entries := reading(t, b, kv.JobKey("a"), kv.JobKey("b"))
	if e := next(t, entries); e.Key != "job.a" || e.Revision != first || string(e.Value) != "one" || e.Write == "" {
		t.Errorf("first %+v", e)
	}
	second := swap(t, b, kv.Write{Key: "job.b", Value: []byte("two")})
	if e := next(t, entries); e.Key != "job.b" || e.Revision != second {
		t.Errorf("then %+v", e)
	}
	if err := b.Delete(t.Context(), "job.a", first); err != nil {
		t.Fatal(err)
	}
	if e := next(t, entries); e.Key != "job.a" || !e.Marker {
		t.Errorf("deleted %+v", e)
	}
}

// A reader that has begun goes on where it was, with a consumer of its own making.
func TestChangesGoOnAfterARestart(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	b := openBucket(t, s.Connect(), config)
	before := swap(t, b, kv.Write{Key: "job.a", Value: []byte("one")})
	entries := reading(t, b, kv.AllJobs)
	next(t, entries)
	s.Restart()
	after := swap(t, b, kv.Write{Key: "job.a", Value: []byte("two"), Revision: before})
	if e := next(t, entries); e.Revision != after {
		t.Errorf("after the restart %+v, not revision %d", e, after)
	}
}

// The client refuses a question with little time; a caller may have as little.
func TestChangesEndWithAShortDeadline(t *testing.T) {
	t.Parallel()
	b, _ := bucket(t)
	swap(t, b, kv.Write{Key: "job.a", Value: []byte("one")})
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	given, last := 0, error(nil)
	for e, err := range b.Changes(ctx, kv.AllJobs) {
		if last = err; e.Exists() {
			given++
		}
	}
	if given != 1 || !errors.Is(last, context.DeadlineExceeded) {
		t.Errorf("%d given, ended with %v", given, last)
	}
}

func TestFeedKeepsItsPlaceAndGivesAgainWhatIsNotAcknowledged(t *testing.T) {
	t.Parallel()
	b, _ := bucket(t)
	var revisions []uint64
	for i := range 3 {
		revisions = append(revisions, swap(t, b, kv.Write{Key: kv.JobKey(fmt.Sprint(i)), Value: []byte("x")}))
	}
	settings := kv.FeedConfig{Name: "f", After: revisions[0], AckWait: time.Second}
	var given []string
	for len(given) < 3 { // the second is taken twice, the third once
		feed, err := b.OpenFeed(t.Context(), settings)
		if err != nil {
			t.Fatal(err)
		}
		err = feed.Take(t.Context(), 1, func(d *kv.Delivery) {
			given = append(given, fmt.Sprintf("%s %d", d.Key, d.Deliveries))
			if len(given) > 1 {
				err = d.Ack()
			} else {
				err = d.Later(0)
			}
			if err != nil {
				t.Error(err)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if want := "[job.1 1 job.1 2 job.2 1]"; fmt.Sprint(given) != want && fmt.Sprint(given) != "[job.1 1 job.2 1 job.1 2]" {
		t.Errorf("given %v, want %s", given, want)
	}
	natstest.Eventually(t, soon, "all is acknowledged", func() bool {
		depth, err := b.FeedDepth(t.Context(), "f")
		return err == nil && depth.Pending == 0 && depth.Unacked == 0 && !depth.LastAck.IsZero()
	})
	if err := b.RemoveFeed(t.Context(), "f"); err != nil {
		t.Fatal(err)
	}
	if _, err := b.FeedDepth(t.Context(), "f"); !errors.Is(err, kv.ErrFeedGone) {
		t.Errorf("removed: %v", err)
	}
	if err := b.RemoveFeed(t.Context(), "f"); !errors.Is(err, kv.ErrFeedGone) {
		t.Errorf("removed twice: %v", err)
	}
}

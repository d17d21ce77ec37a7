package stream_test

// These tests prove that what waits is found: one job's item, wherever it is, and
// all of them, however many.

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/weft-fabric/weft/internal/natstest"
	"github.com/weft-fabric/weft/stream"
)

func TestOfferedSeesItemsTakenOrNotAndSchedules(t *testing.T) {
	t.Parallel()
	f := queue(t, stream.Settings{Lease: 30 * time.Second, Lanes: []int{1}})
	p, _ := f.one("taken", settings)
	defer p.Close()
	f.offer("waits")
	must(t, f.OfferLater(t.Context(), item("later", "{}"), time.Now().Add(time.Hour)))
	urgent := item("urgent", "{}")
	urgent.Lane = 1
	must(t, f.Offer(t.Context(), urgent))
	for _, c := range []struct {
		stage, id string
		lane      int
		want      bool
	}{
		{stage, "taken", 3, true}, {stage, "waits", 3, true}, {stage, "later", 3, true}, {stage, "urgent", 1, true},
		{stage, "urgent", 3, false}, {stage, "nobody", 3, false}, {"no-such-stage", "waits", 3, false},
	} {
		if got, err := f.Offered(t.Context(), c.stage, c.lane, c.id); err != nil || got != c.want {
			t.Errorf("%+v: %t, %v", c, got, err)
		}
	}
}

func TestFindLooksInEveryLane(t *testing.T) {
	t.Parallel()
	f := queue(t, stream.Settings{Lease: 30 * time.Second, Lanes: []int{1, 2, 4}})
	for lane := 1; lane <= 4; lane++ {
		it := item(fmt.Sprintf("lane%d", lane), fmt.Sprintf(`{"lane":%d}`, lane))
		it.Lane = lane
		must(t, f.Offer(t.Context(), it))
		got, found, err := f.Find(t.Context(), stage, it.JobID)
		if err != nil || !found || got.Lane != lane || string(got.Body) != string(it.Body) || got.Revision != 7 || got.Stage != stage || got.JobID != it.JobID {
			t.Errorf("lane %d: %+v, %t, %v", lane, got, found, err)
		}
	}
	if _, err := f.js.Publish(t.Context(), "weft.work.hash.bare", []byte(`{}`)); err != nil {
		t.Fatal(err)
	}
	if got, found, err := f.Find(t.Context(), stage, "bare"); err != nil || !found || got.Revision != 0 {
		t.Errorf("a bare spec: %+v, %t, %v", got, found, err)
	}
	for _, where := range []string{stage, "no-such-stage"} {
		if _, found, err := f.Find(t.Context(), where, "nobody"); found || err != nil {
			t.Errorf("nobody in %s: %t, %v", where, found, err)
		}
	}
}

// eachOffer collects what EachOffer gives, and how often.
func eachOffer(t *testing.T, f *fixture, stage string) map[string]int {
	t.Helper()
	seen := map[string]int{}
	ctx, cancel := context.WithTimeout(t.Context(), 3*soon)
	defer cancel()
	if err := f.EachOffer(ctx, stage, func(id string) { seen[id]++ }); err != nil {
		t.Fatal(err)
	}
	return seen
}

func TestEachOfferGivesEveryItemAndSchedule(t *testing.T) {
	t.Parallel()
	f := queue(t, stream.Settings{Lease: 30 * time.Second, Lanes: []int{2}})
	f.offer("a", "b")
	must(t, f.OfferLater(t.Context(), item("b", "{}"), time.Now().Add(time.Hour)))
	must(t, f.OfferLater(t.Context(), item("c", "{}"), time.Now().Add(time.Hour)))
	urgent := item("d", "{}")
	urgent.Lane = 2
	must(t, f.Offer(t.Context(), urgent))
	seen := eachOffer(t, f, stage)
	if len(seen) != 4 || seen["a"] != 1 || seen["b"] != 2 || seen["c"] != 1 || seen["d"] != 1 {
		t.Fatalf("%v", seen)
	}
	if none := eachOffer(t, f, "no-such-stage"); len(none) != 0 {
		t.Fatalf("%v", none)
	}
	must(t, f.Ensure(t.Context(), "empty", settings))
	if none := eachOffer(t, f, "empty"); len(none) != 0 {
		t.Fatalf("%v", none)
	}
}

// page is how many subjects the server tells of at once.
const page = 100_000

func TestEachOfferGoesOnAfterThePage(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("publishes more items than one page holds")
	}
	f := queue(t, settings)
	const n = page + 2500
	for i := range n {
		if _, err := f.js.PublishAsync(fmt.Sprintf("weft.work.hash.j%d", i), nil, jetstream.WithStallWait(soon)); err != nil {
			t.Fatal(err)
		}
	}
	natstest.Eventually(t, 6*soon, "all are published", func() bool { return f.left() == n })
	seen := eachOffer(t, f, stage)
	for id, times := range seen {
		if times != 1 {
			t.Fatalf("%s was given %d times", id, times)
		}
	}
	if len(seen) != n {
		t.Fatalf("%d of %d", len(seen), n)
	}
}

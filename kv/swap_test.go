package kv_test

// These tests prove that a write is a compare-and-set: it succeeds at the
// revision it expects and nowhere else, steps over what only marks a value that
// is gone, and lives as long as it was told to.

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weft-fabric/weft/internal/natstest"
	"github.com/weft-fabric/weft/job"
	"github.com/weft-fabric/weft/kv"
)

func TestSwapCreatesAndUpdates(t *testing.T) {
	t.Parallel()
	b, _ := bucket(t)
	if e := get(t, b, "job.a"); e.Exists() || e.Revision != 0 || e.Key != "job.a" {
		t.Fatalf("before: %+v", e)
	}
	first := swap(t, b, kv.Write{Key: "job.a", Value: []byte("one")})
	second := swap(t, b, kv.Write{Key: "job.a", Value: []byte("two"), Revision: first})
	e := get(t, b, "job.a")
	if !e.Exists() || string(e.Value) != "two" || e.Revision != second || second <= first || e.Created.IsZero() {
		t.Fatalf("after: %+v, revisions %d and %d", e, first, second)
	}
}

func TestSwapAtAnotherRevisionIsAConflict(t *testing.T) {
	t.Parallel()
	b, _ := bucket(t)
	first := swap(t, b, kv.Write{Key: "job.a", Value: []byte("one")})
	now := swap(t, b, kv.Write{Key: "job.a", Value: []byte("two"), Revision: first})
	for _, expected := range []uint64{0, first, now + 7} {
		_, err := b.Swap(t.Context(), kv.Write{Key: "job.a", Value: []byte("three"), Revision: expected})
		conflict, ok := errors.AsType[*kv.Conflict](err)
		if !ok || conflict.Key != "job.a" || conflict.Current.Revision != now || string(conflict.Current.Value) != "two" {
			t.Errorf("expecting %d: %v", expected, err)
		}
	}
	if _, err := b.Swap(t.Context(), kv.Write{Key: "job.b", Value: []byte("x"), Revision: 3}); err == nil {
		t.Error("updated what is not there")
	} else if conflict, ok := errors.AsType[*kv.Conflict](err); !ok || conflict.Current.Revision != 0 {
		t.Errorf("updating what is not there: %v", err)
	}
}

func TestSwapCreatesOverADeleteMarker(t *testing.T) {
	t.Parallel()
	b, _ := bucket(t)
	for range 3 {
		revision := swap(t, b, kv.Write{Key: "job.a", Value: []byte("x")})
		if err := b.Delete(t.Context(), "job.a", revision); err != nil {
			t.Fatal(err)
		}
		if e := get(t, b, "job.a"); e.Exists() || !e.Marker || e.Revision <= revision {
			t.Fatalf("deleted: %+v", e)
		}
	}
	swap(t, b, kv.Write{Key: "job.a", Value: []byte("again")})
	if e := get(t, b, "job.a"); string(e.Value) != "again" {
		t.Fatalf("created over a marker: %+v", e)
	}
}

func TestDeleteOfAnotherRevisionIsRefused(t *testing.T) {
	t.Parallel()
	b, _ := bucket(t)
	first := swap(t, b, kv.Write{Key: "leader.keeper", Value: []byte("x")})
	swap(t, b, kv.Write{Key: "leader.keeper", Value: []byte("y"), Revision: first})
	if _, ok := errors.AsType[*kv.Conflict](b.Delete(t.Context(), "leader.keeper", first)); !ok {
		t.Fatal("deleted what somebody else wrote")
	}
	if e := get(t, b, "leader.keeper"); string(e.Value) != "y" {
		t.Fatalf("%+v", e)
	}
}

func TestSwapCreatesOverAnExpiredValue(t *testing.T) {
	t.Parallel()
	b, _ := bucket(t)
	revision := swap(t, b, kv.Write{Key: "job.a", Value: []byte("x"), TTL: time.Second})
	natstest.Eventually(t, soon, "the value expires", func() bool { return !get(t, b, "job.a").Exists() })
	e := get(t, b, "job.a")
	if !e.Marker || e.Revision <= revision {
		t.Fatalf("expired without a marker: %+v", e)
	}
	swap(t, b, kv.Write{Key: "job.a", Value: []byte("again")})
	if e := get(t, b, "job.a"); string(e.Value) != "again" {
		t.Fatalf("created over a marker: %+v", e)
	}
}

func TestSwapCreatesThoughMarkersComeAndGo(t *testing.T) {
	t.Parallel()
	b, nc := bucket(t)
	s, err := jetStream(t, nc).Stream(t.Context(), "KV_weft")
	if err != nil {
		t.Fatal(err)
	}
	for range 200 {
		revision := swap(t, b, kv.Write{Key: "job.a", Value: []byte("x")})
		if err := b.Delete(t.Context(), "job.a", revision); err != nil {
			t.Fatal(err)
		}
		// The marker's own time is over just while the key is created anew.
		purged := make(chan error, 1)
		go func() { purged <- s.Purge(t.Context(), jetstream.WithPurgeSubject("$KV.weft.job.a")) }()
		if _, err := b.Swap(t.Context(), kv.Write{Key: "job.a", Value: []byte("y")}); err != nil {
			t.Fatal(err)
		}
		if err := <-purged; err != nil {
			t.Fatal(err)
		}
		if e := get(t, b, "job.a"); e.Exists() {
			if err := b.Delete(t.Context(), "job.a", e.Revision); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestUpdateWithoutTTLOutlivesTheOldOne(t *testing.T) {
	t.Parallel()
	b, _ := bucket(t)
	revision := swap(t, b, kv.Write{Key: "job.a", Value: []byte("x"), TTL: time.Second})
	swap(t, b, kv.Write{Key: "job.a", Value: []byte("y"), Revision: revision})
	// The one that keeps its time shows when the other would have expired.
	swap(t, b, kv.Write{Key: "job.b", Value: []byte("x"), TTL: 2 * time.Second})
	natstest.Eventually(t, soon, "the other value expires", func() bool { return !get(t, b, "job.b").Exists() })
	if e := get(t, b, "job.a"); string(e.Value) != "y" {
		t.Fatalf("%+v", e)
	}
}

func TestTTLIsWholeSecondsAndAtLeastOne(t *testing.T) {
	t.Parallel()
	b, nc := bucket(t)
	for ttl, want := range map[time.Duration]string{
		0: "", time.Millisecond: "1s", 1500 * time.Millisecond: "1s", 90 * time.Second: "90s", 7 * 24 * time.Hour: "604800s",
	} {
		key := fmt.Sprintf("job.%d", ttl)
		swap(t, b, kv.Write{Key: key, Value: []byte("x"), TTL: ttl})
		if got := raw(t, nc, key).Header.Get(jetstream.MsgTTLHeader); got != want {
			t.Errorf("%s is written as %q, want %q", ttl, got, want)
		}
	}
}

// raw reads a key's message past the package under test.
func raw(t *testing.T, nc *nats.Conn, key string) *jetstream.RawStreamMsg {
	t.Helper()
	s, err := jetStream(t, nc).Stream(t.Context(), "KV_weft")
	if err != nil {
		t.Fatal(err)
	}
	msg, err := s.GetLastMsgForSubject(t.Context(), "$KV.weft."+key)
	if err != nil {
		t.Fatal(err)
	}
	return msg
}

func TestEveryWriteCarriesAMarkOfItsOwn(t *testing.T) {
	t.Parallel()
	b, nc := bucket(t)
	seen := map[string]bool{}
	revision := uint64(0)
	for range 20 {
		revision = swap(t, b, kv.Write{Key: "job.a", Value: []byte("x"), Revision: revision})
		mark := raw(t, nc, "job.a").Header.Get("Weft-Write")
		if mark == "" || seen[mark] || mark != get(t, b, "job.a").Write {
			t.Fatalf("mark %q after %d others", mark, len(seen))
		}
		seen[mark] = true
	}
}

func TestOneOfManySwapsAtOnceWins(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	oneWins(t, []*kv.Bucket{openBucket(t, s.Connect(), config), openBucket(t, s.Connect(), config), openBucket(t, s.Connect(), config)}, 50)
}

// oneWins lets all buckets change one key at the same revision, round by round.
func oneWins(t *testing.T, buckets []*kv.Bucket, rounds int) {
	t.Helper()
	revision := uint64(0)
	for round := range rounds {
		var won atomic.Uint64
		var wins atomic.Int32
		var writing sync.WaitGroup
		for i, b := range buckets {
			writing.Go(func() {
				got, err := b.Swap(t.Context(), kv.Write{Key: "job.a", Value: fmt.Appendf(nil, "%d/%d", round, i), Revision: revision})
				conflict, lost := errors.AsType[*kv.Conflict](err)
				switch {
				case err == nil:
					won.Store(got)
					wins.Add(1)
				case !lost || conflict.Current.Revision == revision:
					t.Errorf("round %d: %v", round, err)
				}
			})
		}
		writing.Wait()
		if wins.Load() != 1 {
			t.Fatalf("round %d has %d winners", round, wins.Load())
		}
		revision = won.Load()
	}
}

func TestRefusalThatIsNoConflictComesBackAtOnce(t *testing.T) {
	t.Parallel()
	nc := natstest.Conn(t)
	cfg := kv.StreamConfig(config)
	cfg.MaxBytes = 2000
	if _, err := jetStream(t, nc).CreateStream(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	b := openBucket(t, nc, config)
	_, err := b.Swap(t.Context(), kv.Write{Key: "job.a", Value: make([]byte, 4000)})
	if err == nil || errors.Is(err, kv.ErrUndecided) {
		t.Fatalf("a full bucket answers %v", err)
	}
	_, err = b.SaveWith(t.Context(), newJob(t, "a"), kv.Write{Key: "current.k", Value: make([]byte, 4000)})
	if err == nil || errors.Is(err, kv.ErrUndecided) {
		t.Fatalf("a full bucket answers %v to a batch", err)
	}
}

func TestJobsRoundTrip(t *testing.T) {
	t.Parallel()
	b, _ := bucket(t)
	if _, err := b.Load(t.Context(), "a"); !errors.Is(err, job.ErrMissingJob) {
		t.Fatalf("no record: %v", err)
	}
	saved, err := b.Save(t.Context(), newJob(t, "a"), 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	loaded, err := b.Load(t.Context(), "a")
	if err != nil || loaded.Revision != saved.Revision || string(loaded.Raw) != string(saved.Raw) || loaded.Job.ID != "a" {
		t.Fatalf("%+v, %v", loaded, err)
	}
}

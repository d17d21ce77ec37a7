package kv_test

// These tests prove that a record and another key are written together or not at
// all, and that a refusal names the key that was in the way.

import (
	"errors"
	"testing"
	"time"

	"github.com/weft-fabric/weft/internal/natstest"
	"github.com/weft-fabric/weft/kv"
)

func TestSaveWithWritesBoth(t *testing.T) {
	t.Parallel()
	b, nc := bucket(t)
	rec, err := b.SaveWith(t.Context(), newJob(t, "a"), kv.Write{Key: "current.k", Value: []byte("a"), TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	if e := get(t, b, "job.a"); e.Revision != rec.Revision || string(e.Value) != string(rec.Raw) {
		t.Fatalf("record %+v, returned %+v", e, rec)
	}
	if e := get(t, b, "current.k"); string(e.Value) != "a" || e.Write != get(t, b, "job.a").Write {
		t.Fatalf("other key %+v", e)
	}
	if ttl := raw(t, nc, "current.k").Header.Get("Nats-TTL"); ttl != "3600s" {
		t.Fatalf("the other key's time to live is %q", ttl)
	}
	// The returned revision is the one to go on with.
	if _, err := b.Save(t.Context(), newJob(t, "a"), rec.Revision, 0); err != nil {
		t.Fatal(err)
	}
}

func TestSaveWithWritesNeitherAndNamesTheKey(t *testing.T) {
	t.Parallel()
	b, _ := bucket(t)
	swap(t, b, kv.Write{Key: "job.taken", Value: []byte("x")})
	moved := swap(t, b, kv.Write{Key: "current.k", Value: []byte("old")})
	for id, want := range map[string]string{"taken": "job.taken", "fresh": "current.k"} {
		revision := moved
		if want == "current.k" {
			revision = moved + 1
		}
		_, err := b.SaveWith(t.Context(), newJob(t, id), kv.Write{Key: "current.k", Value: []byte("new"), Revision: revision})
		conflict, ok := errors.AsType[*kv.Conflict](err)
		if !ok || conflict.Key != want || conflict.Current.Key != want {
			t.Errorf("job %s: %v", id, err)
		}
	}
	if e := get(t, b, "job.fresh"); e.Revision != 0 {
		t.Errorf("half of a batch was written: %+v", e)
	}
	if e := get(t, b, "current.k"); string(e.Value) != "old" {
		t.Errorf("half of a batch was written: %+v", e)
	}
}

func TestSaveWithCreatesOverMarkers(t *testing.T) {
	t.Parallel()
	b, _ := bucket(t)
	revision := swap(t, b, kv.Write{Key: "job.a", Value: []byte("x")})
	if err := b.Delete(t.Context(), "job.a", revision); err != nil {
		t.Fatal(err)
	}
	swap(t, b, kv.Write{Key: "current.k", Value: []byte("x"), TTL: time.Second})
	natstest.Eventually(t, soon, "the value expires", func() bool { return get(t, b, "current.k").Marker })
	rec, err := b.SaveWith(t.Context(), newJob(t, "a"), kv.Write{Key: "current.k", Value: []byte("a")})
	if err != nil {
		t.Fatal(err)
	}
	if e := get(t, b, "job.a"); e.Revision != rec.Revision || !get(t, b, "current.k").Exists() {
		t.Fatalf("%+v, returned %+v", e, rec)
	}
}

func TestOneOfManyBatchesAtOnceWins(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	results := make(chan error, 4)
	for _, id := range []string{"a", "b", "c", "d"} {
		b := openBucket(t, s.Connect(), config)
		go func() {
			_, err := b.SaveWith(t.Context(), newJob(t, id), kv.Write{Key: "current.k", Value: []byte(id)})
			results <- err
		}()
	}
	wins := 0
	for range 4 {
		err := <-results
		conflict, lost := errors.AsType[*kv.Conflict](err)
		switch {
		case err == nil:
			wins++
		case !lost || conflict.Key != "current.k":
			t.Error(err)
		}
	}
	if wins != 1 {
		t.Fatalf("%d winners", wins)
	}
}

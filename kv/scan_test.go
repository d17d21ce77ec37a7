package kv_test

// These tests prove that a scan gives every record once, from where it is told to
// begin, and ends, whatever the bucket holds besides and however it is left.

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/weft-fabric/weft/internal/natstest"
	"github.com/weft-fabric/weft/kv"
)

func scanned(t *testing.T, b *kv.Bucket, after uint64) (all []kv.Entry) {
	t.Helper()
	for e, err := range b.Scan(t.Context(), after) {
		if err != nil {
			t.Fatal(err)
		}
		if n := len(all); n > 0 && all[n-1].Revision >= e.Revision {
			t.Fatalf("%s at %d after %d", e.Key, e.Revision, all[n-1].Revision)
		}
		all = append(all, e)
	}
	return all
}

func TestScanGivesEveryRecordInTheOrderOfItsLastChange(t *testing.T) {
	t.Parallel()
	b, _ := bucket(t)
	const n = 1500 // several batches
	revisions := map[string]uint64{}
	for i := range n {
		key := kv.JobKey(fmt.Sprint(i))
		revisions[key] = swap(t, b, kv.Write{Key: key, Value: []byte(key)})
		if i%100 == 0 {
			swap(t, b, kv.Write{Key: kv.StageKey(fmt.Sprint(i)), Value: []byte("{}")})
		}
	}
	last := swap(t, b, kv.Write{Key: "job.0", Value: []byte("again"), Revision: revisions["job.0"]})
	if err := b.Delete(t.Context(), "job.1", revisions["job.1"]); err != nil {
		t.Fatal(err)
	}
	all := scanned(t, b, 0)
	if len(all) != n-1 {
		t.Fatalf("%d entries", len(all))
	}
	if e := all[n-2]; e.Key != "job.0" || string(e.Value) != "again" || e.Revision != last || e.Created.IsZero() || e.Write == "" {
		t.Errorf("the last is %+v", e)
	}
	rest := scanned(t, b, all[700].Revision)
	if len(rest) != n-1-701 || rest[0].Key != all[701].Key {
		t.Errorf("%d entries after the 701st, the first is %s", len(rest), rest[0].Key)
	}
	if none := scanned(t, b, last+1000); len(none) > 0 {
		t.Errorf("%d entries after the end", len(none))
	}
}

func TestScanOfNothingEnds(t *testing.T) {
	t.Parallel()
	b, _ := bucket(t)
	if all := scanned(t, b, 0); len(all) > 0 {
		t.Fatalf("%+v", all)
	}
	swap(t, b, kv.Write{Key: kv.StageKey("hash"), Value: []byte("{}")})
	if all := scanned(t, b, 0); len(all) > 0 {
		t.Fatalf("%+v", all)
	}
}

func TestScanThatIsLeftLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	b, nc := bucket(t)
	for i := range 20 {
		swap(t, b, kv.Write{Key: kv.JobKey(fmt.Sprint(i)), Value: []byte("x")})
	}
	before := nc.NumSubscriptions()
	for range 5 {
		for _, err := range b.Scan(t.Context(), 0) {
			if err != nil {
				t.Fatal(err)
			}
			break
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var last error
	given := 0
	for _, err := range b.Scan(ctx, 0) {
		given++
		cancel()
		last = err
	}
	if !errors.Is(last, context.Canceled) || given != 2 {
		t.Errorf("after %d entries: %v", given, last)
	}
	natstest.Eventually(t, soon, "the scans' subscriptions end", func() bool { return nc.NumSubscriptions() <= before })
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	st, err := js.Stream(t.Context(), "KV_weft")
	if err != nil {
		t.Fatal(err)
	}
	natstest.Eventually(t, soon, "the scans' consumers end", func() bool {
		info, err := st.Info(t.Context())
		return err == nil && info.State.Consumers == 0
	})
}

// A caller that takes its time, a person at a pager, outlives the scan's consumer.
func TestScanGoesOnWhenTheServerHasForgottenIt(t *testing.T) {
	t.Parallel()
	b, nc := bucket(t)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	const n = 1500
	for i := range n {
		swap(t, b, kv.Write{Key: kv.JobKey(fmt.Sprint(i)), Value: []byte("x")})
	}
	given := 0
	for e, err := range b.Scan(t.Context(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Key != kv.JobKey(fmt.Sprint(given)) {
			t.Fatalf("entry %d is %s", given, e.Key)
		}
		if given++; given != 10 && given != 700 {
			continue
		}
		st, err := js.Stream(t.Context(), "KV_weft")
		if err != nil {
			t.Fatal(err)
		}
		for name := range st.ConsumerNames(t.Context()).Name() {
			if err := st.DeleteConsumer(t.Context(), name); err != nil {
				t.Fatal(err)
			}
		}
	}
	if given != n {
		t.Errorf("%d of %d", given, n)
	}
}

func TestScanGoesOnAfterARestart(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	b := openBucket(t, s.Connect(), config)
	const n = 3000 // more than are on their way at once
	for i := range n {
		swap(t, b, kv.Write{Key: kv.JobKey(fmt.Sprint(i)), Value: []byte("x")})
	}
	seen := map[string]bool{}
	for e, err := range b.Scan(t.Context(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		seen[e.Key] = true
		if len(seen) == 100 {
			s.Restart()
		}
	}
	if len(seen) != n {
		t.Errorf("%d of %d", len(seen), n)
	}
}

func TestFewGivesTheKeysThatHoldSomething(t *testing.T) {
	t.Parallel()
	b, _ := bucket(t)
	for i := range 50 {
		swap(t, b, kv.Write{Key: kv.JobKey(fmt.Sprint(i)), Value: []byte("x")})
	}
	for _, stage := range []string{"b", "a", "c"} {
		revision := swap(t, b, kv.Write{Key: kv.StageKey(stage), Value: []byte(stage)})
		if stage == "c" {
			if err := b.Delete(t.Context(), kv.StageKey(stage), revision); err != nil {
				t.Fatal(err)
			}
		}
	}
	swap(t, b, kv.Write{Key: kv.LeaderKey, Value: []byte("me")})
	few, err := b.Few(t.Context(), kv.AllStages, kv.AllWorkers, kv.LeaderKey, kv.CountKey("a"))
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for _, e := range few {
		keys = append(keys, e.Key+"="+string(e.Value))
	}
	if fmt.Sprint(keys) != "[stage.a=a stage.b=b leader.keeper=me]" {
		t.Errorf("%v", keys)
	}
}

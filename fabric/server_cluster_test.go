package fabric_test

// These tests prove that a fabric on three servers goes on while leaders change,
// connections are cut and answers get lost: what was undecided is done once, and
// nobody is told that it failed.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/weft-fabric/weft/fabric"
	"github.com/weft-fabric/weft/internal/natstest"
	"github.com/weft-fabric/weft/job"
	"github.com/weft-fabric/weft/kv"
)

func threefold(o *fabric.Options) { o.Replicas = 3 }

// stepDown has the leaders of streams and consumers step down one after the
// other, again and again, until the returned function is called. It tells how
// often one did, which is at least once.
func stepDown(t *testing.T, nc *nats.Conn, every time.Duration, assets ...string) (stop func() int) {
	t.Helper()
	var steps atomic.Int64
	end := background(t, func(ctx context.Context) error {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for i := 0; ; i++ {
			select {
			case <-ctx.Done():
				return nil
			case <-tick.C:
			}
			msg, err := nc.RequestWithContext(ctx, "$JS.API."+assets[i%len(assets)], nil)
			if err != nil {
				continue // it has no leader at the moment
			}
			var answer struct{ Success bool }
			if json.Unmarshal(msg.Data, &answer) == nil && answer.Success {
				steps.Add(1)
			}
		}
	})
	return func() int {
		t.Helper()
		natstest.Eventually(t, patience, "a leader that stepped down", func() bool { return steps.Load() > 0 })
		end()
		return int(steps.Load())
	}
}

func TestWorkGoesOnWhileLeadersStepDown(t *testing.T) {
	t.Parallel()
	const jobs = 120
	servers := natstest.Cluster(t)
	f := open(t, servers[0].Connect(), terse(t), threefold)
	keep(t, f)
	enqueue(t, f, job.Spec{ID: "first", Stage: "work", InputRef: "data:,x"})
	var ran handled
	work(t, f, "work", 4, counted(&ran))
	work(t, open(t, servers[1].Connect(), terse(t), threefold), "work", 4, counted(&ran))
	stop := stepDown(t, servers[2].Connect(), 150*time.Millisecond, "STREAM.LEADER.STEPDOWN.KV_weft",
		"STREAM.LEADER.STEPDOWN.WEFT_work", "CONSUMER.LEADER.STEPDOWN.WEFT_work.runners")
	ids := []string{"first"}
	for i := range jobs {
		spec := job.Spec{ID: fmt.Sprintf("job%d", i), Stage: "work", InputRef: "data:,x"}
		if i%10 == 9 {
			spec.Dependencies = ids[len(ids)-1:]
		}
		ids = append(ids, enqueue(t, f, spec).ID)
	}
	t.Logf("%d leaders stepped down", stop())
	awaitAll(t, f, 2*patience, ids...)
	for _, id := range ids {
		j, err := f.Get(t.Context(), id)
		if err != nil || int64(ran.of(id)) > j.Fence || j.Attempt > 1 {
			t.Errorf("%s ran %d times, attempt %d, fence %d: %v", id, ran.of(id), j.Attempt, j.Fence, err)
		}
	}
}

// A server of three is lost, with whatever it led.
func TestWorkGoesOnWhenAServerIsLost(t *testing.T) {
	t.Parallel()
	servers := natstest.Cluster(t)
	nc := servers[0].Connect()
	f := open(t, nc, terse(t), threefold)
	keep(t, f)
	var ran handled
	work(t, f, "work", 4, counted(&ran))
	ids := enqueueMany(t, f, 50, job.Spec{Stage: "work", InputRef: "data:,x"})
	info, err := serverStream(t, nc, "KV_weft").Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	lost := servers[1]
	if info.Cluster.Leader == "s3" { // the client's own server stays
		lost = servers[2]
	}
	lost.Stop()
	ids = append(ids, enqueueMany(t, f, 50, job.Spec{Stage: "work", InputRef: "data:,x"})...)
	awaitAll(t, f, 2*patience, ids...)
}

// Many write into one key by compare-and-set while its leader steps down and
// answers are lost. Every word that was reported as written is there, and once.
func TestUndecidedWriteIsDoneOnceAndNeverReportedFailed(t *testing.T) {
	t.Parallel()
	const writers, words = 6, 15
	servers := natstest.Cluster(t)
	f := open(t, servers[0].Connect(), terse(t), threefold)
	proxies := []*natstest.Proxy{servers[0].Proxy(), servers[1].Proxy(), servers[2].Proxy()}
	var buckets [writers]*kv.Bucket
	for i := range buckets {
		buckets[i] = fabric.Bucket(open(t, connectTo(t, proxies[i%3].URL()), terse(t), threefold))
	}
	stop := stepDown(t, servers[1].Connect(), 200*time.Millisecond, "STREAM.LEADER.STEPDOWN.KV_weft")
	heal := loseAnswers(t, proxies)
	var writing sync.WaitGroup
	for i, bucket := range buckets {
		writing.Go(func() {
			for n := range words {
				if err := addWord(t.Context(), bucket, fmt.Sprintf("w%d_%d", i, n)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	writing.Wait()
	heal()
	t.Logf("%d leaders stepped down", stop())
	e, err := fabric.Bucket(f).Get(t.Context(), "stage.words")
	if err != nil {
		t.Fatal(err)
	}
	there := strings.Fields(string(e.Value))
	slices.Sort(there)
	if distinct := len(slices.Compact(slices.Clone(there))); len(there) != writers*words || distinct != len(there) {
		t.Errorf("%d words were written; %d are there, %d of them distinct", writers*words, len(there), distinct)
	}
}

// addWord adds a word, unless it is there. As with a record, what has moved is
// read and looked at again: an earlier try of one's own may be in it.
func addWord(ctx context.Context, bucket *kv.Bucket, word string) error {
	for {
		e, err := bucket.Get(ctx, "stage.words")
		if err != nil {
			return err
		}
		if slices.Contains(strings.Fields(string(e.Value)), word) {
			return nil
		}
		_, err = bucket.Swap(ctx, kv.Write{Key: "stage.words", Value: append(e.Value, " "+word...), Revision: e.Revision})
		if _, moved := errors.AsType[*kv.Conflict](err); !moved {
			return err
		}
	}
}

func connectTo(t *testing.T, url string, opts ...nats.Option) *nats.Conn {
	t.Helper()
	opts = append([]nats.Option{nats.MaxReconnects(-1), nats.ReconnectWait(20 * time.Millisecond), nats.IgnoreDiscoveredServers()}, opts...)
	nc, err := nats.Connect(url, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// loseAnswers has one way to the servers after the other lose what they say for a
// moment, until the returned function is called.
func loseAnswers(t *testing.T, proxies []*natstest.Proxy) (stop func()) {
	t.Helper()
	return background(t, func(ctx context.Context) error {
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for i := 0; ; i++ {
			p := proxies[i/6%len(proxies)]
			switch i % 6 {
			case 0:
				p.Mute()
			case 1:
				p.Heal()
			}
			select {
			case <-ctx.Done():
				p.Heal()
				return nil
			case <-tick.C:
			}
		}
	})
}

// The whole way of jobs, through connections that lose answers, and items that
// come again after their lease.
func TestJobsWhoseAnswersAreLostRunOnce(t *testing.T) {
	t.Parallel()
	const jobs = 100
	servers := natstest.Cluster(t)
	f := open(t, servers[0].Connect(), terse(t), threefold, lease(2*time.Second))
	keep(t, f)
	proxies := []*natstest.Proxy{servers[1].Proxy(), servers[2].Proxy()}
	var ran handled
	for _, p := range proxies {
		work(t, open(t, connectTo(t, p.URL()), terse(t), threefold, lease(2*time.Second)), "work", 4, counted(&ran))
	}
	front := open(t, connectTo(t, proxies[0].URL()), terse(t), threefold, lease(2*time.Second))
	stop := loseAnswers(t, proxies)
	ids := enqueueMany(t, front, jobs, job.Spec{Stage: "work", InputRef: "data:,x"})
	stop()
	awaitAll(t, f, 3*patience, ids...)
	for _, id := range ids {
		j, err := f.Get(t.Context(), id)
		if err != nil || int64(ran.of(id)) > j.Fence {
			t.Errorf("%s ran %d times, fence %d: %v", id, ran.of(id), j.Fence, err)
		}
	}
}

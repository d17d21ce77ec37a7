package kv_test

// These tests prove on three servers what one server cannot show: reads are never
// older than the writes before them, and the refusals of writes that meet on
// their way are told from the ones that are undecided.

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/weft-fabric/weft/internal/natstest"
	"github.com/weft-fabric/weft/kv"
)

// clusterBuckets opens one bucket on three replicas through each server.
func clusterBuckets(t *testing.T) []*kv.Bucket {
	t.Helper()
	var buckets []*kv.Bucket
	for _, s := range natstest.Cluster(t) {
		buckets = append(buckets, openBucket(t, s.Connect(), kv.Config{Namespace: "weft", Replicas: 3}))
	}
	return buckets
}

// warm is how long followers take until they would answer direct gets, if those
// were on. Before, no read could be stale.
const warm = 2500 * time.Millisecond

func TestReadsOnAClusterAreNeverStale(t *testing.T) {
	t.Parallel()
	buckets := clusterBuckets(t)
	var reading sync.WaitGroup
	for i, writer := range buckets {
		reader := buckets[(i+1)%len(buckets)]
		reading.Go(func() {
			key := kv.JobKey(fmt.Sprint(i))
			revision := uint64(0)
			for began := time.Now(); time.Since(began) < warm+time.Second; {
				var err error
				if revision, err = writer.Swap(t.Context(), kv.Write{Key: key, Value: []byte("x"), Revision: revision}); err != nil {
					t.Error(err)
					return
				}
				for _, b := range []*kv.Bucket{writer, reader} {
					if e, err := b.Get(t.Context(), key); err != nil || e.Revision != revision {
						t.Errorf("wrote %d, read %d, %v", revision, e.Revision, err)
						return
					}
				}
			}
		})
	}
	reading.Wait()
}

func TestOneOfManySwapsAtOnceWinsOnACluster(t *testing.T) {
	t.Parallel()
	oneWins(t, clusterBuckets(t), 50)
}

func TestCreateAfterDeleteOnACluster(t *testing.T) {
	t.Parallel()
	b := clusterBuckets(t)[1]
	for range 50 {
		revision := swap(t, b, kv.Write{Key: "job.a", Value: []byte("x")})
		if err := b.Delete(t.Context(), "job.a", revision); err != nil {
			t.Fatal(err)
		}
	}
}

// TestBothCodesOfAConflict shows that the server has two for one meaning, so that
// a new one that no longer does is noticed here.
func TestBothCodesOfAConflict(t *testing.T) {
	t.Parallel()
	s := natstest.Cluster(t)[0]
	nc := s.Connect()
	openBucket(t, nc, kv.Config{Namespace: "weft", Replicas: 3})
	js := jetStream(t, nc)
	codes := map[jetstream.ErrorCode]int{}
	for round := 0; codes[10071] == 0 || codes[10164] == 0; round++ {
		if round == 200 {
			t.Fatalf("only %v", codes)
		}
		subject := fmt.Sprintf("$KV.weft.job.%d", round)
		var futures []jetstream.PubAckFuture
		for range 8 {
			future, err := js.PublishAsync(subject, nil, jetstream.WithExpectLastSequencePerSubject(0))
			if err != nil {
				t.Fatal(err)
			}
			futures = append(futures, future)
		}
		wins := 0
		for _, future := range futures {
			select {
			case <-future.Ok():
				wins++
			case err := <-future.Err():
				if api, ok := errors.AsType[*jetstream.APIError](err); ok {
					codes[api.ErrorCode]++
				}
			}
		}
		if wins != 1 {
			t.Fatalf("round %d has %d winners", round, wins)
		}
		// One that is certainly late.
		_, err := js.Publish(t.Context(), subject, nil, jetstream.WithExpectLastSequencePerSubject(0))
		if api, ok := errors.AsType[*jetstream.APIError](err); ok {
			codes[api.ErrorCode]++
		}
	}
}

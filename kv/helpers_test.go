package kv_test

// What the tests of this package share: a bucket on a server of its own.

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weft-fabric/weft/internal/natstest"
	"github.com/weft-fabric/weft/job"
	"github.com/weft-fabric/weft/kv"
)

// soon is how long a test waits for what should happen at once.
const soon = 10 * time.Second

var config = kv.Config{Namespace: "weft", Replicas: 1, APIPrefix: "$JS.API"}

func jetStream(t *testing.T, nc *nats.Conn) jetstream.JetStream {
	t.Helper()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

func openBucket(t *testing.T, nc *nats.Conn, cfg kv.Config) *kv.Bucket {
	t.Helper()
	b, err := kv.Open(t.Context(), jetStream(t, nc), natstest.Tower(t, nc), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// bucket opens a bucket on a server of the test's own.
func bucket(t *testing.T) (*kv.Bucket, *nats.Conn) {
	t.Helper()
	nc := natstest.Conn(t)
	return openBucket(t, nc, config), nc
}

// behindProxy opens a bucket twice: once through a proxy, once directly, to see
// what really happened.
func behindProxy(t *testing.T) (through, direct *kv.Bucket, p *natstest.Proxy) {
	t.Helper()
	s := natstest.Start(t)
	p = s.Proxy()
	return openBucket(t, p.Connect(), config), openBucket(t, s.Connect(), config), p
}

// fill creates the keys job.j0 and so on.
func fill(t *testing.T, b *kv.Bucket, n int) {
	t.Helper()
	var writes []*kv.Pending
	for i := range n {
		writes = append(writes, b.Begin(kv.Write{Key: fmt.Sprintf("job.j%d", i), Value: []byte("x")}, nil))
	}
	for _, w := range writes {
		if _, err := w.End(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// noConsumerStays holds that nobody has left a consumer on the bucket.
func noConsumerStays(t *testing.T, nc *nats.Conn) {
	t.Helper()
	stream, err := jetStream(t, nc).Stream(t.Context(), "KV_weft")
	if err != nil {
		t.Fatal(err)
	}
	for name := range stream.ConsumerNames(t.Context()).Name() {
		t.Errorf("consumer %s stays behind", name)
	}
}

func get(t *testing.T, b *kv.Bucket, key string) kv.Entry {
	t.Helper()
	e, err := b.Get(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func swap(t *testing.T, b *kv.Bucket, w kv.Write) uint64 {
	t.Helper()
	revision, err := b.Swap(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	return revision
}

// within bounds one call that may not get an answer.
func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func newJob(t *testing.T, id string) job.Job {
	t.Helper()
	j, err := job.New(job.Spec{ID: id, Stage: "hash", InputRef: "data:,x", MaxAttempts: 3}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return j
}

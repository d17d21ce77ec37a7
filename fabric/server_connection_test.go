package fabric_test

// These tests prove that a worker goes on after its connection was cut or has
// stalled, and leaves nothing behind at the server however often that happens.

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weft-fabric/weft/fabric"
	"github.com/weft-fabric/weft/internal/natstest"
	"github.com/weft-fabric/weft/job"
)

func TestWorkGoesOnAfterTheConnectionWasCut(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	proxy := srv.Proxy()
	far := open(t, connectTo(t, proxy.URL()), quiet)
	near := open(t, srv.Connect())
	lead(t, far)
	var ran handled
	work(t, far, "work", 2, counted(&ran))
	awaitAll(t, near, patience, enqueue(t, near, job.Spec{Stage: "work", InputRef: "data:,x"}).ID)
	proxy.Cut()
	first := enqueue(t, near, job.Spec{ID: "meanwhile", Stage: "work", InputRef: "data:,x"})
	then := enqueue(t, near, job.Spec{ID: "then", Stage: "work", InputRef: "data:,x", Dependencies: []string{first.ID}})
	cut := time.Now()
	natstest.Eventually(t, patience, "the cut lasts", func() bool { return time.Since(cut) > 2*time.Second })
	proxy.Heal()
	awaitAll(t, near, patience, first.ID, then.ID)
	for _, id := range []string{first.ID, then.ID} {
		if ran.of(id) != 1 {
			t.Errorf("%s ran %d times", id, ran.of(id))
		}
	}
}

// The connection looks open, but nothing passes any more.
func TestStalledConnectionIsNoticedAndReopened(t *testing.T) {
	t.Parallel()
	const within = 30 * time.Second
	srv := natstest.Start(t)
	proxy := srv.Proxy()
	nc := connectTo(t, proxy.URL(), fabric.ConnectOptions()...)
	far, near := open(t, nc), open(t, srv.Connect())
	var ran handled
	work(t, far, "work", 1, counted(&ran))
	awaitAll(t, near, patience, enqueue(t, near, job.Spec{Stage: "work", InputRef: "data:,x"}).ID)
	proxy.Stall()
	stalled := time.Now()
	natstest.Eventually(t, within, "the stall is noticed", func() bool { return !nc.IsConnected() })
	t.Logf("noticed after %s", time.Since(stalled))
	proxy.Cut() // what was held back is lost
	proxy.Heal()
	j := enqueue(t, near, job.Spec{Stage: "work", InputRef: "data:,x"})
	awaitAll(t, near, within-time.Since(stalled), j.ID)
}

func TestReconnectsLeaveNothingBehindAtTheServer(t *testing.T) {
	t.Parallel()
	const reconnects = 100
	srv := natstest.Start(t)
	near := open(t, srv.Connect())
	again := make(chan struct{}, reconnects)
	nc := srv.Connect(nats.ReconnectHandler(func(*nats.Conn) { again <- struct{}{} }))
	f := open(t, nc, quiet)
	lead(t, f)
	var ran handled
	work(t, f, "work", 2, counted(&ran))
	enqueue(t, near, job.Spec{Stage: "work", InputRef: "data:,x", Priority: 1})
	once := enqueue(t, near, job.Spec{Stage: "work", InputRef: "data:,x"})
	awaitAll(t, near, patience, once.ID)
	streams := []jetstream.Stream{workQueue(t, srv.Connect(), "work"), serverStream(t, srv.Connect(), "KV_weft")}
	before := consumers(t, streams)
	for range reconnects {
		if err := nc.ForceReconnect(); err != nil {
			t.Fatal(err)
		}
		await(t, again, "a reconnect")
	}
	last := enqueue(t, near, job.Spec{Stage: "work", InputRef: "data:,x"})
	awaitAll(t, near, patience, last.ID)
	// The server removes a watch that nobody listens to after a moment.
	natstest.Eventually(t, patience, "there are no more consumers than before", func() bool { return consumers(t, streams) <= before })
	waiting := standingRequests(t, streams[0])
	if waiting > 4 {
		t.Errorf("%d requests of a worker with 2 slots stand at the server", waiting)
	}
}

func consumers(t *testing.T, streams []jetstream.Stream) (n int) {
	t.Helper()
	for _, st := range streams {
		info, err := st.Info(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		n += info.State.Consumers
	}
	return n
}

func standingRequests(t *testing.T, st jetstream.Stream) (n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	list := st.ListConsumers(ctx)
	for info := range list.Info() {
		n += info.NumWaiting
	}
	if err := list.Err(); err != nil {
		t.Fatal(err)
	}
	return n
}

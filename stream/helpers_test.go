package stream_test

// What the tests of this package share: a queue with one stage on a server of its
// own, and ways to look at what the server has.

import (
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weft-fabric/weft/internal/natstest"
	"github.com/weft-fabric/weft/job"
	"github.com/weft-fabric/weft/stream"
)

// soon is how long a test waits for what should happen at once.
const soon = 10 * time.Second

// stage is the stage that most tests use, with an ack-wait that no test outlives.
const stage = "hash"

var settings = stream.Settings{Lease: 30 * time.Second}

// fixture is a queue and what the server knows of it.
type fixture struct {
	*stream.Queue
	t  *testing.T
	nc *nats.Conn
	js jetstream.JetStream
}

// on makes a queue over a connection; its stage is ensured with the settings.
func on(t *testing.T, nc *nats.Conn, s stream.Settings) *fixture {
	t.Helper()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	q := stream.New(nc, js, natstest.Tower(t, nc), stream.Config{Namespace: "weft", Replicas: 1, APIPrefix: "$JS.API"})
	if err := q.Ensure(t.Context(), stage, s); err != nil {
		t.Fatal(err)
	}
	return &fixture{q, t, nc, js}
}

func queue(t *testing.T, s stream.Settings) *fixture {
	t.Helper()
	return on(t, natstest.Conn(t), s)
}

func item(id, body string) stream.Item {
	return stream.Item{Stage: stage, Lane: job.DefaultPriority, JobID: id, Body: []byte(body), Revision: 7}
}

// awaitPending waits until the consumer knows of n items that nobody has taken.
func (f *fixture) awaitPending(n uint64) {
	f.t.Helper()
	natstest.Eventually(f.t, soon, "items that wait", func() bool { return f.consumer("runners").NumPending == n })
}

func (f *fixture) offer(ids ...string) {
	f.t.Helper()
	for _, id := range ids {
		if err := f.Offer(f.t.Context(), item(id, "{}")); err != nil {
			f.t.Fatal(err)
		}
	}
}

func (f *fixture) stream() jetstream.Stream {
	f.t.Helper()
	s, err := f.js.Stream(f.t.Context(), "WEFT_"+stage)
	if err != nil {
		f.t.Fatal(err)
	}
	return s
}

func (f *fixture) consumer(name string) *jetstream.ConsumerInfo {
	f.t.Helper()
	c, err := f.stream().Consumer(f.t.Context(), name)
	if err != nil {
		f.t.Fatal(err)
	}
	return c.CachedInfo()
}

// stored is the message on a subject, nil if there is none.
func (f *fixture) stored(subject string) *jetstream.RawStreamMsg {
	f.t.Helper()
	msg, err := f.stream().GetLastMsgForSubject(f.t.Context(), subject)
	if err != nil {
		return nil
	}
	return msg
}

// left is how many messages the stage's stream holds.
func (f *fixture) left() uint64 {
	f.t.Helper()
	return f.stream().CachedInfo().State.Msgs
}

// pulling is a puller whose caller wants so many items and reads them from a
// channel.
type pulling struct {
	*stream.Puller
	out    chan *stream.Delivery
	closed chan struct{}

	mu   sync.Mutex
	room int // guarded by mu
}

func (p *pulling) Room() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.room
}

func (p *pulling) Reserve() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.room == 0 {
		return false
	}
	p.room--
	return true
}

func (p *pulling) Give(d *stream.Delivery) {
	select {
	case p.out <- d:
	case <-p.closed:
		d.Nak(0)
	}
}

func (p *pulling) wants(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.room = n
}

func (p *pulling) Want(n int) {
	p.wants(n)
	p.Puller.Want()
}

func (p *pulling) Probe(n int, ended chan<- struct{}) bool {
	p.wants(n)
	return p.Puller.Probe(n, ended)
}

func (p *pulling) Close() {
	close(p.closed)
	p.Puller.Close()
}

// pull takes items of the default lane until the test ends.
func (f *fixture) pull(s stream.Settings, room int) (*pulling, chan *stream.Delivery) {
	f.t.Helper()
	log := slog.New(slog.NewTextHandler(f.t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
	p := &pulling{out: make(chan *stream.Delivery, room), closed: make(chan struct{})}
	var err error
	if p.Puller, err = f.Pull(stage, job.DefaultPriority, s, p, log); err != nil {
		f.t.Fatal(err)
	}
	return p, p.out
}

// take waits for one delivery.
func take(t *testing.T, out <-chan *stream.Delivery) *stream.Delivery {
	t.Helper()
	select {
	case d := <-out:
		return d
	case <-time.After(2 * soon):
		t.Fatal("no delivery")
		return nil
	}
}

// one offers a job's item and takes it.
func (f *fixture) one(id string, s stream.Settings) (*pulling, *stream.Delivery) {
	f.t.Helper()
	f.offer(id)
	p, out := f.pull(s, 1)
	p.Want(1)
	return p, take(f.t, out)
}

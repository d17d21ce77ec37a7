package stream_test

// What the tests of this package share: a queue with one stage on a server of its
// own, and ways to look at what the server has.

import (
	"log/slog"
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

// pull takes items of the default lane until the test ends.
func (f *fixture) pull(s stream.Settings, room int) (*stream.Puller, chan *stream.Delivery) {
	f.t.Helper()
	out := make(chan *stream.Delivery, room)
	log := slog.New(slog.NewTextHandler(f.t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
	p, err := f.Pull(stage, job.DefaultPriority, s, out, log)
	if err != nil {
		f.t.Fatal(err)
	}
	return p, out
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
func (f *fixture) one(id string, s stream.Settings) (*stream.Puller, *stream.Delivery) {
	f.t.Helper()
	f.offer(id)
	p, out := f.pull(s, 1)
	p.Want(1)
	return p, take(f.t, out)
}

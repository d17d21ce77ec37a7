package stream_test

// These tests prove that a puller takes exactly as many items as its worker
// wants, goes on after anything that can happen to a server, and leaves nothing
// behind.

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/weft-fabric/weft/internal/natstest"
	"github.com/weft-fabric/weft/stream"
)

func ids(n int) []string {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprintf("j%05d", i)
	}
	return ids
}

// holds waits until so many items are with workers, and checks that it stays so
// for what the server has been asked by now.
func (f *fixture) holds(n int) {
	f.t.Helper()
	natstest.Eventually(f.t, soon, fmt.Sprintf("%d items are with workers", n), func() bool {
		return f.consumer("runners").NumAckPending == n
	})
	if err := f.nc.Flush(); err != nil {
		f.t.Fatal(err)
	}
	if got := f.consumer("runners").NumAckPending; got != n {
		f.t.Fatalf("%d items are with workers, not %d", got, n)
	}
}

func TestPullerTakesExactlyAsManyAsWanted(t *testing.T) {
	t.Parallel()
	f := queue(t, settings)
	p, out := f.pull(settings, 20)
	p.Want(3)
	p.Want(3) // still three, not six
	p.Want(5) // two more
	f.offer(ids(20)...)
	for i := range 5 {
		if d := take(t, out); d.JobID != ids(20)[i] {
			t.Fatalf("took %s as number %d", d.JobID, i)
		}
	}
	f.holds(5)
	p.Want(1)
	take(t, out)
	f.holds(6)
	p.Want(4)
	for range 4 {
		take(t, out)
	}
	f.holds(10)
	p.Close()
	f.holds(10)
}

func TestPullerGivesBackWhatIsNoLongerWanted(t *testing.T) {
	t.Parallel()
	f := queue(t, settings)
	p, out := f.pull(settings, 10)
	p.Want(5)
	p.Want(1)
	f.offer(ids(5)...)
	first := take(t, out)
	natstest.Eventually(t, soon, "the request has brought all it was for", func() bool {
		return f.consumer("runners").NumWaiting == 0
	})
	if len(out) > 0 {
		t.Fatalf("got %s too", (<-out).JobID)
	}
	p.Want(4)
	seen := []string{first.JobID}
	for range 4 {
		seen = append(seen, take(t, out).JobID)
	}
	slices.Sort(seen)
	if !slices.Equal(seen, ids(5)) {
		t.Fatalf("took %v", seen)
	}
	p.Close()
}

func TestPullerWaitsForItems(t *testing.T) {
	t.Parallel()
	f := queue(t, settings)
	p, out := f.pull(settings, 10)
	defer p.Close()
	p.Want(10)
	natstest.Eventually(t, soon, "the request stands", func() bool { return f.consumer("runners").NumWaiting > 0 })
	for _, id := range ids(10) {
		f.offer(id)
		if d := take(t, out); d.JobID != id || d.Stage != stage || d.Lane != 3 || d.Revision != 7 || string(d.Body) != "{}" || d.Deliveries != 1 {
			t.Fatalf("took %+v", d)
		}
	}
	f.holds(10)
}

func TestPullerTakesABurst(t *testing.T) {
	t.Parallel()
	f := queue(t, settings)
	const n = 3000
	for _, id := range ids(n) {
		if _, err := f.js.PublishAsync("weft.work.hash."+id, nil); err != nil {
			t.Fatal(err)
		}
	}
	<-f.js.PublishAsyncComplete()
	p, out := f.pull(settings, 0)
	defer p.Close()
	p.Want(n)
	seen := map[string]bool{}
	for range n {
		d := take(t, out)
		seen[d.JobID] = true
		d.Ack()
	}
	if len(seen) != n {
		t.Fatalf("%d of %d", len(seen), n)
	}
	natstest.Eventually(t, soon, "all are acknowledged", func() bool { return f.left() == 0 })
}

// TestPullerGoesOn disturbs a puller that waits, in every way, and sees it take
// the next items, no more than it wants.
func TestPullerGoesOn(t *testing.T) {
	t.Parallel()
	for name, disturb := range map[string]func(*fixture, *natstest.Server){
		"after a restart of the server": func(_ *fixture, s *natstest.Server) { s.Restart() },
		"after the consumer was deleted": func(f *fixture, _ *natstest.Server) {
			must(f.t, f.stream().DeleteConsumer(f.t.Context(), "runners"))
		},
		"after the stream was purged": func(f *fixture, _ *natstest.Server) {
			must(f.t, f.stream().Purge(f.t.Context()))
		},
		"after the stream was deleted": func(f *fixture, _ *natstest.Server) {
			must(f.t, f.js.DeleteStream(f.t.Context(), "WEFT_"+stage))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := natstest.Start(t)
			f := on(t, s.Connect(), stream.Settings{Lease: 20 * time.Second, Concurrency: 50})
			f.offer("before")
			p, out := f.pull(stream.Settings{Lease: 20 * time.Second, Concurrency: 50}, 10)
			defer p.Close()
			p.Want(3)
			take(t, out).Ack()
			natstest.Eventually(t, soon, "nothing is left", func() bool { return f.left() == 0 })
			disturb(f, s)
			natstest.Eventually(t, 2*soon, "a consumer that asks", func() bool {
				c, err := f.js.Consumer(t.Context(), "WEFT_"+stage, "runners")
				return err == nil && c.CachedInfo().NumWaiting > 0
			})
			if c := f.consumer("runners").Config; c.AckWait != 20*time.Second || c.MaxAckPending != 50 || c.MaxDeliver != -1 {
				t.Errorf("the consumer is %+v", c)
			}
			f.offer(ids(5)...)
			take(t, out)
			take(t, out)
			f.holds(2)
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestReconnectsLeaveNothingBehind(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	proxy := s.Proxy()
	nc := proxy.Connect(nats.ReconnectWait(time.Millisecond), nats.ReconnectJitter(0, 0))
	f := on(t, nc, settings)
	direct := on(t, s.Connect(), settings)
	p, out := f.pull(settings, 10)
	defer p.Close()
	p.Want(2)
	before := nc.NumSubscriptions()
	for i := range 100 {
		proxy.Cut()
		proxy.Heal()
		natstest.Eventually(t, soon, "a new connection", func() bool { return nc.Stats().Reconnects > uint64(i) && nc.IsConnected() })
		p.Want(2)
	}
	natstest.Eventually(t, soon, "no more subscriptions than before", func() bool { return nc.NumSubscriptions() <= before })
	// Requests of dead connections end when the server has something for them.
	direct.offer(ids(20)...)
	take(t, out)
	take(t, out)
	direct.holds(2)
	natstest.Eventually(t, soon, "no more requests than wanted", func() bool { return direct.consumer("runners").NumWaiting <= 1 })
	names := direct.stream().ConsumerNames(t.Context())
	var consumers []string
	for name := range names.Name() {
		consumers = append(consumers, name)
	}
	if !slices.Equal(consumers, []string{"runners"}) {
		t.Fatalf("consumers %v", consumers)
	}
}

func TestCloseGivesBackItemsOnTheirWay(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	f := on(t, s.Connect(), settings)
	f.offer(ids(10)...)
	p, out := f.pull(settings, 0) // nobody reads: one waits to be handed out, nine behind it
	p.Want(10)
	f.holds(10)
	p.Close()
	select {
	case d := <-out:
		t.Fatalf("handed out %s after Close", d.JobID)
	default:
	}
	other := on(t, s.Connect(), settings)
	next, got := other.pull(settings, 10)
	defer next.Close()
	began := time.Now()
	next.Want(10)
	seen := map[string]bool{}
	for range 10 {
		d := take(t, got)
		seen[d.JobID] = true
	}
	if took := time.Since(began); len(seen) != 10 || took > settings.Lease/3 {
		t.Fatalf("%d items after %s, ack-wait is %s", len(seen), took, settings.Lease)
	}
}

func TestCloseWhileItemsArrive(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	f := on(t, s.Connect(), settings)
	const n = 500
	for _, id := range ids(n) {
		if _, err := f.js.PublishAsync("weft.work.hash."+id, nil); err != nil {
			t.Fatal(err)
		}
	}
	<-f.js.PublishAsyncComplete()
	// Each puller is closed while it is sent items; what it handed out is done,
	// and everything else must reach the next one without an ack-wait.
	done := map[string]bool{}
	began := time.Now()
	for len(done) < n {
		p, out := f.pull(settings, n)
		p.Want(n)
		d := take(t, out)
		p.Close()
		for ; d != nil; d = received(out) {
			done[d.JobID] = true
			d.Ack()
		}
	}
	if took := time.Since(began); took > settings.Lease {
		t.Fatalf("took %s: items waited for their ack-wait", took)
	}
}

func received(out <-chan *stream.Delivery) *stream.Delivery {
	select {
	case d := <-out:
		return d
	default:
		return nil
	}
}

func TestCloseWithoutAConnection(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	f := on(t, s.Connect(), settings)
	p, _ := f.pull(settings, 1)
	p.Want(1)
	s.Stop()
	closed := make(chan struct{})
	go func() {
		p.Close()
		close(closed)
	}()
	select {
	case <-closed:
	case <-time.After(3 * time.Second):
		t.Fatal("Close waits for a server that is down")
	}
}

func TestPullersShareAConsumer(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	f := on(t, s.Connect(), stream.Settings{Lease: 30 * time.Second, Concurrency: 3})
	var outs []chan *stream.Delivery
	for range 3 {
		p, out := on(t, s.Connect(), stream.Settings{Lease: 30 * time.Second, Concurrency: 3}).pull(settings, 10)
		defer p.Close()
		p.Want(10)
		outs = append(outs, out)
	}
	f.offer(ids(9)...)
	f.holds(3) // the stage's limit, over all pullers
	count := func() int { return len(outs[0]) + len(outs[1]) + len(outs[2]) }
	natstest.Eventually(t, soon, "the items have arrived", func() bool { return count() == 3 })
	natstest.Eventually(t, soon, "the others wait", func() bool { return f.consumer("runners").NumPending == 6 })
}

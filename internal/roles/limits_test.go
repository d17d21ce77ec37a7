package roles_test

// These tests hold on to what a server does not enforce, as docs/adr/0013-roles.md
// says it. One that fails means that a server has learnt to, and the page is wrong.

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weft-fabric/weft/fabric"
	"github.com/weft-fabric/weft/internal/natstest"
	"github.com/weft-fabric/weft/internal/roles"
	"github.com/weft-fabric/weft/job"
)

// A runner writes records, and a server cannot tell one that is new. Runners of the
// API cannot.
func TestServerDoesNotTellANewRecord(t *testing.T) {
	t.Parallel()
	s := newSite(t, hashes)
	backend, _ := s.start("weft", roles.Backend)
	s.start("weft", roles.Operator, withKeeper)
	enqueue(t, backend, job.Spec{ID: "first", Stage: "hash"})
	now := backend.Fabric().Now()
	j, err := job.New(job.Spec{ID: "forged", Stage: "hash", InputRef: "data:,x", MaxAttempts: 1}, now)
	if err != nil {
		t.Fatal(err)
	}
	runner := s.probe("weft", roles.Runner)
	if runner.publish("$KV.weft.job.forged", j.AppendJSON(nil)) {
		t.Fatal("the server refuses it")
	}
	ctx, cancel := within(t)
	defer cancel()
	if _, err := backend.Fabric().Get(ctx, "forged"); err != nil {
		t.Error(err)
	}
}

// Who may make a consumer says where the server delivers, and that is not looked at:
// to whatever somebody listens to in the account, be it of another namespace. A
// stream that listens there is not enough.
func TestServerDoesNotLookWhereAConsumerDelivers(t *testing.T) {
	t.Parallel()
	s := newSite(t, hashes, roles.Config{Namespace: "other", Stages: []string{"hash"}})
	theirs := s.probe("other", roles.Runner)
	signal, err := theirs.nc.SubscribeSync("other.signal.py")
	if err != nil {
		t.Fatal(err)
	}
	if err := theirs.nc.Flush(); err != nil {
		t.Fatal(err)
	}
	backend, _ := s.start("weft", roles.Backend)
	enqueue(t, backend, job.Spec{ID: "first", Stage: "hash"})
	viewer := s.probe("weft", roles.Viewer)
	js, err := viewer.nc.JetStream()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.AddConsumer("KV_weft", &nats.ConsumerConfig{
		Name: "x", DeliverSubject: "other.signal.py", FilterSubject: "$KV.weft.job.*", AckPolicy: nats.AckNonePolicy,
		MemoryStorage: true, InactiveThreshold: patience,
	}); err != nil {
		t.Fatal(err)
	}
	if !viewer.publish("other.signal.py", nil) {
		t.Error("the viewer can publish there")
	}
	if _, err := signal.NextMsg(patience); err != nil {
		t.Errorf("the consumer does not deliver there: %v", err)
	}
}

// A schedule is stored by its maker and fired by the server, so a runner that may
// offer a job again may offer what was never a job.
func TestServerDoesNotTellABareScheduleFromARetry(t *testing.T) {
	t.Parallel()
	s := newSite(t, hashes)
	backend, _ := s.start("weft", roles.Backend)
	enqueue(t, backend, job.Spec{ID: "first", Stage: "hash"})
	runner := s.probe("weft", roles.Runner)
	if err := runner.nc.PublishMsg(&nats.Msg{
		Subject: "weft.later.hash.bare", Data: []byte(`{"input_ref":"data:,x"}`),
		Header: nats.Header{"Nats-Schedule": {"@at 2020-01-01T00:00:00Z"}, "Nats-Schedule-Target": {"weft.work.hash.bare"}},
	}); err != nil {
		t.Fatal(err)
	}
	js, err := jetstream.New(s.server.Connect(nats.UserInfo("root", password)))
	if err != nil {
		t.Fatal(err)
	}
	natstest.Eventually(t, patience, "the server makes the item", func() bool {
		st, err := js.Stream(t.Context(), "WEFT_hash")
		if err != nil {
			return false
		}
		_, err = st.GetLastMsgForSubject(t.Context(), "weft.work.hash.bare")
		return err == nil
	})
	// Not into another stage's stream, nor another namespace's.
	if !runner.publish("weft.later.other.bare", nil) {
		t.Error("it can offer to another stage")
	}
}

// Whoever may make consumers on the bucket may ask one that is there. A viewer who
// asks a feed's cannot acknowledge, so what he is given comes again to a backend.
func TestServerDoesNotKeepAViewerFromAskingAFeed(t *testing.T) {
	t.Parallel()
	s := newSite(t, hashes)
	backend, _ := s.start("weft", roles.Backend)
	ctx, cancel := within(t)
	defer cancel()
	landed := make(chan string, 10)
	outcomes := func(ctx context.Context) error {
		return backend.Fabric().Outcomes(ctx, "billing", func(_ context.Context, o fabric.Outcome) error {
			landed <- o.Job.ID
			return nil
		}, fabric.OutcomeAckWait(fabric.MinAckWait))
	}
	first, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- outcomes(first) }()
	finish := func(id string) {
		t.Helper()
		enqueue(t, backend, job.Spec{ID: id, Stage: "hash"})
		if _, err := backend.Fabric().Cancel(ctx, id, "enough"); err != nil {
			t.Fatal(err)
		}
	}
	finish("one")
	<-landed
	stop()
	<-ended
	finish("two")

	viewer := s.probe("weft", roles.Viewer)
	js, err := jetstream.New(viewer.nc)
	if err != nil {
		t.Fatal(err)
	}
	c, err := js.Consumer(ctx, "KV_weft", "outcomes-billing")
	if err != nil {
		t.Fatal(err)
	}
	natstest.Eventually(t, patience, "the viewer is given the outcome", func() bool {
		msg, err := c.Next(jetstream.FetchMaxWait(time.Second))
		return err == nil && viewer.publish(msg.Reply(), []byte("+ACK")) // which is refused
	})
	go func() { ended <- outcomes(ctx) }()
	select {
	case id := <-landed:
		if id != "two" {
			t.Errorf("landed %s", id)
		}
	case <-ctx.Done():
		t.Error("what the viewer was given does not come again")
	}
	cancel()
	<-ended
}

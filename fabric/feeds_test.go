package fabric_test

// These tests prove what becomes of a feed whose consumer is deleted, changed or
// removed, whose leaders change, or that is asked for what it is not.

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weft-fabric/weft/fabric"
	"github.com/weft-fabric/weft/internal/natstest"
	"github.com/weft-fabric/weft/internal/topology"
	"github.com/weft-fabric/weft/job"
)

// A feed whose consumer was deleted is made anew as it was, also while nobody took
// of it, and what is kept comes again from where it began.
func TestDeletedConsumerOfAFeedIsMadeAnew(t *testing.T) {
	t.Parallel()
	nc := natstest.Conn(t)
	f := open(t, nc, quiet)
	end(t, f, "old", "hash")
	db := newDatabase()
	stop := land(t, f, "billing", db.land, quick, fabric.FromNow())
	untaken(t, f)
	end(t, f, "seen", "hash")
	awaitLanded(t, db, "seen")
	st := serverStream(t, nc, "KV_weft")
	before := consumerConfig(t, st, "outcomes-billing")
	drop := func() {
		t.Helper()
		if err := st.DeleteConsumer(t.Context(), "outcomes-billing"); err != nil {
			t.Fatal(err)
		}
	}
	drop()
	end(t, f, "meanwhile", "hash")
	awaitLanded(t, db, "meanwhile")
	if after := consumerConfig(t, st, "outcomes-billing"); fmt.Sprintf("%+v", after) != fmt.Sprintf("%+v", before) {
		t.Errorf("made anew as %+v, it was %+v", after, before)
	}
	untaken(t, f)
	stop()
	drop()
	end(t, f, "away", "hash")
	land(t, f, "billing", db.land)
	awaitLanded(t, db, "away")
	untaken(t, f)
	if db.state("old") != "" {
		t.Error("what had ended before the feed began is landed")
	}
}

func TestRemovedFeedEndsWhoeverTakesOfIt(t *testing.T) {
	t.Parallel()
	nc := natstest.Conn(t)
	f := open(t, nc, quiet)
	ended := make(chan error, 1)
	db := newDatabase()
	go func() { ended <- f.Outcomes(t.Context(), "billing", db.land) }()
	end(t, f, "one", "hash")
	awaitLanded(t, db, "one")
	if err := f.RemoveFeed(t.Context(), "billing"); err != nil {
		t.Fatal(err)
	}
	if err := await(t, ended, "it ends"); !errors.Is(err, fabric.ErrMissingFeed) {
		t.Errorf("it ended with %v", err)
	}
	if _, err := serverStream(t, nc, "KV_weft").Consumer(t.Context(), "outcomes-billing"); !errors.Is(err, jetstream.ErrConsumerNotFound) {
		t.Errorf("its consumer: %v", err)
	}
	if err := f.RemoveFeed(t.Context(), "billing"); !errors.Is(err, fabric.ErrMissingFeed) {
		t.Errorf("removed twice: %v", err)
	}
	again := newDatabase() // one of the same name is a new one
	land(t, f, "billing", again.land)
	awaitLanded(t, again, "one")
}

func TestFeedWithOtherSettingsIsRefused(t *testing.T) {
	t.Parallel()
	nc := natstest.Conn(t)
	f := open(t, nc)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	stop := land(t, f, "billing", newDatabase().land, fabric.OnlyOutcomes(fabric.Filter{Stage: "a"}))
	untaken(t, f)
	err := f.Outcomes(ctx, "billing", newDatabase().land)
	if _, ok := errors.AsType[*fabric.FeedConflict](err); !ok || !strings.Contains(err.Error(), "was made with stage a, not any") {
		t.Errorf("another filter: %v", err)
	}
	err = f.Outcomes(ctx, "billing", newDatabase().land, quick, fabric.OnlyOutcomes(fabric.Filter{Stage: "a"}))
	if _, ok := errors.AsType[*fabric.FeedConflict](err); !ok || !strings.Contains(err.Error(), "ack-wait 30s, not 2s") {
		t.Errorf("another ack-wait: %v", err)
	}
	asMade := newDatabase()
	stopToo := land(t, f, "billing", asMade.land, fabric.AsMade())
	stop()
	end(t, f, "b0", "b")
	end(t, f, "a0", "a")
	awaitLanded(t, asMade, "a0")
	if asMade.state("b0") != "" {
		t.Error("what the feed's filter keeps out is landed")
	}
	stopToo()
	st := serverStream(t, nc, "KV_weft")
	changed := consumerConfig(t, st, "outcomes-billing")
	changed.MaxDeliver = 5
	if _, err := st.UpdateConsumer(ctx, changed); err != nil {
		t.Fatal(err)
	}
	err = f.Outcomes(ctx, "billing", newDatabase().land, fabric.OnlyOutcomes(fabric.Filter{Stage: "a"}))
	if _, ok := errors.AsType[*topology.DriftError](err); !ok || !strings.Contains(err.Error(), "max_deliver is 5 and must be -1") {
		t.Errorf("drifted: %v", err)
	}
	if found := findings(t, nc, true); len(found) != 1 || !found[0].Repaired {
		t.Errorf("doctor found %+v", found)
	}
	db := newDatabase()
	land(t, f, "billing", db.land, fabric.OnlyOutcomes(fabric.Filter{Stage: "a"}))
	end(t, f, "a1", "a")
	awaitLanded(t, db, "a1")
}

func TestBadFeedsAreRefused(t *testing.T) {
	t.Parallel()
	f := open(t, natstest.Conn(t))
	for _, c := range []struct {
		name string
		opt  fabric.OutcomeOption
		says string
	}{
		{"", fabric.FromNow(), `feed name ""`},
		{"Bill.ing", fabric.FromNow(), `feed name "Bill.ing" is not a-z or 0-9`},
		{strings.Repeat("x", 65), fabric.FromNow(), "feed name"},
		{"billing", fabric.OutcomeHandlers(0), "0 handlers"},
		{"billing", fabric.OutcomeHandlers(257), "257 handlers"},
		{"billing", fabric.OutcomeAckWait(time.Millisecond), "ack-wait 1ms"},
		{"billing", fabric.OnlyOutcomes(fabric.Filter{Limit: 1}), "no limit"},
		{"billing", fabric.OnlyOutcomes(fabric.Filter{States: []job.State{job.StateLeased}}), "give succeeded, failed or cancelled"},
		{"billing", fabric.OnlyOutcomes(fabric.Filter{Stage: "A"}), "stage"},
	} {
		err := f.Outcomes(t.Context(), c.name, newDatabase().land, c.opt)
		if !errors.Is(err, job.ErrInvalidJob) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%q: %v, want %s", c.name, err, c.says)
		}
	}
	if feeds, err := f.Feeds(t.Context()); err != nil || len(feeds) != 0 {
		t.Errorf("%+v, %v", feeds, err)
	}
}

// A feed of three servers goes on while its leaders change.
func TestFeedGoesOnWhileLeadersChange(t *testing.T) {
	t.Parallel()
	servers := natstest.Cluster(t)
	f := open(t, servers[0].Connect(), threefold, quiet)
	db := newDatabase()
	land(t, f, "billing", db.land, quick)
	untaken(t, f)
	steps := stepDown(t, servers[1].Connect(), 500*time.Millisecond, "CONSUMER.LEADER.STEPDOWN.KV_weft.outcomes-billing", "STREAM.LEADER.STEPDOWN.KV_weft")
	const n = 6
	for i := range n {
		end(t, f, numbered(i), "hash")
	}
	steps()
	for i := range n {
		awaitLanded(t, db, numbered(i))
	}
}

// A watch is a feed without a name: it goes on after a restart, and nothing of it
// stays on the server.
func TestWatchIsAFeedWithoutAName(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	f := join(t, s)
	end(t, f.Fabric, "before", "hash")
	db := newDatabase()
	stop := background(t, func(ctx context.Context) error {
		for j, err := range f.Watch(ctx) {
			if err != nil {
				return err
			}
			_ = db.land(ctx, fabric.Outcome{Job: j})
		}
		return nil
	})
	awaitLanded(t, db, "before")
	s.Restart()
	end(t, f.Fabric, "after", "hash")
	natstest.Eventually(t, patience, "the change after the restart", func() bool { return db.state("after") == job.StateCancelled })
	stop()
	natstest.Eventually(t, patience, "no consumer is left", func() bool {
		info, err := serverStream(t, f.nc, "KV_weft").Info(t.Context())
		return err == nil && info.State.Consumers == 0
	})
	if feeds, err := f.Feeds(t.Context()); err != nil || len(feeds) != 0 {
		t.Errorf("%+v, %v", feeds, err)
	}
}

// A program in another language makes a feed and takes of it as docs/protocol.md
// says; the fabric then finds it as its own.
func TestFeedMadeByTheProtocolIsTheFabrics(t *testing.T) {
	t.Parallel()
	nc := natstest.Conn(t)
	f := open(t, nc)
	end(t, f, "one", "hash")
	ask := func(subject, body string) *nats.Msg {
		t.Helper()
		msg, err := nc.Request(subject, []byte(body), patience)
		if err != nil || strings.Contains(string(msg.Data), `"error"`) {
			t.Fatalf("%s: %+v, %v", subject, msg, err)
		}
		return msg
	}
	key := nats.NewMsg("$KV.weft.outcomes.billing")
	key.Header.Set("Nats-Expected-Last-Subject-Sequence", "0")
	key.Data = []byte(`{"name":"billing","stage":"hash","ack_wait":"30s","after":0,"created_at":"2026-11-30T14:00:00Z"}`)
	if answer, err := nc.RequestMsg(key, patience); err != nil || strings.Contains(string(answer.Data), `"error"`) {
		t.Fatalf("%+v, %v", answer, err)
	}
	ask("$JS.API.CONSUMER.CREATE.KV_weft.outcomes-billing.$KV.weft.job.*", `{"stream_name":"KV_weft","action":"create","config":{
		"durable_name":"outcomes-billing","filter_subject":"$KV.weft.job.*","deliver_policy":"by_start_sequence","opt_start_seq":1,
		"ack_policy":"explicit","ack_wait":30000000000,"max_deliver":-1,"max_ack_pending":1000,"replay_policy":"instant",
		"metadata":{"weft.version":"1"}}}`)
	msg := ask("$JS.API.CONSUMER.MSG.NEXT.KV_weft.outcomes-billing", `{"batch":1,"expires":30000000000}`)
	if j, err := job.Decode(msg.Data); err != nil || j.ID != "one" || j.State != job.StateCancelled {
		t.Fatalf("taken %s: %v", msg.Data, err)
	}
	if err := msg.Respond([]byte("+ACK")); err != nil {
		t.Fatal(err)
	}
	untaken(t, f)
	feeds, err := f.Feeds(t.Context())
	if err != nil || feeds[0].Drift != "" || feeds[0].Filter.Stage != "hash" {
		t.Errorf("%+v, %v", feeds, err)
	}
	end(t, f, "two", "hash")
	db := newDatabase()
	land(t, f, "billing", db.land, fabric.OnlyOutcomes(fabric.Filter{Stage: "hash"}))
	awaitLanded(t, db, "two")
	if db.state("one") != "" {
		t.Error("what was acknowledged comes again")
	}
}

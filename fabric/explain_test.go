package fabric_test

// These tests prove that each thing that keeps a job from running is found, that
// what stands in the way first comes first, and that looking changes nothing.

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weft-fabric/weft/fabric"
	"github.com/weft-fabric/weft/internal/natstest"
	"github.com/weft-fabric/weft/job"
	"github.com/weft-fabric/weft/kv"
)

func explained(t *testing.T, f *fabric.Fabric, id string) fabric.Explanation {
	t.Helper()
	e, err := f.Explain(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func codes(e fabric.Explanation) (codes []fabric.CauseCode) {
	for _, c := range e.Findings {
		codes = append(codes, c.Code)
	}
	return codes
}

// finds checks that a finding is there, and which place it has among those of
// other codes, and returns it. Each of parts must be in its text or its moves.
func finds(t *testing.T, e fabric.Explanation, place int, code fabric.CauseCode, parts ...string) fabric.Cause {
	t.Helper()
	if got := codes(e); place >= len(got) || got[place] != code {
		t.Fatalf("findings are %v, want %s at %d\n%s", got, code, place, e.Verdict)
	}
	c := e.Findings[place]
	text := c.Text
	for _, m := range c.Moves {
		text += "\n" + m.Text + ": " + m.Command
	}
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%s lacks %q:\n%s", code, part, text)
		}
	}
	if place == 0 && !strings.HasSuffix(e.Verdict, c.Text) {
		t.Errorf("the verdict is %q", e.Verdict)
	}
	return c
}

// announced makes a worker known.
func announced(t *testing.T, f *fabric.Fabric, id string, p fabric.Presence) *fabric.Runner {
	t.Helper()
	r := runner(t, f, id)
	if err := r.Announce(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestExplainNotDue(t *testing.T) {
	t.Parallel()
	f := open(t, natstest.Conn(t))
	due := f.Now().Add(time.Hour)
	enqueue(t, f, job.Spec{ID: "a", Stage: "hash", InputRef: "x", AvailableAt: due})
	e := explained(t, f, "a")
	c := finds(t, e, 0, fabric.CauseNotDue, "it is not due before", "time alone")
	if !c.Fields["available_at"].(time.Time).Equal(due) || e.State != "waiting" || e.Stage != "hash" {
		t.Errorf("%+v", e)
	}
	if slices.Contains(codes(e), fabric.CauseItemMissing) {
		t.Errorf("its schedule was not seen: %v", codes(e))
	}
}

func TestExplainDependencies(t *testing.T) {
	t.Parallel()
	p := join(t, natstest.Start(t), attempts(1))
	f := p.Fabric
	deps := []string{"waits", "failed", "cancelled", "succeeded", "gone", "garbled"}
	for _, id := range deps {
		enqueue(t, f, job.Spec{ID: id, Stage: "dep-" + id, InputRef: "x"})
	}
	enqueue(t, f, job.Spec{ID: "a", Stage: "hash", InputRef: "x", Dependencies: deps})
	enqueue(t, f, job.Spec{ID: "strict", Stage: "hash", InputRef: "x", Dependencies: []string{"failed"}, OnDependencyFailure: job.CancelOnFailure})
	r := runner(t, f, "")
	settle(t, r, claim(t, r, "dep-failed"), job.Failed("it broke"))
	settle(t, r, claim(t, r, "dep-succeeded"), job.Completed("data:,done"))
	if _, err := f.Cancel(t.Context(), "cancelled", "not wanted"); err != nil {
		t.Fatal(err)
	}
	if err := fabric.Bucket(f).Delete(t.Context(), kv.JobKey("gone"), record(t, f, "gone").Revision); err != nil {
		t.Fatal(err)
	}
	putRecord(t, p.nc, "garbled", "garbage")
	e := explained(t, f, "a")
	for i, want := range []struct{ id, state, says string }{
		{"failed", "failed", "which has failed: it broke\none more attempt of that one: weft job retry failed"},
		{"cancelled", "cancelled", "never succeeds: not wanted"},
		{"gone", "missing", "which has no record"},
		{"garbled", fabric.StateUnreadable, "cannot be read"},
		{"waits", "waiting", "that one's success: weft job explain waits"},
		{"succeeded", "succeeded", "the keeper has not taken it off"},
	} {
		c := finds(t, e, i, fabric.CauseWaitsOn, want.says)
		if c.Fields["job"] != want.id || c.Fields["state"] != want.state {
			t.Errorf("%s is %v", want.id, c.Fields)
		}
	}
	if slices.Contains(codes(e), fabric.CauseItemMissing) {
		t.Errorf("a blocked job needs no item: %v", codes(e))
	}
	finds(t, explained(t, f, "strict"), 0, fabric.CauseWaitsOn, "so the keeper cancels it")
}

func TestExplainPausedStage(t *testing.T) {
	t.Parallel()
	p := join(t, natstest.Start(t))
	enqueue(t, p.Fabric, job.Spec{ID: "a", Stage: "hash", InputRef: "x"})
	pauseStage(t, p.Fabric, "hash")
	c := finds(t, explained(t, p.Fabric, "a"), 0, fabric.CauseStagePaused, "paused since ", "by me@here: a test", "weft stage resume hash")
	if c.Fields["by"] != "me@here" || c.Fields["reason"] != "a test" || c.Fields["since"] == nil {
		t.Errorf("%v", c.Fields)
	}
	resumeStage(t, p.Fabric, "hash")
	if _, err := serverJetStream(t, p.nc).PauseConsumer(t.Context(), "WEFT_hash", "runners", time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	finds(t, explained(t, p.Fabric, "a"), 0, fabric.CauseConsumerPaused, "consumer runners of stream WEFT_hash", "weft stage resume hash")
}

func TestExplainFullStage(t *testing.T) {
	t.Parallel()
	f := open(t, natstest.Conn(t), func(o *fabric.Options) { o.Stage.Concurrency = 1 })
	enqueue(t, f, job.Spec{ID: "a", Stage: "hash", InputRef: "x"})
	r := announced(t, f, "rn_one", fabric.Presence{Stages: []string{"hash"}, Slots: 4})
	claimNext(t, r, "hash", "a")
	enqueue(t, f, job.Spec{ID: "b", Stage: "hash", InputRef: "x"})
	e := explained(t, f, "b")
	c := finds(t, e, 0, fabric.CauseStageFull, "1 of its jobs may run at once, and 1 are with workers", "weft stage set hash --concurrency 2")
	if c.Fields["limit"] != 1 || c.Fields["running"] != 1 {
		t.Errorf("%v", c.Fields)
	}
	finds(t, e, 1, fabric.CauseQueued, "it is the next of its lane")
}

func TestExplainTurn(t *testing.T) {
	t.Parallel()
	f := open(t, natstest.Conn(t))
	r := announced(t, f, "rn_one", fabric.Presence{Stages: []string{"hash"}, Slots: 4})
	for i := range 10 {
		enqueue(t, f, job.Spec{ID: fmt.Sprint("j", i), Stage: "hash", InputRef: "x"})
		if i%2 == 0 {
			enqueue(t, f, job.Spec{ID: fmt.Sprint("urgent", i), Stage: "hash", InputRef: "x", Priority: 1})
		}
	}
	claimAll(t, r, "hash", 2)
	between := func(id string, ahead, higher int) {
		t.Helper()
		c := finds(t, explained(t, f, id), 0, fabric.CauseQueued)
		least, most := c.Fields["ahead_at_least"].(int), c.Fields["ahead_at_most"].(int)
		if least > ahead || most < ahead || c.Fields["ahead_in_higher_lanes"] != higher {
			t.Errorf("%s has %d before it, and %d of higher lanes: %v", id, ahead, higher, c.Fields)
		}
	}
	for i := range 10 {
		between(fmt.Sprint("j", i), i, 3)
	}
	between("urgent8", 2, 0)
	alone := enqueue(t, f, job.Spec{Stage: "alone", InputRef: "x"})
	c := finds(t, explained(t, f, alone.ID), 1, fabric.CauseQueued, "it is the next of its lane; its item waits since")
	if c.Fields["ahead_at_least"] != 0 || c.Fields["ahead_at_most"] != 0 {
		t.Errorf("%v", c.Fields)
	}
}

func TestExplainTakenItem(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	p := join(t, s)
	enqueue(t, p.Fabric, job.Spec{ID: "a", Stage: "hash", InputRef: "x"})
	oldHolder(t, p.nc, "hash")
	e := explained(t, p.Fabric, "a")
	finds(t, e, 1, fabric.CauseItemTaken, "handed out", "30s")
}

func TestExplainNoWorkerOrNoneFree(t *testing.T) {
	t.Parallel()
	f := open(t, natstest.Conn(t))
	enqueue(t, f, job.Spec{ID: "a", Stage: "hash", InputRef: "x"})
	announced(t, f, "rn_else", fabric.Presence{Stages: []string{"other"}, Slots: 4})
	e := explained(t, f, "a")
	finds(t, e, 0, fabric.CauseNoWorker, "no worker makes itself known for stage hash", "weft work hash -- CMD")
	finds(t, e, 1, fabric.CauseQueued)
	announced(t, f, "rn_one", fabric.Presence{Stages: []string{"hash"}, Slots: 1, Running: []fabric.RunningJob{{ID: "b", Stage: "hash"}}})
	c := finds(t, explained(t, f, "a"), 0, fabric.CauseWorkersBusy, "all 1 slots", "weft work hash -- CMD")
	if c.Fields["slots"] != 1 || c.Fields["running"] != 1 {
		t.Errorf("%v", c.Fields)
	}
}

func TestExplainLease(t *testing.T) {
	t.Parallel()
	p := join(t, natstest.Start(t), lease(short))
	f := p.Fabric
	enqueue(t, f, job.Spec{ID: "a", Stage: "hash", InputRef: "x"})
	r := runner(t, f, "rn_one")
	held := claimNext(t, r, "hash", "a")
	held = renew(t, r, held)
	c := finds(t, explained(t, f, "a"), 0, fabric.CauseLeased, "worker rn_one holds it until ", "does not make itself known", "weft job cancel a")
	if c.Fields["worker"] != "rn_one" || c.Fields["announced"] != false || !c.Fields["until"].(time.Time).Equal(held.Token.ExpiresAt) {
		t.Errorf("%v", c.Fields)
	}
	err := r.Announce(t.Context(), fabric.Presence{Stages: []string{"hash"}, Slots: 1, Running: []fabric.RunningJob{{ID: "a", Stage: "hash", Fence: held.Token.Fence}}})
	if err != nil {
		t.Fatal(err)
	}
	awaitExpiry(t, f, held)
	e := explained(t, f, "a")
	c = finds(t, e, 0, fabric.CauseLeaseExpired, "the lease of worker rn_one ended at ", "says that it runs the job", "weft doctor --repair")
	if c.Fields["announced"] != true || c.Fields["reports_it"] != true || !strings.HasPrefix(e.Verdict, "a does not run any more: ") {
		t.Errorf("%v, %s", c.Fields, e.Verdict)
	}
}

func TestExplainSuperseded(t *testing.T) {
	t.Parallel()
	f := open(t, natstest.Conn(t))
	enqueue(t, f, job.Spec{ID: "old", Stage: "hash", InputRef: "x", Key: "k"})
	if _, err := fabric.EnqueueUpTo(t.Context(), f, job.Spec{ID: "new", Stage: "hash", InputRef: "x", Key: "k"}, fabric.StepPointer); err != nil {
		t.Fatal(err)
	}
	c := finds(t, explained(t, f, "old"), 0, fabric.CauseSuperseded, "new has superseded it", "weft job explain new")
	if c.Fields["by"] != "new" || c.Fields["key"] != "k" {
		t.Errorf("%v", c.Fields)
	}
	enqueue(t, f, job.Spec{ID: "past", Stage: "hash", InputRef: "x", Key: "other"})
	enqueue(t, f, job.Spec{ID: "present", Stage: "hash", InputRef: "x", Key: "other"})
	e := explained(t, f, "past")
	finds(t, e, 0, fabric.CauseEnded, "superseded by present", "enqueue it with another id")
	finds(t, e, 1, fabric.CauseSuperseded, "weft job explain present")
}

func TestExplainFailedAttempts(t *testing.T) {
	t.Parallel()
	f := open(t, natstest.Conn(t), attempts(2), impatient)
	enqueue(t, f, job.Spec{ID: "a", Stage: "hash", InputRef: "x"})
	r := runner(t, f, "rn_one")
	settle(t, r, claimNext(t, r, "hash", "a"), job.Failed("no\nreally"))
	e := explained(t, f, "a")
	at := slices.Index(codes(e), fabric.CauseFailedAttempts)
	c := finds(t, e, max(0, at), fabric.CauseFailedAttempts, "1 attempt has ended without success, and 1 of 2 are used; attempt 1 on rn_one failed: no...", "weft job get a")
	if all := c.Fields["attempts"].([]job.Attempt); len(all) != 1 || all[0].Reason != "no\nreally" {
		t.Errorf("%v", all)
	}
	settle(t, r, claimNext(t, r, "hash", "a"), job.Failed("no again"))
	e = explained(t, f, "a")
	finds(t, e, 0, fabric.CauseEnded, "after it was enqueued", "no again", "weft job retry a")
	finds(t, e, 1, fabric.CauseFailedAttempts, "2 attempts have ended without success, and 2 of 2 are used")
	if !strings.HasPrefix(e.Verdict, "a has failed: ") || len(e.Findings) != 2 {
		t.Errorf("%+v", e)
	}
}

func TestExplainEnded(t *testing.T) {
	t.Parallel()
	p := join(t, natstest.Start(t))
	f := p.Fabric
	enqueue(t, f, job.Spec{ID: "a", Stage: "hash", InputRef: "x"})
	r := runner(t, f, "")
	settle(t, r, claimNext(t, r, "hash", "a"), job.Completed("data:,done"))
	e := explained(t, f, "a")
	c := finds(t, e, 0, fabric.CauseEnded, "weft job output a")
	if c.Fields["outcome"] != "succeeded" || c.Fields["took"] == "" || c.Fields["ran"] == nil || len(e.Findings) != 1 || e.State != "succeeded" {
		t.Errorf("%+v", e)
	}
	publish(t, p.nc, "weft.work.hash.bare", "no spec", 0)
	emptied(t, r, p.nc, "hash")
	finds(t, explained(t, f, "bare"), 0, fabric.CauseEnded, "enqueue it with another id")
}

func TestExplainMissingItem(t *testing.T) {
	t.Parallel()
	f := open(t, natstest.Conn(t))
	if _, err := fabric.EnqueueUpTo(t.Context(), f, job.Spec{ID: "a", Stage: "hash", InputRef: "x"}, fabric.StepPointer); err != nil {
		t.Fatal(err)
	}
	e := explained(t, f, "a")
	c := finds(t, e, 1, fabric.CauseItemMissing, "neither item nor schedule", "weft doctor --repair")
	if c.Fields["offered_within"] != nil {
		t.Errorf("nobody leads, and it is offered within %v", c.Fields["offered_within"])
	}
	finds(t, e, 2, fabric.CauseNoKeeper, "no keeper leads", "weft work hash -- CMD")
}

// A keeper that only holds its key mends nothing, so what it would do can be seen.
func TestExplainTellsWhenTheKeeperOffers(t *testing.T) {
	t.Parallel()
	p := join(t, natstest.Start(t))
	publish(t, p.nc, "$KV.weft."+kv.LeaderKey, `{"id":"kp_test"}`, 0)
	if _, err := fabric.EnqueueUpTo(t.Context(), p.Fabric, job.Spec{ID: "a", Stage: "hash", InputRef: "x"}, fabric.StepPointer); err != nil {
		t.Fatal(err)
	}
	e := explained(t, p.Fabric, "a")
	c := finds(t, e, 1, fabric.CauseItemMissing, "the keeper offers it within 6s")
	if c.Fields["offered_within"] != "6s" || slices.Contains(codes(e), fabric.CauseNoKeeper) {
		t.Errorf("%v, %v", c.Fields, codes(e))
	}
	a := &age{}
	later := join(t, natstest.Start(t), a.clock)
	enqueue(t, later.Fabric, job.Spec{ID: "b", Stage: "hash", InputRef: "x"})
	publish(t, later.nc, "$KV.weft."+kv.LeaderKey, `{"id":"kp_test"}`, 0)
	a.add(time.Minute)
	if e := explained(t, later.Fabric, "b"); !slices.Contains(codes(e), fabric.CauseNoKeeper) {
		t.Errorf("a key that nobody renews passes for a keeper: %v", codes(e))
	}
}

func TestExplainOverdueSchedule(t *testing.T) {
	t.Parallel()
	a := &age{}
	f := open(t, natstest.Conn(t), a.clock)
	enqueue(t, f, job.Spec{ID: "a", Stage: "hash", InputRef: "x", AvailableAt: f.Now().Add(time.Hour)})
	a.add(time.Hour + time.Second)
	finds(t, explained(t, f, "a"), 1, fabric.CauseQueued, "its schedule fires within a moment")
	a.add(time.Minute)
	finds(t, explained(t, f, "a"), 1, fabric.CauseScheduleOverdue, "its schedule has not fired", "within 5m0s")
}

func TestExplainTopology(t *testing.T) {
	t.Parallel()
	p := join(t, natstest.Start(t))
	f, js := p.Fabric, serverJetStream(t, p.nc)
	enqueue(t, f, job.Spec{ID: "a", Stage: "hash", InputRef: "x"})
	runners, err := js.Consumer(t.Context(), "WEFT_hash", "runners")
	if err != nil {
		t.Fatal(err)
	}
	drifted := runners.CachedInfo().Config
	drifted.AckWait = time.Minute
	if _, err := js.UpdateConsumer(t.Context(), "WEFT_hash", drifted); err != nil {
		t.Fatal(err)
	}
	c := finds(t, explained(t, f, "a"), 0, fabric.CauseDrift, "consumer runners of stream WEFT_hash: ack_wait is 1m0s and must be 30s", "weft doctor --repair")
	if c.Fields["setting"] != "ack_wait" || c.Fields["have"] != "1m0s" || c.Fields["want"] != "30s" {
		t.Errorf("%v", c.Fields)
	}
	if err := js.DeleteConsumer(t.Context(), "WEFT_hash", "runners"); err != nil {
		t.Fatal(err)
	}
	finds(t, explained(t, f, "a"), 0, fabric.CauseDrift, "consumer runners of stream WEFT_hash: it is absent")
	if err := js.DeleteStream(t.Context(), "WEFT_hash"); err != nil {
		t.Fatal(err)
	}
	finds(t, explained(t, f, "a"), 0, fabric.CauseDrift, "stream WEFT_hash: it is absent")
	publish(t, p.nc, "$KV.weft."+kv.StageKey("hash"), `{"lease":"never"}`, 0)
	finds(t, explained(t, f, "a"), 0, fabric.CauseStageUnreadable, "stage.hash")
	e, err := fabric.Bucket(f).Get(t.Context(), kv.StageKey("hash"))
	if err != nil {
		t.Fatal(err)
	}
	if err := fabric.Bucket(f).Delete(t.Context(), e.Key, e.Revision); err != nil {
		t.Fatal(err)
	}
	finds(t, explained(t, f, "a"), 0, fabric.CauseNoStage, "there is no stage hash", "weft work hash -- CMD")
}

func TestExplainLaneThatIsNotUsed(t *testing.T) {
	t.Parallel()
	p := join(t, natstest.Start(t))
	enqueue(t, p.Fabric, job.Spec{ID: "a", Stage: "hash", InputRef: "x"})
	publish(t, p.nc, "weft.lane.hash.1.bare", `{"input_ref":"x"}`, 0)
	e := explained(t, p.Fabric, "bare")
	finds(t, e, 0, fabric.CauseNoRecord, "published without the fabric")
	finds(t, e, 1, fabric.CauseDrift, "does not use the lane of priority 1")
	if e.State != fabric.StateUnrecorded {
		t.Errorf("its state is %s", e.State)
	}
}

func TestExplainItemWithoutRecord(t *testing.T) {
	t.Parallel()
	p := join(t, natstest.Start(t))
	enqueue(t, p.Fabric, job.Spec{ID: "a", Stage: "hash", InputRef: "x"})
	if err := fabric.Bucket(p.Fabric).Delete(t.Context(), kv.JobKey("a"), record(t, p.Fabric, "a").Revision); err != nil {
		t.Fatal(err)
	}
	finds(t, explained(t, p.Fabric, "a"), 0, fabric.CauseNoRecord, "a record that is gone")
	_, err := p.Fabric.Explain(t.Context(), "nobody")
	refused(t, err, job.ErrMissingJob)
	_, err = p.Fabric.Explain(t.Context(), "no.body")
	refused(t, err, job.ErrInvalidJob)
}

func TestExplainUnreadableRecord(t *testing.T) {
	t.Parallel()
	p := join(t, natstest.Start(t))
	putRecord(t, p.nc, "-a", "garbage")
	e := explained(t, p.Fabric, "-a")
	finds(t, e, 0, fabric.CauseRecordUnreadable, "cannot be read", "weft job get --json -- -a", "under job.-a of the bucket weft")
	if e.State != fabric.StateUnreadable {
		t.Errorf("its state is %s", e.State)
	}
}

func TestExplainUsedUpAttempts(t *testing.T) {
	t.Parallel()
	p := join(t, natstest.Start(t), attempts(1))
	enqueue(t, p.Fabric, job.Spec{ID: "a", Stage: "hash", InputRef: "x"})
	raw := string(record(t, p.Fabric, "a").Raw)
	putRecord(t, p.nc, "a", strings.Replace(raw, `"attempt":0`, `"attempt":1`, 1))
	finds(t, explained(t, p.Fabric, "a"), 0, fabric.CauseUsedUp, "no attempt left", "weft job cancel a")
}

func TestExplainStrandedItem(t *testing.T) {
	t.Parallel()
	p := join(t, natstest.Start(t), lease(short))
	st := strand(t, p, "hash")
	finds(t, explained(t, p.Fabric, "a"), 1, fabric.CauseItemStranded, "comes to nobody", "within 5m0s")
	if n := len(offers(t, st)); n == 0 {
		t.Error("nothing is left in the stream; the test shows nothing")
	}
}

// strand leaves the item of a job a in the stream that its consumer takes for
// acknowledged, by the server's own way to empty a subject.
func strand(t *testing.T, p process, stage string) jetstream.Stream {
	t.Helper()
	for _, id := range []string{"a", "b", "c", "d"} {
		enqueue(t, p.Fabric, job.Spec{ID: id, Stage: stage, InputRef: "x"})
	}
	st := workQueue(t, p.nc, stage)
	taken := map[string]jetstream.Msg{}
	for range 4 {
		m := oldHolder(t, p.nc, stage)
		taken[m.Subject()] = m
	}
	if err := st.Purge(t.Context(), jetstream.WithPurgeSubject("weft.work."+stage+".c")); err != nil {
		t.Fatal(err)
	}
	if err := taken["weft.work."+stage+".d"].Ack(); err != nil {
		t.Fatal(err)
	}
	natstest.Eventually(t, patience, "the consumer forgets a and b", func() bool {
		c, err := st.Consumer(t.Context(), "runners")
		return err == nil && c.CachedInfo().NumAckPending == 0 && c.CachedInfo().NumPending == 0
	})
	return st
}

func TestExplainChangesNothing(t *testing.T) {
	t.Parallel()
	p := join(t, natstest.Start(t))
	f := p.Fabric
	enqueue(t, f, job.Spec{ID: "waits", Stage: "hash", InputRef: "x", Key: "k"})
	enqueue(t, f, job.Spec{ID: "later", Stage: "hash", InputRef: "x", AvailableAt: f.Now().Add(time.Hour)})
	enqueue(t, f, job.Spec{ID: "blocked", Stage: "hash", InputRef: "x", Dependencies: []string{"waits"}})
	if _, err := fabric.EnqueueUpTo(t.Context(), f, job.Spec{ID: "half", Stage: "hash", InputRef: "x", Key: "k"}, fabric.StepRecord); err != nil {
		t.Fatal(err)
	}
	publish(t, p.nc, "weft.lane.hash.1.bare", `{"input_ref":"x"}`, 0)
	putRecord(t, p.nc, "garbled", "garbage")
	r := runner(t, f, "rn_one")
	enqueue(t, f, job.Spec{ID: "runs", Stage: "other", InputRef: "x"})
	claimNext(t, r, "other", "runs")
	if err := serverJetStream(t, p.nc).DeleteConsumer(t.Context(), "WEFT_hash", "runners"); err != nil {
		t.Fatal(err)
	}
	before := inventory(t, p.nc)
	for _, id := range []string{"waits", "later", "blocked", "half", "bare", "garbled", "runs"} {
		if e := explained(t, f, id); len(e.Findings) == 0 || e.Verdict == "" || e.At.IsZero() {
			t.Errorf("%s is not explained: %+v", id, e)
		}
	}
	if _, err := f.Explain(t.Context(), "nobody"); err == nil {
		t.Error("a job that is not there is explained")
	}
	if after := inventory(t, p.nc); after != before {
		t.Errorf("it was\n%s\nand is\n%s", before, after)
	}
}

// inventory is what the server has: streams, what they hold, and their consumers.
func inventory(t *testing.T, nc *nats.Conn) string {
	t.Helper()
	js := serverJetStream(t, nc)
	var b strings.Builder
	for info := range js.ListStreams(t.Context()).Info() {
		fmt.Fprintln(&b, info.Config.Name, info.State.Msgs, info.State.FirstSeq, info.State.LastSeq)
		st, err := js.Stream(t.Context(), info.Config.Name)
		if err != nil {
			t.Fatal(err)
		}
		for c := range st.ListConsumers(t.Context()).Info() {
			config, err := json.Marshal(c.Config)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintln(&b, c.Name, c.Delivered.Consumer, c.AckFloor.Consumer, c.NumPending, string(config))
		}
	}
	return b.String()
}

func TestExplainLooksAgainAtWhatMoves(t *testing.T) {
	t.Parallel()
	p := join(t, natstest.Start(t))
	enqueue(t, p.Fabric, job.Spec{ID: "a", Stage: "hash", InputRef: "x"})
	raw := string(record(t, p.Fabric, "a").Raw)
	stop := background(t, func(ctx context.Context) error {
		for ctx.Err() == nil {
			if err := p.nc.Publish("$KV.weft.job.a", []byte(raw)); err != nil {
				return err
			}
			if err := p.nc.Flush(); err != nil {
				return err
			}
		}
		return nil
	})
	natstest.Eventually(t, patience, "a record that moves at every look", func() bool {
		return slices.Contains(codes(explained(t, p.Fabric, "a")), fabric.CauseChanging)
	})
	stop()
	natstest.Eventually(t, patience, "a record that rests", func() bool {
		return !slices.Contains(codes(explained(t, p.Fabric, "a")), fabric.CauseChanging)
	})
}

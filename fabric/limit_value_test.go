package fabric_test

// These tests prove that no more jobs of one value of a label, or of one key, run at
// once than may, that none waits for ever, and that waiting costs nothing.

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/weft-fabric/weft/fabric"
	"github.com/weft-fabric/weft/internal/natstest"
	"github.com/weft-fabric/weft/job"
	"github.com/weft-fabric/weft/kv"
	"github.com/weft-fabric/weft/worker"
)

func perTenant(t *testing.T, f *fabric.Fabric, n int) {
	t.Helper()
	if _, err := f.Stage(t.Context(), "hash"); err != nil {
		t.Fatal(err)
	}
	setStage(t, f, "hash", fabric.StageChange{PerLabel: map[string]int{"tenant": n}})
}

func ofTenant(tenant string) job.Spec {
	return job.Spec{Stage: "hash", InputRef: "data:,x", Labels: map[string]string{"tenant": tenant}}
}

// Workers come, die without a word and are restarted with their server; at no time do
// more of a tenant's jobs run than may, and all of them do.
func TestLimitOfALabelIsNeverExceeded(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	p := join(t, s, lease(short), attempts(100), terse(t))
	keep(t, p.Fabric)
	perTenant(t, p.Fabric, 3)
	crowds := map[string]*crowd{"acme": {}, "beta": {}, "": {}}
	var ids []string
	for tenant := range crowds {
		ids = append(ids, enqueueMany(t, p.Fabric, 25, ofTenant(tenant))...)
	}
	ids = append(ids, enqueueMany(t, p.Fabric, 10, job.Spec{Stage: "hash", InputRef: "data:,x"})...)

	for range 2 {
		dead := join(t, s, lease(short), quiet)
		claimAll(t, runner(t, dead.Fabric, ""), "hash", 2)
		dead.die()
	}
	handler := func(ctx context.Context, task *worker.Task) job.Outcome {
		if tenant, labelled := task.Job().Labels["tenant"]; labelled {
			return crowds[tenant].handler()(ctx, task)
		}
		return job.Completed("data:,done")
	}
	for range 4 {
		work(t, join(t, s, lease(short), terse(t)).Fabric, "hash", 8, handler)
	}
	natstest.Eventually(t, patience, "some have run", func() bool { return crowds["acme"].runs.Load() > 5 })
	s.Restart()
	awaitAll(t, p.Fabric, 3*patience, ids...)
	for tenant, c := range crowds {
		if most := c.most.Load(); most > 3 {
			t.Errorf("%d jobs of tenant %q ran at once, where 3 may", most, tenant)
		}
	}
	for _, id := range ids {
		if j := get(t, p.Fabric, id); j.Attempt > 3 {
			t.Errorf("%s needed %d attempts: waiting has cost some", id, j.Attempt)
		}
	}
}

// A superseded job runs until it hears of it. With one a key, its successor waits for
// its end.
func TestWithOneAKeyASuccessorWaitsForTheEndOfItsPredecessor(t *testing.T) {
	t.Parallel()
	p := join(t, natstest.Start(t), terse(t))
	one := 1
	if _, err := p.Stage(t.Context(), "hash"); err != nil {
		t.Fatal(err)
	}
	setStage(t, p.Fabric, "hash", fabric.StageChange{PerKey: &one})
	spec := job.Spec{Stage: "hash", InputRef: "data:,x", Key: "video 7"}
	var c crowd
	var first sync.Once
	began := make(chan struct{})
	work(t, p.Fabric, "hash", 4, func(ctx context.Context, _ *worker.Task) job.Outcome {
		defer c.enter()()
		first.Do(func() {
			close(began)
			<-ctx.Done()
			<-time.After(100 * time.Millisecond) // it tidies up
		})
		return job.Completed("data:,done")
	})
	enqueue(t, p.Fabric, spec)
	await(t, began, "the first one runs")
	next := enqueue(t, p.Fabric, spec)
	awaitAll(t, p.Fabric, patience, next.ID)
	if most, runs := c.most.Load(), c.runs.Load(); most != 1 || runs != 2 {
		t.Errorf("%d ran at once, %d in all", most, runs)
	}
}

// Whoever died between its place and its claim, or was never seen again, keeps a
// place for as long as its claim might still be written.
func TestPlaceOfAClaimThatWasNeverMadeLapses(t *testing.T) {
	t.Parallel()
	p := join(t, natstest.Start(t), lease(fabric.MinLease), terse(t))
	perTenant(t, p.Fabric, 1)
	a, b := enqueue(t, p.Fabric, ofTenant("acme")), enqueue(t, p.Fabric, ofTenant("acme"))
	type holder struct {
		JobID string    `json:"job_id"`
		Fence int64     `json:"fence"`
		Since time.Time `json:"since"`
	}
	text, err := json.Marshal(map[string]any{"holders": []holder{{a.ID, 1, p.Now()}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fabric.Bucket(p.Fabric).Swap(t.Context(), kv.Write{Key: kv.LimitKey("hash", "label", "tenant", "acme"), Value: text}); err != nil {
		t.Fatal(err)
	}
	e := explained(t, p.Fabric, b.ID)
	if !slices.Contains(codes(e), fabric.CauseLimit) || !strings.Contains(fmt.Sprint(e.Findings), "held back by the limit of tenant=acme in stage hash: 1 running") ||
		!strings.Contains(fmt.Sprint(e.Findings), "weft stage set hash --per-label tenant=2") {
		t.Errorf("%+v", e)
	}
	var runs handled
	work(t, p.Fabric, "hash", 4, counted(&runs))
	awaitAll(t, p.Fabric, patience, a.ID, b.ID)
}

// A full gate has the job come again later, by a schedule, and changes nothing of it.
func TestJobIsPutOffAtNoCharge(t *testing.T) {
	t.Parallel()
	p := join(t, natstest.Start(t), terse(t))
	perTenant(t, p.Fabric, 1)
	r := runner(t, p.Fabric, "")
	first := enqueue(t, p.Fabric, ofTenant("acme"))
	held := claimNext(t, r, "hash", first.ID)
	waits := enqueue(t, p.Fabric, ofTenant("acme"))
	if err := p.nc.Publish("weft.work.hash.bare", []byte(`{"input_ref":"data:,hi","labels":{"tenant":"acme"}}`)); err != nil {
		t.Fatal(err)
	}
	other := enqueue(t, p.Fabric, ofTenant("beta"))
	claimNext(t, r, "hash", other.ID) // nobody stands in its way
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	claimed := make(chan []job.Claim, 1)
	go func() {
		claims, _ := r.Claim(ctx, "hash", 1)
		claimed <- claims
	}()
	st := workQueue(t, p.nc, "hash")
	natstest.Eventually(t, patience, "both are put off", func() bool {
		later := subjectsOf(t, st, "weft.later.>")
		_, spec := later["weft.later.hash.bare"]
		_, enqueued := later["weft.later.hash."+waits.ID]
		return spec && enqueued
	})
	if j := get(t, p.Fabric, waits.ID); j.Attempt != 0 || j.Fence != 0 || j.State != job.StateWaiting {
		t.Errorf("waiting has changed it: %+v", j)
	}
	settle(t, r, held, job.Completed("data:,done"))
	got := await(t, claimed, "one of them is claimed")
	if len(got) != 1 || got[0].Job.Labels["tenant"] != "acme" || got[0].Job.Attempt != 1 {
		t.Errorf("%+v", got)
	}
}

// The keeper takes a job that was put off for offered, however long it has been due.
func TestAuditLeavesAloneWhatWasPutOff(t *testing.T) {
	t.Parallel()
	var old age
	p := join(t, natstest.Start(t), terse(t), old.clock)
	for _, id := range []string{"off", "stuck"} {
		enqueue(t, p.Fabric, job.Spec{ID: id, Stage: "hash", InputRef: "data:,x"})
	}
	js, st := serverJetStream(t, p.nc), workQueue(t, p.nc, "hash")
	for id, seq := range offers(t, st) {
		if err := st.DeleteMsg(t.Context(), seq); err != nil {
			t.Fatal(err)
		}
		msg := nats.NewMsg("weft.later.hash." + id)
		msg.Data = record(t, p.Fabric, id).Raw
		msg.Header.Set("Weft-Revision", fmt.Sprint(record(t, p.Fabric, id).Revision))
		msg.Header.Set("Nats-Schedule-Target", "weft.work.hash."+id)
		due := time.Now().Add(time.Hour + 40*time.Second)
		if id == "stuck" { // for whoever's clock is an hour ahead
			due = time.Now().Add(30 * time.Minute)
		}
		msg.Header.Set("Nats-Schedule", "@at "+due.UTC().Format(time.RFC3339Nano))
		if _, err := js.PublishMsg(t.Context(), msg); err != nil {
			t.Fatal(err)
		}
	}
	old.add(time.Hour)
	if err := fabric.Audit(t.Context(), p.Fabric); err != nil {
		t.Fatal(err)
	}
	later := subjectsOf(t, st, "weft.later.>")
	if _, there := later["weft.later.hash.off"]; !there {
		t.Error("what was put off was offered")
	}
	if _, there := later["weft.later.hash.stuck"]; there {
		t.Error("a schedule that has not fired was left")
	}
	finds(t, explained(t, p.Fabric, "off"), 1, fabric.CauseQueued, "it was put off, as a limit was reached when its turn came")
}

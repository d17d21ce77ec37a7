package fabric_test

// These tests prove that the counts of a stage are those of its jobs, through all
// that changes them, and that they say when nobody keeps them.

import (
	"context"
	"testing"
	"time"

	"github.com/weft-fabric/weft/fabric"
	"github.com/weft-fabric/weft/internal/natstest"
	"github.com/weft-fabric/weft/job"
	"github.com/weft-fabric/weft/worker"
)

// stageOf looks a stage up in the list of all.
func stageOf(t *testing.T, f *fabric.Fabric, name string) fabric.StageStatus {
	t.Helper()
	all, err := f.Stages(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range all {
		if s.Err != nil {
			t.Fatal(s.Err)
		}
		if s.Name == name {
			return s
		}
	}
	t.Fatalf("no stage %s in %+v", name, all)
	return fabric.StageStatus{}
}

// awaitCounts waits until a stage has the counts, as kept by a keeper that runs.
func awaitCounts(t *testing.T, f *fabric.Fabric, name string, want fabric.Counts) {
	t.Helper()
	var s fabric.StageStatus
	defer func() {
		if t.Failed() {
			t.Logf("the last counts were %+v, stale %t", s.Counts, s.Stale)
		}
	}()
	natstest.Eventually(t, patience, "the counts of "+name, seldom(50*time.Millisecond, func() bool {
		s = stageOf(t, f, name)
		return s.Counts == want && !s.Stale
	}))
}

func TestStagesCountsJobsByWhatTheyDo(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	f := join(t, s, attempts(1)).Fabric
	stop := keep(t, f)
	for _, id := range []string{"a", "b", "c", "d", "e", "f", "g"} {
		enqueue(t, f, job.Spec{ID: id, Stage: "hash", InputRef: "x"})
	}
	enqueue(t, f, job.Spec{ID: "first", Stage: "hash", InputRef: "x", Priority: 1})
	enqueue(t, f, job.Spec{ID: "later", Stage: "hash", InputRef: "x", AvailableAt: f.Now().Add(time.Hour)})
	enqueue(t, f, job.Spec{ID: "blocked", Stage: "hash", InputRef: "x", Dependencies: []string{"g"}})
	enqueue(t, f, job.Spec{ID: "else", Stage: "other", InputRef: "x"})
	r := runner(t, f, "")
	settle(t, r, claimNext(t, r, "hash", "first"), job.Completed("data:,done"))
	settle(t, r, claimNext(t, r, "hash", "a"), job.Completed("data:,done"))
	settle(t, r, claimNext(t, r, "hash", "b"), job.Failed("no"))
	if _, err := f.Cancel(t.Context(), "c", "not wanted"); err != nil {
		t.Fatal(err)
	}
	claimNext(t, r, "hash", "d")

	want := fabric.Counts{Blocked: 1, Succeeded: 2, Failed: 1, Cancelled: 1}
	awaitCounts(t, f, "hash", want)
	natstest.Eventually(t, patience, "what the queue says", func() bool {
		return stageOf(t, f, "hash").Queued == fabric.Queued{Waiting: 3, Running: 1, Delayed: 1}
	})
	if q := stageOf(t, f, "other").Queued; q != (fabric.Queued{Waiting: 1}) {
		t.Errorf("the other stage has %+v", q)
	}

	if _, err := f.Retry(t.Context(), "b", "once more"); err != nil {
		t.Fatal(err)
	}
	want.Failed = 0
	awaitCounts(t, f, "hash", want)
	stop()
	stop = keep(t, join(t, s).Fabric)
	awaitCounts(t, f, "hash", want)

	stop()
	natstest.Eventually(t, patience, "nobody keeps the counts", func() bool { return stageOf(t, f, "hash").Stale })
	if left := stageOf(t, f, "hash"); left.Counts != want || left.Counted.IsZero() || f.Now().Before(left.Counted) {
		t.Errorf("left is %+v, counted %s", left.Counts, left.Counted)
	}
}

// Ordinary failures and retries are many, and none may look like an operator's.
func TestRetriesAreNotTakenOffTheFailed(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	f := join(t, s, impatient, attempts(3), terse(t)).Fabric
	keep(t, f)
	ids := enqueueMany(t, f, 30, job.Spec{Stage: "hash", InputRef: "x"})
	work(t, f, "hash", 8, func(context.Context, *worker.Task) job.Outcome { return job.Failed("no") })
	for _, id := range ids {
		awaitState(t, f, id, job.StateFailed)
	}
	awaitCounts(t, f, "hash", fabric.Counts{Failed: len(ids)})
	for _, id := range ids[:10] {
		if _, err := f.Retry(t.Context(), id, "once more"); err != nil {
			t.Fatal(err)
		}
	}
	for _, id := range ids {
		awaitState(t, f, id, job.StateFailed)
	}
	awaitCounts(t, f, "hash", fabric.Counts{Failed: len(ids)})
}

func TestStageReportTellsAllOfAStage(t *testing.T) {
	t.Parallel()
	p := join(t, natstest.Start(t))
	for _, id := range []string{"a", "b"} {
		enqueue(t, p.Fabric, job.Spec{ID: id, Stage: "hash", InputRef: "x"})
	}
	r := runner(t, p.Fabric, "rn_one")
	claimNext(t, r, "hash", "a")
	if err := r.Announce(t.Context(), fabric.Presence{Host: "here", PID: 1, Stages: []string{"hash"}, Slots: 1}); err != nil {
		t.Fatal(err)
	}
	report, err := p.StageReport(t.Context(), "hash")
	if err != nil {
		t.Fatal(err)
	}
	if age := p.Now().Sub(report.Oldest); age < 0 || age > patience || report.Oldest.Before(get(t, p.Fabric, "b").CreatedAt) {
		t.Errorf("the item that has waited longest is of %s", report.Oldest)
	}
	if len(report.Workers) != 1 || report.Workers[0].ID != "rn_one" || report.Stream != "WEFT_hash" || len(report.Drift) != 0 {
		t.Errorf("%+v", report)
	}
	if len(report.Lanes) != 1 || report.Lanes[0].Waiting != 1 || report.Lanes[0].Taken != 1 {
		t.Errorf("lanes %+v", report.Lanes)
	}
	if err := serverJetStream(t, p.nc).DeleteConsumer(t.Context(), "WEFT_hash", "runners"); err != nil {
		t.Fatal(err)
	}
	if report, err = p.StageReport(t.Context(), "hash"); err != nil || len(report.Drift) != 1 {
		t.Errorf("drift %q, %v", report.Drift, err)
	}
}

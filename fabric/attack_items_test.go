package fabric_test

// These tests force the moments at which items and records could part: late
// acknowledgements, enqueues that died, duplicates, a busy worker. The job always
// has what it needs to go on, and nothing runs that must not.

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weft-fabric/weft/fabric"
	"github.com/weft-fabric/weft/internal/natstest"
	"github.com/weft-fabric/weft/job"
	"github.com/weft-fabric/weft/kv"
	"github.com/weft-fabric/weft/worker"
)

// oldHolder takes the next item of a stage as a worker would that has done its
// part with the record, and whose acknowledgement is still on its way.
func oldHolder(t *testing.T, nc *nats.Conn, stage string) jetstream.Msg {
	t.Helper()
	c, err := workQueue(t, nc, stage).Consumer(t.Context(), "runners")
	if err != nil {
		t.Fatal(err)
	}
	msg, err := c.Next(jetstream.FetchMaxWait(5 * time.Second))
	if err != nil {
		t.Fatal(err)
	}
	return msg
}

func TestLateAckAfterARetryLeavesTheJobItsItem(t *testing.T) {
	t.Parallel()
	nc := natstest.Conn(t)
	f := open(t, nc)
	j := enqueue(t, f, job.Spec{ID: "retried", Stage: "work", InputRef: "data:,x"})
	late := oldHolder(t, nc, "work")
	failed := job.Rejected(j.ID, j.Stage, "broken", f.Now())
	failed.InputRef = j.InputRef
	rec, err := fabric.Bucket(f).Load(t.Context(), j.ID)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fabric.Bucket(f).Save(t.Context(), failed, rec.Revision, time.Hour); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Retry(t.Context(), j.ID, "mended"); err != nil {
		t.Fatal(err)
	}
	if err := late.DoubleAck(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := finish(t, runner(t, f, ""), "work"); got.ID != j.ID {
		t.Fatalf("claimed %s", got.ID)
	}
}

// A blocked job's item, which somebody published by hand, is acknowledged while
// its dependency is met.
func TestLateAckAfterADependencyWasMetLeavesTheJobItsItem(t *testing.T) {
	t.Parallel()
	nc := natstest.Conn(t)
	f := open(t, nc)
	r := runner(t, f, "")
	enqueue(t, f, job.Spec{ID: "first", Stage: "a", InputRef: "data:,x"})
	enqueue(t, f, job.Spec{ID: "then", Stage: "b", InputRef: "data:,x", Dependencies: []string{"first"}})
	publish(t, nc, "weft.work.b.then", `{"input_ref":"data:,x"}`, 0)
	late := oldHolder(t, nc, "b")
	finish(t, r, "a")
	lead(t, f)
	st := workQueue(t, nc, "b")
	natstest.Eventually(t, patience, "the keeper offers the job", func() bool {
		msg, err := st.GetLastMsgForSubject(t.Context(), "weft.work.b.then")
		return err == nil && msg.Header.Get("Weft-Revision") != ""
	})
	if err := late.DoubleAck(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := finish(t, r, "b"); got.ID != "then" {
		t.Fatalf("claimed %s", got.ID)
	}
}

func TestEnqueueThatDiedBeforeItsScheduleIsScheduledByTheAudit(t *testing.T) {
	t.Parallel()
	nc := natstest.Conn(t)
	var clock age
	f := open(t, nc, clock.clock)
	at := f.Now().Add(time.Hour)
	j, err := fabric.EnqueueUpTo(t.Context(), f, job.Spec{Stage: "work", InputRef: "data:,x", AvailableAt: at}, fabric.StepRecord)
	if err != nil {
		t.Fatal(err)
	}
	clock.add(fabric.Grace + time.Second)
	if err := fabric.Audit(t.Context(), f); err != nil {
		t.Fatal(err)
	}
	msg, err := workQueue(t, nc, "work").GetLastMsgForSubject(t.Context(), "weft.later.work."+j.ID)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := msg.Header.Get("Nats-Schedule"), "@at "+at.UTC().Format(time.RFC3339Nano); got != want {
		t.Errorf("scheduled %q, want %q", got, want)
	}
}

// Audited too late for a schedule: the job is offered at once.
func TestEnqueueThatDiedBeforeItsScheduleRunsThoughItsTimeHasPassed(t *testing.T) {
	t.Parallel()
	var clock age
	f := open(t, natstest.Conn(t), clock.clock)
	spec := job.Spec{Stage: "work", InputRef: "data:,x", AvailableAt: f.Now().Add(time.Minute)}
	j, err := fabric.EnqueueUpTo(t.Context(), f, spec, fabric.StepRecord)
	if err != nil {
		t.Fatal(err)
	}
	clock.add(2 * time.Minute)
	if err := fabric.Audit(t.Context(), f); err != nil {
		t.Fatal(err)
	}
	if got := finish(t, runner(t, f, ""), "work"); got.ID != j.ID {
		t.Fatalf("claimed %s", got.ID)
	}
}

// A stage of one at a time: while a job runs its item is replaced, which frees
// its place at the server. The next job waits all the same, and no longer than
// until the first has ended.
func TestDuplicateInAStageOfOneAtATimeLetsNoTwoRunTogether(t *testing.T) {
	t.Parallel()
	const jobs, duplicates = 6, 4
	nc := natstest.Conn(t)
	f := open(t, nc, func(o *fabric.Options) { o.Stage.Concurrency = 1 })
	var running, most atomic.Int64
	started := make(chan string)
	work(t, f, "single", 3, func(ctx context.Context, task *worker.Task) job.Outcome {
		most.Store(max(most.Load(), running.Add(1)))
		defer running.Add(-1)
		started <- task.Job().ID
		for range duplicates {
			publish(t, nc, "weft.work.single."+task.Job().ID, `{"input_ref":"data:,x"}`, 0)
		}
		until := time.Now().Add(300 * time.Millisecond)
		natstest.Eventually(t, patience, "the job takes its time", func() bool { return time.Now().After(until) })
		return job.Completed("data:,done")
	})
	for i := range jobs {
		enqueue(t, f, job.Spec{ID: fmt.Sprintf("job%d", i), Stage: "single", InputRef: "data:,x"})
	}
	began := time.Now()
	for i := range jobs {
		if id := await(t, started, "the next job starts"); id != fmt.Sprintf("job%d", i) {
			t.Errorf("%s started as number %d", id, i)
		}
	}
	if took := time.Since(began); took > patience {
		t.Errorf("the jobs were held up: %s", took)
	}
	for i := range jobs {
		awaitAll(t, f, patience, fmt.Sprintf("job%d", i))
	}
	if n := most.Load(); n != 1 {
		t.Errorf("%d ran together", n)
	}
	natstest.Eventually(t, patience, "no item is left", func() bool {
		return len(subjectsOf(t, workQueue(t, nc, "single"), "weft.>")) == 0
	})
}

// With one slot and a long job, the other items stay with the server, in every
// lane: their clocks do not run in the hands of a worker that has no time for them.
func TestBusyWorkerHoldsNoOtherItems(t *testing.T) {
	t.Parallel()
	f := open(t, natstest.Conn(t), lease(10*time.Second))
	enqueue(t, f, job.Spec{ID: "urgent", Stage: "work", InputRef: "data:,x", Priority: 1}) // the lane is in use
	finish(t, runner(t, f, ""), "work")
	release, started := make(chan struct{}), make(chan string, 8)
	work(t, f, "work", 1, func(ctx context.Context, task *worker.Task) job.Outcome {
		started <- task.Job().ID
		select {
		case <-release:
		case <-ctx.Done():
		}
		return job.Completed("data:,done")
	})
	enqueue(t, f, job.Spec{ID: "long", Stage: "work", InputRef: "data:,x"})
	if id := await(t, started, "a job starts"); id != "long" {
		t.Fatalf("%s started", id)
	}
	for i, priority := range []int{0, 0, 1, 1} {
		enqueue(t, f, job.Spec{ID: fmt.Sprintf("other%d", i), Stage: "work", InputRef: "data:,x", Priority: priority})
	}
	until := time.Now().Add(3 * time.Second)
	natstest.Eventually(t, patience, "the long job goes on", func() bool {
		for i := range 4 {
			if j := get(t, f, fmt.Sprintf("other%d", i)); j.Fence != 0 {
				t.Fatalf("%s was claimed by a busy worker", j.ID)
			}
		}
		return time.Now().After(until)
	})
	began := time.Now()
	for _, j := range claimAll(t, runner(t, f, ""), "work", 4) {
		if j.Job.Attempt != 1 {
			t.Errorf("%s is at attempt %d", j.Job.ID, j.Job.Attempt)
		}
	}
	if took := time.Since(began); took > 5*time.Second { // well before the items' clocks would have run out
		t.Errorf("a free worker waited %s for what a busy one held", took)
	}
	close(release)
	awaitAll(t, f, patience, "long")
	if j := get(t, f, "long"); j.Attempt != 1 {
		t.Errorf("the long job needed %d attempts", j.Attempt)
	}
}

// The disk lost the record of a job that waits for its retry in a lane of its own.
func TestLostRecordOfARetryIsMadeAgainAsItWas(t *testing.T) {
	t.Parallel()
	nc := natstest.Conn(t)
	f := open(t, nc)
	r := runner(t, f, "")
	enqueue(t, f, job.Spec{ID: "lost", Stage: "work", InputRef: "data:,x", Priority: 2, MaxAttempts: 5})
	settle(t, r, claimNext(t, r, "work", "lost"), job.FailedAfter("no luck", 100*time.Millisecond))
	st := serverStream(t, nc, "KV_weft")
	if err := st.Purge(t.Context(), jetstream.WithPurgeSubject("$KV.weft."+kv.JobKey("lost"))); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Get(t.Context(), "lost"); !errors.Is(err, job.ErrMissingJob) {
		t.Fatalf("the record is still there: %v", err)
	}
	if j := finish(t, r, "work"); j.ID != "lost" || j.Attempt != 2 || j.Fence != 2 || j.MaxAttempts != 5 {
		t.Errorf("claimed %s, attempt %d of %d, fence %d", j.ID, j.Attempt, j.MaxAttempts, j.Fence)
	}
}

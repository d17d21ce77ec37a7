package fabric_test

// These tests prove that a job's available_at is kept: nothing starts before it,
// by whatever way its item comes, a job is not forgotten because the server was
// down at its time, and jobs that are not due cost the others nothing.

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/weft-fabric/weft/fabric"
	"github.com/weft-fabric/weft/internal/natstest"
	"github.com/weft-fabric/weft/job"
	"github.com/weft-fabric/weft/worker"
)

func TestJobsThatAreNotDueDoNotSlowTheirStage(t *testing.T) {
	t.Parallel()
	const delayed = 10_000
	for _, concurrency := range []int{0, 1} {
		t.Run(fmt.Sprintf("concurrency_%d", concurrency), func(t *testing.T) {
			t.Parallel()
			nc := natstest.Conn(t)
			f := open(t, nc, quiet, func(o *fabric.Options) { o.Stage.Concurrency = concurrency })
			enqueueMany(t, f, delayed, job.Spec{Stage: "slow", InputRef: "data:,later", AvailableAt: f.Now().Add(time.Hour)})
			var ran handled
			work(t, f, "slow", 4, counted(&ran))
			began := time.Now()
			var ids []string
			for range 50 {
				ids = append(ids, enqueue(t, f, job.Spec{Stage: "slow", InputRef: "data:,now"}).ID)
			}
			awaitAll(t, f, patience, ids...)
			if took := time.Since(began); took > patience/2 {
				t.Errorf("50 jobs took %s beside those that are not due", took)
			}
			if got := len(ran.all()); got != len(ids) {
				t.Errorf("%d jobs ran, %d were due", got, len(ids))
			}
			if got := len(subjectsOf(t, workQueue(t, nc, "slow"), "weft.later.slow.*")); got != delayed {
				t.Errorf("%d of %d schedules are left", got, delayed)
			}
		})
	}
}

func TestNoJobStartsBeforeItsTime(t *testing.T) {
	t.Parallel()
	nc := natstest.Conn(t)
	f := open(t, nc)
	bucket := fabric.Bucket(f)
	var mu sync.Mutex
	started := map[string]time.Time{} // on the server's clock
	work(t, f, "due", 8, func(ctx context.Context, task *worker.Task) job.Outcome {
		at, err := bucket.ServerTime(ctx)
		if err != nil {
			return job.Failed(err.Error())
		}
		mu.Lock()
		defer mu.Unlock()
		started[task.Job().ID] = at
		return job.Completed("data:,done")
	})
	due := map[string]time.Time{}
	var ids []string
	for _, after := range []time.Duration{1, 7, 83, 249, 251, 333, 499, 501, 777, 999, 1001, 1234, 1501} {
		at := f.Now().Add(after*time.Millisecond + 123*time.Microsecond)
		j := enqueue(t, f, job.Spec{Stage: "due", InputRef: "data:,x", AvailableAt: at})
		due[j.ID] = at
		ids = append(ids, j.ID)
	}
	awaitAll(t, f, patience, ids...)
	mu.Lock()
	defer mu.Unlock()
	for id, at := range due {
		if early := at.Sub(started[id]); early > 0 {
			t.Errorf("%s started %s before its time", id, early)
		}
		if late := started[id].Sub(at); late > patience/2 {
			t.Errorf("%s started %s late", id, late)
		}
	}
}

// An item that comes before its job's time, whoever published it, is put off.
func TestItemThatComesEarlyIsPutOff(t *testing.T) {
	t.Parallel()
	nc := natstest.Conn(t)
	f := open(t, nc)
	at := f.Now().Add(700 * time.Millisecond)
	j := enqueue(t, f, job.Spec{ID: "early", Stage: "due", InputRef: "data:,x", AvailableAt: at})
	if err := nc.Publish("weft.work.due.early", []byte(`{"input_ref":"data:,x"}`)); err != nil {
		t.Fatal(err)
	}
	c := claim(t, runner(t, f, ""), "due")
	if c.Job.ID != j.ID || f.Now().Before(at) {
		t.Fatalf("claimed %s at %s, available at %s", c.Job.ID, f.Now(), at)
	}
}

func TestJobThatFellDueWhileTheServerWasDownRunsAfterIt(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t)
	f := open(t, server.Connect())
	at := f.Now().Add(300 * time.Millisecond)
	j := enqueue(t, f, job.Spec{Stage: "due", InputRef: "data:,x", AvailableAt: at})
	work(t, f, "due", 1, nil)
	server.Stop()
	natstest.Eventually(t, patience, "the job's time has come", func() bool { return f.Now().After(at.Add(200 * time.Millisecond)) })
	server.Restart()
	awaitAll(t, f, patience, j.ID)
}

func TestJobThatIsCancelledWhileDelayedNeverRuns(t *testing.T) {
	t.Parallel()
	nc := natstest.Conn(t)
	f := open(t, nc)
	var ran handled
	work(t, f, "due", 1, counted(&ran))
	at := f.Now().Add(2 * time.Second)
	j := enqueue(t, f, job.Spec{Stage: "due", InputRef: "data:,x", AvailableAt: at})
	after := enqueue(t, f, job.Spec{Stage: "due", InputRef: "data:,x", AvailableAt: at.Add(300 * time.Millisecond)})
	if _, err := f.Cancel(t.Context(), j.ID, "not needed"); err != nil {
		t.Fatal(err)
	}
	if _, left := offers(t, workQueue(t, nc, "due"))[j.ID]; left {
		t.Error("the schedule of the cancelled job is left")
	}
	awaitAll(t, f, patience, after.ID)
	if got, err := f.Get(t.Context(), j.ID); err != nil || got.State != job.StateCancelled || ran.of(j.ID) != 0 {
		t.Fatalf("%s, ran %d times: %v", got.State, ran.of(j.ID), err)
	}
}

// Cancelled when its item is there already: the schedule fired, nobody was free.
func TestJobThatIsCancelledWhenItsScheduleHasFiredNeverRuns(t *testing.T) {
	t.Parallel()
	nc := natstest.Conn(t)
	f := open(t, nc)
	at := f.Now().Add(50 * time.Millisecond)
	j := enqueue(t, f, job.Spec{Stage: "due", InputRef: "data:,x", AvailableAt: at})
	st := workQueue(t, nc, "due")
	natstest.Eventually(t, patience, "the schedule fires", func() bool {
		_, err := st.GetLastMsgForSubject(t.Context(), "weft.work.due."+j.ID)
		return err == nil
	})
	if _, err := f.Cancel(t.Context(), j.ID, "not needed"); err != nil {
		t.Fatal(err)
	}
	next := enqueue(t, f, job.Spec{Stage: "due", InputRef: "data:,x"})
	if c := claim(t, runner(t, f, ""), "due"); c.Job.ID != next.ID {
		t.Fatalf("claimed %s, which is cancelled", c.Job.ID)
	}
}

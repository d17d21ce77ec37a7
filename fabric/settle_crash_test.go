package fabric_test

// These tests prove that a worker which dies around its settlement makes no job
// run again that was recorded, and keeps no job running for ever that was not.

import (
	"fmt"
	"testing"
	"time"

	"github.com/weft-fabric/weft/fabric"
	"github.com/weft-fabric/weft/internal/natstest"
	"github.com/weft-fabric/weft/job"
)

// settleRecordOnly does the first of a settlement's two writes, as a worker does
// that dies before the second.
func settleRecordOnly(t *testing.T, f *fabric.Fabric, id string, change func(job.Job) (job.Job, error)) {
	t.Helper()
	rec := record(t, f, id)
	next, err := change(rec.Job)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fabric.Bucket(f).Save(t.Context(), next, rec.Revision, 0); err != nil {
		t.Fatal(err)
	}
}

func TestWorkerThatDiesBetweenRecordAndAckMakesNoSecondRun(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	dead := join(t, s, lease(short))
	r := runner(t, dead.Fabric, "dead")
	enqueue(t, dead.Fabric, job.Spec{ID: "a", Stage: "hash", InputRef: "data:,x"})
	claimNext(t, r, "hash", "a")
	settleRecordOnly(t, dead.Fabric, "a", func(j job.Job) (job.Job, error) {
		return j.Complete(j.Token(), "dead", "data:,done", dead.Now())
	})
	dead.die()
	p := join(t, s)
	var runs handled
	work(t, p.Fabric, "hash", 2, counted(&runs))
	nothingLeft(t, p.nc, "hash") // the void item came back after ack-wait
	if j := get(t, p.Fabric, "a"); runs.of("a") != 0 || j.State != job.StateSucceeded || j.Fence != 1 {
		t.Fatalf("ran %d times: %+v", runs.of("a"), j)
	}
}

func TestWorkerThatDiesBetweenRetryAndScheduleKeepsTheDelay(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	dead := join(t, s, lease(short))
	enqueue(t, dead.Fabric, job.Spec{ID: "a", Stage: "hash", InputRef: "data:,x"})
	claimNext(t, runner(t, dead.Fabric, "dead"), "hash", "a")
	const delay = 2 * short
	var due time.Time
	settleRecordOnly(t, dead.Fabric, "a", func(j job.Job) (job.Job, error) {
		next, err := j.Fail(j.Token(), "dead", "no luck", dead.Now(), delay)
		due = next.AvailableAt
		return next, err
	})
	dead.die()
	p := join(t, s)
	c := claimNext(t, runner(t, p.Fabric, ""), "hash", "a")
	if p.Now().Before(due) || c.Job.Attempt != 2 {
		t.Fatalf("attempt %d at %s, due at %s", c.Job.Attempt, p.Now(), due)
	}
}

func TestJobThatKillsEveryWorkerFailsAndOthersGoOn(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	backend := join(t, s, lease(short))
	enqueue(t, backend.Fabric, job.Spec{ID: "poison", Stage: "hash", InputRef: "data:,x", MaxAttempts: 3})
	for i := range 3 {
		victim := join(t, s)
		c := claimNext(t, runner(t, victim.Fabric, fmt.Sprintf("victim%d", i)), "hash", "poison")
		if c.Job.Attempt != int64(i+1) {
			t.Fatalf("attempt %d", c.Job.Attempt)
		}
		victim.die()
		healthy := enqueue(t, backend.Fabric, job.Spec{Stage: "hash", InputRef: "data:,y"})
		r := runner(t, backend.Fabric, "")
		settle(t, r, claimNext(t, r, "hash", healthy.ID), job.CompletedWith(nil))
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
	var runs handled
	work(t, backend.Fabric, "hash", 1, counted(&runs))
	j := awaitState(t, backend.Fabric, "poison", job.StateFailed)
	if j.Reason != expired || j.Attempt != 3 || j.Fence != 3 || len(j.AttemptsLog) != 3 || runs.of("poison") != 0 {
		t.Fatalf("%+v", j)
	}
	for i, a := range j.AttemptsLog {
		if a.Worker != fmt.Sprintf("victim%d", i) || a.Outcome != job.AttemptExpired {
			t.Errorf("%+v", a)
		}
	}
	nothingLeft(t, backend.nc, "hash")
}

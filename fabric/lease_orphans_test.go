package fabric_test

// These tests prove that no job stays with a dead worker: another worker takes it
// over once the lease has run out, and with no worker left the keeper says so.

import (
	"testing"
	"time"

	"github.com/weft-fabric/weft/internal/natstest"
	"github.com/weft-fabric/weft/job"
)

const expired = "worker lease expired"

func TestKeeperMovesTheJobsOfDeadWorkers(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	dead := join(t, s, lease(short))
	enqueue(t, dead.Fabric, job.Spec{ID: "healthy", Stage: "hash", InputRef: "data:,x"})
	enqueue(t, dead.Fabric, job.Spec{ID: "exhausted", Stage: "hash", InputRef: "data:,x", MaxAttempts: 1})
	claimAll(t, runner(t, dead.Fabric, "dead"), "hash", 2)
	dead.die()
	p := join(t, s)
	keep(t, p.Fabric)
	healthy := awaitState(t, p.Fabric, "healthy", job.StateRetryWaiting)
	exhausted := awaitState(t, p.Fabric, "exhausted", job.StateFailed)
	for _, j := range []job.Job{healthy, exhausted} {
		last := j.AttemptsLog[len(j.AttemptsLog)-1]
		if j.Reason != expired || j.Attempt != 1 || j.Fence != 1 || last.Outcome != job.AttemptExpired || last.Worker != "dead" {
			t.Errorf("%+v", j)
		}
	}
	if c := claimNext(t, runner(t, p.Fabric, ""), "hash", "healthy"); c.Job.Attempt != 2 || c.Job.Fence != 2 {
		t.Fatalf("%+v", c.Job)
	}
}

func TestAllJobsOfADeadWorkerAreTakenOverWithinTwoLeases(t *testing.T) {
	t.Parallel()
	const n, span = 1000, 8 * time.Second // a slow machine needs some seconds for a thousand
	s := natstest.Start(t)
	p := join(t, s, lease(span), quiet)
	enqueueMany(t, p.Fabric, n, job.Spec{Stage: "hash", InputRef: "data:,x"})
	dead := join(t, s, quiet)
	claimAll(t, runner(t, dead.Fabric, "dead"), "hash", n)
	dead.die()
	died := time.Now()
	r := runner(t, p.Fabric, "alive")
	held := claimAll(t, r, "hash", n)
	if took := time.Since(died); took > 2*span {
		t.Errorf("the last was taken over after %s, the lease is %s", took, span)
	}
	for id, c := range held {
		if c.Job.Attempt != 2 || c.Job.Fence != 2 || c.Job.AttemptsLog[0].Outcome != job.AttemptExpired {
			t.Fatalf("%s: %+v", id, c.Job)
		}
	}
}

func TestExhaustedAndHealthyOrphansTogether(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	dead := join(t, s, lease(short))
	want := map[string]job.State{}
	for i := range 20 {
		spec, state := job.Spec{Stage: "hash", InputRef: "data:,x", MaxAttempts: 1}, job.StateFailed
		if i%2 == 1 {
			spec.MaxAttempts, state = 5, job.StateSucceeded
		}
		want[enqueue(t, dead.Fabric, spec).ID] = state
	}
	claimAll(t, runner(t, dead.Fabric, "dead"), "hash", len(want))
	dead.die()
	p := join(t, s)
	var runs handled
	work(t, p.Fabric, "hash", 5, counted(&runs))
	for id, state := range want {
		j := awaitState(t, p.Fabric, id, state)
		if state == job.StateFailed && (j.Reason != expired || j.Attempt != 1 || runs.of(id) != 0) {
			t.Errorf("exhausted: %+v, ran %d times", j, runs.of(id))
		}
		if state == job.StateSucceeded && (j.Attempt < 2 || runs.of(id) != 1) {
			t.Errorf("healthy: %+v, ran %d times", j, runs.of(id))
		}
	}
	nothingLeft(t, p.nc, "hash")
}

package fabric_test

// These tests prove what giving a job back costs: nothing when its worker stops,
// nothing for a while when its handler wishes so, and then an attempt.

import (
	"testing"
	"time"

	"github.com/weft-fabric/weft/internal/natstest"
	"github.com/weft-fabric/weft/job"
)

func TestReleasesCostNoAttempt(t *testing.T) {
	t.Parallel()
	p := join(t, natstest.Start(t))
	r := runner(t, p.Fabric, "")
	enqueue(t, p.Fabric, job.Spec{ID: "a", Stage: "hash", InputRef: "data:,x", MaxAttempts: 2})
	for i := range int64(10) {
		c := claimNext(t, r, "hash", "a")
		if c.Job.Attempt != 1 || c.Job.Fence != i+1 {
			t.Fatalf("attempt %d, fence %d in round %d", c.Job.Attempt, c.Job.Fence, i)
		}
		settle(t, r, c, job.Released())
		if j := get(t, p.Fabric, "a"); j.State != job.StateWaiting || j.Attempt != 0 || j.Fence != i+1 {
			t.Fatalf("%+v", j)
		}
	}
	settle(t, r, claimNext(t, r, "hash", "a"), job.CompletedWith(nil))
	nothingLeft(t, p.nc, "hash")
}

func TestReleaseAtTheLastAttemptLeavesTheJobWaiting(t *testing.T) {
	t.Parallel()
	p := join(t, natstest.Start(t))
	r := runner(t, p.Fabric, "")
	enqueue(t, p.Fabric, job.Spec{ID: "a", Stage: "hash", InputRef: "data:,x", MaxAttempts: 1})
	settle(t, r, claimNext(t, r, "hash", "a"), job.Released())
	if j := get(t, p.Fabric, "a"); j.State != job.StateWaiting || j.Attempt != 0 {
		t.Fatalf("%+v", j)
	}
	settle(t, r, claimNext(t, r, "hash", "a"), job.CompletedWith(nil))
}

func TestHandlerThatReturnsItsJobForEverIsChargedAndEnds(t *testing.T) {
	t.Parallel()
	p := join(t, natstest.Start(t), impatient)
	r := runner(t, p.Fabric, "")
	const allowed = 2
	enqueue(t, p.Fabric, job.Spec{ID: "a", Stage: "hash", InputRef: "data:,x", MaxAttempts: allowed})
	for attempt := range int64(allowed) {
		for i := range job.FreeReturns {
			c := claimNext(t, r, "hash", "a")
			if c.Job.Attempt != attempt+1 {
				t.Fatalf("attempt %d after %d returns", c.Job.Attempt, i)
			}
			settle(t, r, c, job.Returned("not ready"))
			if j := get(t, p.Fabric, "a"); j.State != job.StateWaiting || j.Attempt != attempt {
				t.Fatalf("return %d: %+v", i, j)
			}
		}
		settle(t, r, claimNext(t, r, "hash", "a"), job.Returned("still not ready"))
		if j := get(t, p.Fabric, "a"); j.Attempt != attempt+1 || j.Reason != "still not ready" {
			t.Fatalf("charged: %+v", j)
		}
	}
	if j := get(t, p.Fabric, "a"); j.State != job.StateFailed || j.Fence != allowed*(job.FreeReturns+1) {
		t.Fatalf("%+v", j)
	}
	nothingLeft(t, p.nc, "hash")
}

func TestReturnedJobWaitsItsBackoff(t *testing.T) {
	t.Parallel()
	p := join(t, natstest.Start(t))
	r := runner(t, p.Fabric, "")
	enqueue(t, p.Fabric, job.Spec{ID: "a", Stage: "hash", InputRef: "data:,x"})
	var waits []time.Duration
	for range 2 {
		settle(t, r, claimNext(t, r, "hash", "a"), job.Returned("not ready"))
		j := get(t, p.Fabric, "a")
		waits = append(waits, j.AvailableAt.Sub(j.UpdatedAt))
	}
	if waits[0] < 800*time.Millisecond || waits[1] < 2*800*time.Millisecond || waits[1] > 2*1200*time.Millisecond {
		t.Fatalf("waits %v", waits)
	}
	if c := claimNext(t, r, "hash", "a"); p.Now().Before(get(t, p.Fabric, "a").UpdatedAt) || c.Job.Attempt != 1 {
		t.Fatalf("%+v", c.Job)
	}
}

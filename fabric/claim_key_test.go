package fabric_test

// These tests prove that a superseded job never starts, at whatever moment its
// successor comes, and that one which runs is told, and can record nothing.

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

func TestSupersededWhileWaitingNeverStarts(t *testing.T) {
	t.Parallel()
	p := join(t, natstest.Start(t))
	for i := range 3 {
		enqueue(t, p.Fabric, job.Spec{ID: fmt.Sprint(i), Stage: "hash", InputRef: "data:,x", Key: "k"})
	}
	r := runner(t, p.Fabric, "")
	settle(t, r, claimNext(t, r, "hash", "2"), job.CompletedWith(nil))
	nothingLeft(t, p.nc, "hash")
	for i := range 2 {
		if j := get(t, p.Fabric, fmt.Sprint(i)); j.State != job.StateCancelled || j.Reason != fmt.Sprintf("superseded by %d", i+1) || j.Fence != 0 {
			t.Errorf("%+v", j)
		}
	}
}

func TestSupersededByAnEnqueueThatStoppedHalfWayNeverStarts(t *testing.T) {
	t.Parallel()
	p := join(t, natstest.Start(t))
	enqueue(t, p.Fabric, job.Spec{ID: "old", Stage: "hash", InputRef: "data:,x", Key: "k"})
	if _, err := fabric.EnqueueUpTo(t.Context(), p.Fabric, job.Spec{ID: "new", Stage: "hash", InputRef: "data:,y", Key: "k"}, fabric.StepPointer); err != nil {
		t.Fatal(err)
	}
	// The old one still waits and is offered; only its key's pointer tells.
	enqueue(t, p.Fabric, job.Spec{ID: "healthy", Stage: "hash", InputRef: "data:,z"})
	claimNext(t, runner(t, p.Fabric, ""), "hash", "healthy")
	if j := get(t, p.Fabric, "old"); j.State != job.StateCancelled || j.Reason != "superseded by new" {
		t.Fatalf("%+v", j)
	}
}

func TestSupersededWhilePrefetchedIsToldBeforeItStarts(t *testing.T) {
	t.Parallel()
	p := join(t, natstest.Start(t))
	r := runner(t, p.Fabric, "")
	first := enqueue(t, p.Fabric, job.Spec{Stage: "hash", InputRef: "data:,x"})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	// Two are asked for and one is there; the next is taken when it comes.
	claims, err := r.Claim(ctx, "hash", 2)
	if err != nil || len(claims) != 1 || claims[0].Job.ID != first.ID {
		t.Fatalf("%+v, %v", claims, err)
	}
	enqueue(t, p.Fabric, job.Spec{ID: "old", Stage: "hash", InputRef: "data:,x", Key: "k"})
	awaitState(t, p.Fabric, "old", job.StateLeased)
	enqueue(t, p.Fabric, job.Spec{ID: "new", Stage: "hash", InputRef: "data:,y", Key: "k"})
	for {
		c := claim(t, r, "hash")
		if c.Job.ID == "new" {
			break
		}
		checkCancelled(t, r, c, "superseded by new")
	}
	if j := get(t, p.Fabric, "old"); j.State != job.StateCancelled {
		t.Fatalf("%+v", j)
	}
}

// awaitNudge waits until a holder is told that something has happened.
func awaitNudge(t *testing.T, c job.Claim) {
	t.Helper()
	told := make(chan struct{}, 1)
	c.Nudge.OnHint(func() {
		select {
		case told <- struct{}{}:
		default:
		}
	})
	select {
	case <-told:
	case <-time.After(patience):
		t.Fatal("the job's holder was not told")
	}
}

// checkCancelled sees that a holder is nudged, learns why from its renewal, and
// can record nothing.
func checkCancelled(t *testing.T, r *fabric.Runner, c job.Claim, reason string) {
	t.Helper()
	awaitNudge(t, c)
	now, err := r.Renew(t.Context(), c, nil)
	refused(t, err, job.ErrStaleLease)
	if now.Job.State != job.StateCancelled || now.Job.Reason != reason {
		t.Fatalf("the renewal brought %+v", now.Job)
	}
	refused(t, r.Settle(t.Context(), c, job.CompletedWith([]byte("late"))), job.ErrStaleLease)
}

func TestSupersededWhileRunningIsToldAndItsResultDropped(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	p, backend := join(t, s), join(t, s)
	r := runner(t, p.Fabric, "")
	enqueue(t, backend.Fabric, job.Spec{ID: "old", Stage: "hash", InputRef: "data:,x", Key: "k"})
	c := claimNext(t, r, "hash", "old")
	enqueue(t, backend.Fabric, job.Spec{ID: "new", Stage: "hash", InputRef: "data:,y", Key: "k"})
	checkCancelled(t, r, c, "superseded by new")
	settle(t, r, claimNext(t, r, "hash", "new"), job.CompletedWith(nil))
	if j := get(t, p.Fabric, "old"); j.State != job.StateCancelled || j.OutputRef != "" {
		t.Fatalf("%+v", j)
	}
	nothingLeft(t, p.nc, "hash")
}

// TestJobsOfAKeyRaceTheirSuccessors lets workers take jobs while their successors
// are being enqueued, and judges the end: a job either was done before, or is
// cancelled, and no handler began after its job was cancelled.
func TestJobsOfAKeyRaceTheirSuccessors(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	p, backend := join(t, s, quiet), join(t, s, quiet)
	const keys, versions = 10, 6
	var mu sync.Mutex
	var late []string
	work(t, p.Fabric, "hash", 4, func(ctx context.Context, task *worker.Task) job.Outcome {
		if j, err := p.Get(ctx, task.Job().ID); err == nil && j.State == job.StateCancelled && j.Fence == 0 {
			mu.Lock()
			defer mu.Unlock()
			late = append(late, j.ID)
		}
		return job.CompletedWith(nil)
	})
	for version := range versions {
		for key := range keys {
			enqueue(t, backend.Fabric, job.Spec{ID: fmt.Sprintf("%d-%d", key, version), Stage: "hash", InputRef: "data:,x", Key: fmt.Sprint(key)})
		}
	}
	for key := range keys {
		awaitAll(t, p.Fabric, patience, fmt.Sprintf("%d-%d", key, versions-1))
		for version := range versions - 1 {
			j := get(t, p.Fabric, fmt.Sprintf("%d-%d", key, version))
			superseded := j.State == job.StateCancelled && j.Reason == fmt.Sprintf("superseded by %d-%d", key, version+1)
			if j.State != job.StateSucceeded && !superseded {
				t.Errorf("%s is %s: %s", j.ID, j.State, j.Reason)
			}
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if len(late) > 0 {
		t.Errorf("started after they were cancelled: %v", late)
	}
}

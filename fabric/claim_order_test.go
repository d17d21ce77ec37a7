package fabric_test

// These tests prove in which order jobs are handed out, that nobody is handed
// more than was asked for, and that what was taken and not handed out goes back.

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/weft-fabric/weft/internal/natstest"
	"github.com/weft-fabric/weft/job"
)

func TestOneWorkerWithOneSlotRunsInTheOrderOfEnqueueing(t *testing.T) {
	t.Parallel()
	p := join(t, natstest.Start(t), quiet)
	var want []string
	for i := range 50 {
		want = append(want, enqueue(t, p.Fabric, job.Spec{ID: fmt.Sprintf("j%02d", i), Stage: "hash", InputRef: "data:,x"}).ID)
	}
	var runs handled
	work(t, p.Fabric, "hash", 1, counted(&runs))
	awaitAll(t, p.Fabric, patience, want...)
	if !slices.Equal(runs.all(), want) {
		t.Fatalf("ran %v", runs.all())
	}
}

func TestReleasedJobGoesToTheTail(t *testing.T) {
	t.Parallel()
	p := join(t, natstest.Start(t))
	for _, id := range []string{"a", "b"} {
		enqueue(t, p.Fabric, job.Spec{ID: id, Stage: "hash", InputRef: "data:,x"})
	}
	r := runner(t, p.Fabric, "")
	settle(t, r, claimNext(t, r, "hash", "a"), job.Released())
	claimNext(t, r, "hash", "b")
	claimNext(t, r, "hash", "a")
}

func TestNobodyIsHandedMoreThanWasAskedFor(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	p, other := join(t, s), join(t, s)
	for i := range 10 {
		enqueue(t, p.Fabric, job.Spec{Stage: "hash", InputRef: "data:,x", Priority: i%3 + 2})
	}
	r := runner(t, p.Fabric, "")
	claims, err := r.Claim(t.Context(), "hash", 3)
	if err != nil || len(claims) == 0 || len(claims) > 3 {
		t.Fatalf("%d claims, %v", len(claims), err)
	}
	// The rest is free for another at once.
	claimAll(t, runner(t, other.Fabric, ""), "hash", 7)
	for _, n := range []int{0, -1} {
		_, err := r.Claim(t.Context(), "hash", n)
		refused(t, err, job.ErrInvalidJob)
	}
}

func TestClaimThatEndsGivesBackWhatItTookAtNoCharge(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	p, other := join(t, s), join(t, s)
	r := runner(t, p.Fabric, "")
	first := enqueue(t, p.Fabric, job.Spec{Stage: "hash", InputRef: "data:,x"})
	ctx, cancel := context.WithCancel(t.Context())
	claims, err := r.Claim(ctx, "hash", 5)
	if err != nil || len(claims) != 1 || claims[0].Job.ID != first.ID {
		t.Fatalf("%+v, %v", claims, err)
	}
	var taken []string
	for range 4 {
		taken = append(taken, enqueue(t, p.Fabric, job.Spec{Stage: "hash", InputRef: "data:,x"}).ID)
	}
	for _, id := range taken {
		awaitState(t, p.Fabric, id, job.StateLeased)
	}
	cancel()
	if _, err := r.Claim(ctx, "hash", 4); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	began := time.Now()
	held := claimAll(t, runner(t, other.Fabric, ""), "hash", 4)
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("only after %s", took)
	}
	for id, c := range held {
		if !slices.Contains(taken, id) || c.Job.Attempt != 1 || c.Job.Fence != 2 {
			t.Errorf("%s: attempt %d, fence %d", id, c.Job.Attempt, c.Job.Fence)
		}
	}
	settle(t, r, claims[0], job.CompletedWith(nil))
}

func TestRunnerThatClosesGivesBackWhatItTook(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	p, other := join(t, s), join(t, s)
	r, err := p.Runner("")
	if err != nil {
		t.Fatal(err)
	}
	enqueue(t, p.Fabric, job.Spec{Stage: "hash", InputRef: "data:,x"})
	claims, err := r.Claim(t.Context(), "hash", 2)
	if err != nil || len(claims) != 1 {
		t.Fatalf("%+v, %v", claims, err)
	}
	settle(t, r, claims[0], job.CompletedWith(nil))
	next := enqueue(t, p.Fabric, job.Spec{Stage: "hash", InputRef: "data:,y"})
	awaitState(t, p.Fabric, next.ID, job.StateLeased)
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if c := claimNext(t, runner(t, other.Fabric, ""), "hash", next.ID); c.Job.Attempt != 1 {
		t.Fatalf("attempt %d", c.Job.Attempt)
	}
}

package fabric_test

// These tests prove that of the jobs of one key the newest is current and the
// others never run, and what an enqueue does that asks for something else.

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/weft-fabric/weft/fabric"
	"github.com/weft-fabric/weft/internal/natstest"
	"github.com/weft-fabric/weft/job"
)

func TestOfTwoEnqueuesOfAKeyAtOnceOneIsCurrent(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	processes := []process{join(t, s), join(t, s)}
	const rounds = 20
	var enqueueing sync.WaitGroup
	for i, p := range processes {
		enqueueing.Go(func() {
			for round := range rounds {
				spec := job.Spec{ID: fmt.Sprintf("r%d-%d", round, i), Stage: "hash", InputRef: "data:,x", Key: fmt.Sprint(round)}
				if _, err := p.Enqueue(t.Context(), spec); err != nil {
					t.Error(err)
				}
			}
		})
	}
	enqueueing.Wait()
	f := processes[0].Fabric
	var runs handled
	work(t, f, "hash", 4, counted(&runs))
	for round := range rounds {
		a, b := fmt.Sprintf("r%d-0", round), fmt.Sprintf("r%d-1", round)
		if get(t, f, a).State == job.StateCancelled {
			a, b = b, a
		}
		awaitAll(t, f, patience, a)
		loser := get(t, f, b)
		if loser.State != job.StateCancelled || loser.Reason != "superseded by "+a || runs.of(b) != 0 || runs.of(a) != 1 {
			t.Errorf("%s ran %d times; %s ran %d times and is %s: %s", a, runs.of(a), b, runs.of(b), loser.State, loser.Reason)
		}
		if winner := get(t, f, a); winner.KeyOrder <= loser.KeyOrder && winner.ID < loser.ID {
			t.Errorf("%s of order %d is current, %s had %d", a, winner.KeyOrder, b, loser.KeyOrder)
		}
	}
}

func TestRejectNamesTheLiveJobAndLeavesBoth(t *testing.T) {
	t.Parallel()
	p := join(t, natstest.Start(t))
	reject := fabric.OnConflict(fabric.Reject)
	spec := job.Spec{ID: "a", Stage: "hash", InputRef: "data:,x", Key: "k"}
	if _, err := p.Enqueue(t.Context(), spec, reject); err != nil {
		t.Fatal(err)
	}
	other := job.Spec{ID: "b", Stage: "hash", InputRef: "data:,y", Key: "k"}
	_, err := p.Enqueue(t.Context(), other, reject)
	dup, ok := errors.AsType[*job.Error](err)
	if !ok || dup.Code != job.CodeDuplicateJob || dup.JobID != "a" {
		t.Fatalf("refused with %v", err)
	}
	if _, err := p.Get(t.Context(), "b"); !errors.Is(err, job.ErrMissingJob) {
		t.Fatalf("left a record: %v", err)
	}
	if j, err := p.Enqueue(t.Context(), spec, reject); err != nil || j.ID != "a" {
		t.Fatalf("the same once more: %+v, %v", j, err)
	}
	r := runner(t, p.Fabric, "")
	settle(t, r, claimNext(t, r, "hash", "a"), job.CompletedWith(nil))
	if _, err := p.Enqueue(t.Context(), other, reject); err != nil {
		t.Fatalf("after the live one ended: %v", err)
	}
	settle(t, r, claimNext(t, r, "hash", "b"), job.CompletedWith(nil))
}

func TestRejectKnowsTheSameJobThoughItsDependencyHasExpired(t *testing.T) {
	t.Parallel()
	p := join(t, natstest.Start(t))
	reject := fabric.OnConflict(fabric.Reject)
	r := runner(t, p.Fabric, "")
	enqueue(t, p.Fabric, job.Spec{ID: "dep", Stage: "dep", InputRef: "data:,x"})
	settle(t, r, claimNext(t, r, "dep", "dep"), job.CompletedWith(nil))
	spec := job.Spec{ID: "a", Stage: "hash", InputRef: "data:,x", Key: "k", Dependencies: []string{"dep"}}
	if _, err := p.Enqueue(t.Context(), spec, reject); err != nil {
		t.Fatal(err)
	}
	if err := fabric.Bucket(p.Fabric).Delete(t.Context(), "job.dep", record(t, p.Fabric, "dep").Revision); err != nil {
		t.Fatal(err)
	}
	if j, err := p.Enqueue(t.Context(), spec, reject); err != nil || j.ID != "a" {
		t.Fatalf("%+v, %v", j, err)
	}
	spec.ID = "b"
	_, err := p.Enqueue(t.Context(), spec, reject)
	refused(t, err, job.ErrMissingDependency)
}

func TestCoalesceReturnsTheLiveJob(t *testing.T) {
	t.Parallel()
	p := join(t, natstest.Start(t))
	coalesce := fabric.OnConflict(fabric.Coalesce)
	for i := range 3 {
		j, err := p.Enqueue(t.Context(), job.Spec{Stage: "hash", InputRef: fmt.Sprintf("data:,%d", i), Key: "k"}, coalesce)
		if err != nil || j.InputRef != "data:,0" {
			t.Fatalf("%+v, %v", j, err)
		}
	}
	r := runner(t, p.Fabric, "")
	c := claim(t, r, "hash")
	if j, err := p.Enqueue(t.Context(), job.Spec{Stage: "hash", InputRef: "data:,3", Key: "k"}, coalesce); err != nil || j.ID != c.Job.ID || j.State != job.StateLeased {
		t.Fatalf("while it runs: %+v, %v", j, err)
	}
	settle(t, r, c, job.CompletedWith(nil))
	if j, err := p.Enqueue(t.Context(), job.Spec{Stage: "hash", InputRef: "data:,4", Key: "k"}, coalesce); err != nil || j.ID == c.Job.ID {
		t.Fatalf("after it ended: %+v, %v", j, err)
	}
}

func TestManyCoalescingAtOnceMakeOneJob(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	const n = 6
	results := make(chan job.Job, n)
	for i := range n {
		p := join(t, s)
		go func() {
			j, err := p.Enqueue(t.Context(), job.Spec{Stage: "hash", InputRef: fmt.Sprintf("data:,%d", i), Key: "k"}, fabric.OnConflict(fabric.Coalesce))
			if err != nil {
				t.Error(err)
			}
			results <- j
		}()
	}
	first := <-results
	for range n - 1 {
		if j := <-results; j.ID != first.ID {
			t.Errorf("%s and %s", first.ID, j.ID)
		}
	}
}

func TestPolicyWithoutKeyIsRefused(t *testing.T) {
	t.Parallel()
	p := join(t, natstest.Start(t))
	for _, policy := range []fabric.Conflict{fabric.Reject, fabric.Coalesce, "replace"} {
		_, err := p.Enqueue(t.Context(), job.Spec{ID: "a", Stage: "hash", InputRef: "data:,x"}, fabric.OnConflict(policy))
		refused(t, err, job.ErrInvalidJob)
		if !strings.Contains(err.Error(), string(policy)) {
			t.Errorf("%v does not name the policy", err)
		}
	}
	if _, err := p.Get(t.Context(), "a"); !errors.Is(err, job.ErrMissingJob) {
		t.Fatalf("left a record: %v", err)
	}
}

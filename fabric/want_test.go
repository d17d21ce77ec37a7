package fabric_test

import (
	"testing"
	"time"

	"github.com/weft-fabric/weft/fabric"
	"github.com/weft-fabric/weft/internal/natstest"
	"github.com/weft-fabric/weft/job"
)

// What a worker has asked for and calls off is not claimed.
func TestJobsThatAreNotWantedAnyMoreAreLeftToOthers(t *testing.T) {
	t.Parallel()
	p := join(t, natstest.Start(t))
	r, other := runner(t, p.Fabric, "rn_slow"), runner(t, p.Fabric, "rn_other")
	enqueue(t, p.Fabric, job.Spec{ID: "first", Stage: "hash", InputRef: "data:,x"})
	claims, err := r.Claim(t.Context(), "hash", 10)
	if err != nil || len(claims) != 1 {
		t.Fatalf("%d claims, %v", len(claims), err)
	}
	r.Want("hash", 0)
	for _, id := range []string{"a", "b", "c"} {
		enqueue(t, p.Fabric, job.Spec{ID: id, Stage: "hash", InputRef: "data:,x"})
	}
	for range 3 {
		claims, err := other.Claim(t.Context(), "hash", 1)
		if err != nil || len(claims) != 1 || claims[0].Job.Attempt != 1 || claims[0].Job.Fence != 1 {
			t.Fatalf("%+v, %v", claims, err)
		}
	}
}

// A worker that does not come for what it has asked for loses it before its lease
// has run out, and no attempt is charged.
func TestClaimsThatNobodyComesForGoBack(t *testing.T) {
	t.Parallel()
	p := join(t, natstest.Start(t), lease(3*fabric.MinLease))
	r := runner(t, p.Fabric, "")
	enqueue(t, p.Fabric, job.Spec{ID: "first", Stage: "hash", InputRef: "data:,x"})
	if claims, err := r.Claim(t.Context(), "hash", 10); err != nil || len(claims) != 1 {
		t.Fatalf("%d claims, %v", len(claims), err)
	}
	enqueue(t, p.Fabric, job.Spec{ID: "second", Stage: "hash", InputRef: "data:,x"})
	var second job.Job
	natstest.Eventually(t, patience, "second is given back", func() bool {
		second = get(t, p.Fabric, "second")
		return second.Fence == 1 && second.State == job.StateWaiting
	})
	if second.Attempt != 0 || second.AttemptsLog[0].Outcome != job.AttemptReleased || second.AttemptsLog[0].Ended.Sub(second.AttemptsLog[0].Started) > 3*time.Second {
		t.Errorf("%+v", second)
	}
}

// What was called off may be wanted again, also by a call that is still under way.
func TestJobsThatAreWantedAgainAreClaimed(t *testing.T) {
	t.Parallel()
	p := join(t, natstest.Start(t))
	r := runner(t, p.Fabric, "")
	enqueue(t, p.Fabric, job.Spec{ID: "first", Stage: "hash", InputRef: "data:,x"})
	if claims, err := r.Claim(t.Context(), "hash", 10); err != nil || len(claims) != 1 {
		t.Fatalf("%d claims, %v", len(claims), err)
	}
	claimed := make(chan []job.Claim, 1)
	go func() {
		claims, _ := r.Claim(t.Context(), "hash", 10)
		claimed <- claims
	}()
	r.Want("hash", 0)
	enqueue(t, p.Fabric, job.Spec{ID: "second", Stage: "hash", InputRef: "data:,x"})
	r.Want("hash", 1)
	select {
	case claims := <-claimed:
		if len(claims) != 1 || claims[0].Job.ID != "second" {
			t.Errorf("%+v", claims)
		}
	case <-time.After(patience):
		t.Error("the job was not claimed")
	}
}

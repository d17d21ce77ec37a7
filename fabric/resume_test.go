package fabric_test

// These tests prove that a claim survives the process that made it, when another
// one takes it up for the same worker, and that it still has one outcome.

import (
	"errors"
	"testing"
	"time"

	"github.com/weft-fabric/weft/internal/natstest"
	"github.com/weft-fabric/weft/job"
	"github.com/weft-fabric/weft/kv"
)

func TestAClaimIsTakenUpByAnotherProcess(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		outcome job.Outcome
		want    job.State
	}{
		"completes": {job.Completed("data:,y"), job.StateSucceeded},
		"fails":     {job.FailedAfter("why", time.Hour), job.StateRetryWaiting},
		"discards":  {job.Discarded("why"), job.StateFailed},
		"releases":  {job.Released(), job.StateWaiting},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := natstest.Start(t)
			first, second := join(t, s, lease(short)), join(t, s, lease(short))
			enqueue(t, first.Fabric, job.Spec{ID: "a", Stage: "hash", InputRef: "data:,x"})
			c := claimNext(t, runner(t, first.Fabric, "w"), "hash", "a")
			first.die()
			r := runner(t, second.Fabric, "w")
			if _, err := r.Renew(t.Context(), c, nil); !errors.Is(err, job.ErrStaleLease) {
				t.Fatalf("renewed without taking it up: %v", err)
			}
			for range 2 { // once more does no harm
				if err := r.Resume(t.Context(), c.Token); err != nil {
					t.Fatal(err)
				}
			}
			settle(t, r, renew(t, r, c), test.outcome)
			settle(t, r, c, test.outcome) // once more is a success
			if j := get(t, second.Fabric, "a"); j.State != test.want {
				t.Fatalf("%+v", j)
			}
			if test.want == job.StateWaiting {
				claimNext(t, r, "hash", "a")
			} else if test.want.Terminal() {
				nothingLeft(t, second.nc, "hash")
			}
		})
	}
}

func TestTwoProcessesHoldOneClaim(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	first, second := join(t, s, lease(short)), join(t, s, lease(short))
	enqueue(t, first.Fabric, job.Spec{ID: "a", Stage: "hash", InputRef: "data:,x"})
	one, two := runner(t, first.Fabric, "w"), runner(t, second.Fabric, "w")
	c := claimNext(t, one, "hash", "a")
	if err := two.Resume(t.Context(), c.Token); err != nil {
		t.Fatal(err)
	}
	for range 3 { // each finds the other's renewal
		c = renew(t, one, c)
		c = renew(t, two, c)
	}
	settle(t, two, c, job.Completed("data:,two"))
	settle(t, one, c, job.Completed("data:,two")) // settled before
	refused(t, one.Settle(t.Context(), c, job.Completed("data:,one")), job.ErrStaleLease)
	if j := get(t, first.Fabric, "a"); j.OutputRef != "data:,two" || j.Attempt != 1 {
		t.Fatalf("%+v", j)
	}
	nothingLeft(t, first.nc, "hash")
}

func TestWhatIsNotTheTokensIsNotTakenUp(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	p, other := join(t, s, lease(short)), join(t, s, lease(short))
	enqueue(t, p.Fabric, job.Spec{ID: "a", Stage: "hash", InputRef: "data:,x", InputRevision: 3})
	c := claimNext(t, runner(t, p.Fabric, "w"), "hash", "a")
	r := runner(t, other.Fabric, "w")
	for name, change := range map[string]func(*job.Token){
		"a job that is not there": func(k *job.Token) { k.JobID = "b" },
		"another worker":          func(k *job.Token) { k.WorkerID = "v" },
		"another fence":           func(k *job.Token) { k.Fence++ },
		"another revision":        func(k *job.Token) { k.InputRevision++ },
		"of another age":          func(k *job.Token) { k.ExpiresAt = k.ExpiresAt.Add(-24 * 30 * time.Hour) },
	} {
		d := c
		change(&d.Token)
		if err := r.Resume(t.Context(), d.Token); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := r.Settle(t.Context(), d, job.Completed("data:,x")); !errors.Is(err, job.ErrStaleLease) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestForgottenClaimsEndByThemselves(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	p := join(t, s, lease(time.Second))
	enqueue(t, p.Fabric, job.Spec{ID: "a", Stage: "hash", InputRef: "data:,x"})
	r := runner(t, p.Fabric, "w")
	c := claimNext(t, r, "hash", "a")
	if held := r.Forget(1); held != 1 {
		t.Fatalf("%d held while the lease lasts", held)
	}
	natstest.Eventually(t, patience, "the claim is forgotten", func() bool { return r.Forget(1) == 0 })
	if err := r.Resume(t.Context(), c.Token); err != nil { // its worker wakes after all, and nobody took the job
		t.Fatal(err)
	}
	settle(t, r, c, job.Completed("data:,y"))
}

func TestRecordsInParts(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	p := join(t, s, quiet)
	ids := enqueueMany(t, p.Fabric, 25, job.Spec{Stage: "hash", InputRef: "data:,x"})
	putRecord(t, p.nc, "broken", "{")
	seen, after, unreadable := map[string]bool{}, uint64(0), 0
	for parts := 0; ; parts++ {
		n := 0
		for rec, err := range p.Records(t.Context(), after) {
			if errors.Is(err, kv.ErrUnreadable) && rec.Job.ID == "broken" {
				unreadable++
			} else if err != nil {
				t.Fatal(err)
			}
			if rec.Revision <= after || seen[rec.Job.ID] {
				t.Fatalf("%s at %d came again after %d", rec.Job.ID, rec.Revision, after)
			}
			seen[rec.Job.ID], after = true, rec.Revision
			if n++; n == 10 {
				break
			}
		}
		if n == 0 {
			break
		}
	}
	if len(seen) != len(ids)+1 || unreadable != 1 {
		t.Fatalf("%d records, %d of them unreadable", len(seen), unreadable)
	}
}

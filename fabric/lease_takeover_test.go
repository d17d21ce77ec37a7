package fabric_test

// These tests prove that a job changes hands once and whole: one taker wins, and
// whoever lost it, however late it wakes, can neither change the job nor take the
// new holder's item.

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/weft-fabric/weft/internal/natstest"
	"github.com/weft-fabric/weft/job"
)

func TestOfTwoTakersOfAnExpiredLeaseOneWins(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	dead := join(t, s, lease(short), attempts(50))
	enqueue(t, dead.Fabric, job.Spec{ID: "a", Stage: "hash", InputRef: "data:,x"})
	awaitExpiry(t, dead.Fabric, claimNext(t, runner(t, dead.Fabric, "dead"), "hash", "a"))
	dead.die()
	var takers []process
	for range 4 {
		takers = append(takers, join(t, s, lease(short)))
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	wins := make(chan job.Claim, len(takers))
	var taking sync.WaitGroup
	for _, p := range takers {
		r := runner(t, p.Fabric, "")
		taking.Go(func() {
			if claims, err := r.Claim(ctx, "hash", 1); err == nil {
				wins <- claims[0]
			}
		})
	}
	// Each gets an item of its own of the job, as near together as can be.
	var offering sync.WaitGroup
	for _, p := range takers {
		offering.Go(func() { offerAgain(t, p, "a") })
	}
	offering.Wait()
	won := <-wins
	enqueueFillers(t, takers[0], len(takers)-1)
	taking.Wait()
	for range len(takers) - 1 {
		if c := <-wins; c.Job.ID == "a" {
			t.Errorf("%s was taken by %s and %s", c.Job.ID, won.Token.WorkerID, c.Token.WorkerID)
		}
	}
	if j := get(t, takers[0].Fabric, "a"); j.Attempt != 2 || j.Fence != 2 || j.WorkerID != won.Token.WorkerID {
		t.Fatalf("%+v", j)
	}
}

// enqueueFillers gives takers that must not get the job under test another one.
func enqueueFillers(t *testing.T, p process, n int) {
	t.Helper()
	for range n {
		enqueue(t, p.Fabric, job.Spec{Stage: "hash", InputRef: "data:,filler"})
	}
}

func TestWorkerThatWakesAfterATakeoverHarmsNothing(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	p, other := join(t, s, lease(short)), join(t, s, lease(short))
	paused, holder := runner(t, p.Fabric, "paused"), runner(t, other.Fabric, "holder")
	for name, outcome := range map[string]job.Outcome{
		"completes": job.CompletedWith([]byte("late")), "fails": job.Failed("late"), "discards": job.Discarded("late"),
		"returns": job.Returned("late"), "releases": job.Released(),
	} {
		enqueue(t, p.Fabric, job.Spec{ID: name, Stage: "hash", InputRef: "data:,x"})
		old := claimNext(t, paused, "hash", name)
		now := claimNext(t, holder, "hash", name) // once the lease has run out
		now = renew(t, holder, now)
		before := record(t, p.Fabric, name)
		refused(t, paused.Settle(t.Context(), old, outcome), job.ErrStaleLease)
		flush(t, p)
		if after := record(t, p.Fabric, name); after.Revision != before.Revision {
			t.Errorf("who %s late changed the record to %s", name, after.Raw)
		}
		if _, there := offers(t, workQueue(t, p.nc, "hash"))[name]; !there {
			t.Errorf("who %s late took the holder's item", name)
		}
		settle(t, holder, now, job.CompletedWith([]byte("in time")))
		if j := get(t, p.Fabric, name); output(t, p.Fabric, j) != "in time" || j.Fence != now.Token.Fence {
			t.Errorf("%s: %+v", name, j)
		}
	}
	emptied(t, holder, p.nc, "hash")
}

// flush waits until the server has all that a process has sent.
func flush(t *testing.T, p process) {
	t.Helper()
	if err := p.nc.Flush(); err != nil {
		t.Fatal(err)
	}
}

func TestTwoRunnersOfOneIdAreSafe(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	p, other := join(t, s, lease(short)), join(t, s, lease(short))
	first, second := runner(t, p.Fabric, "same"), runner(t, other.Fabric, "same")
	enqueue(t, p.Fabric, job.Spec{ID: "a", Stage: "hash", InputRef: "data:,x"})
	old := claimNext(t, first, "hash", "a")
	// The other one cannot renew or settle what it did not claim.
	_, err := second.Renew(t.Context(), old, nil)
	refused(t, err, job.ErrStaleLease)
	refused(t, second.Settle(t.Context(), old, job.CompletedWith([]byte("not mine"))), job.ErrStaleLease)
	now := claimNext(t, second, "hash", "a")
	_, err = first.Renew(t.Context(), old, nil)
	refused(t, err, job.ErrStaleLease)
	refused(t, first.Settle(t.Context(), old, job.CompletedWith([]byte("late"))), job.ErrStaleLease)
	settle(t, second, renew(t, second, now), job.CompletedWith([]byte("second")))
	if j := get(t, p.Fabric, "a"); output(t, p.Fabric, j) != "second" || j.Attempt != 2 {
		t.Fatalf("%+v", j)
	}
	// What the second settled is not the first one's success.
	refused(t, first.Settle(t.Context(), old, job.CompletedWith([]byte("late"))), job.ErrStaleLease)
}

func TestTwoRunnersOfOneIdShareTheWork(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	p, other := join(t, s), join(t, s)
	for range 20 {
		enqueue(t, p.Fabric, job.Spec{Stage: "hash", InputRef: "data:,x"})
	}
	first, second := runner(t, p.Fabric, "same"), runner(t, other.Fabric, "same")
	held := claimAll(t, first, "hash", 10)
	for id, c := range claimAll(t, second, "hash", 10) {
		if _, twice := held[id]; twice {
			t.Errorf("%s is held twice", id)
		}
		settle(t, second, c, job.CompletedWith(nil))
	}
	for _, c := range held {
		settle(t, first, c, job.CompletedWith(nil))
	}
	nothingLeft(t, p.nc, "hash")
}

func TestCancelOfAJobWhoseWorkerIsDeadIsAtOnce(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	dead, p := join(t, s), join(t, s) // with leases of half a minute
	enqueue(t, dead.Fabric, job.Spec{ID: "a", Stage: "hash", InputRef: "data:,x"})
	claimNext(t, runner(t, dead.Fabric, "dead"), "hash", "a")
	dead.die()
	began := time.Now()
	j, err := p.Cancel(t.Context(), "a", "no need")
	if err != nil || j.State != job.StateCancelled || j.Reason != "no need" {
		t.Fatalf("%+v, %v", j, err)
	}
	nothingLeft(t, p.nc, "hash")
	if took := time.Since(began); took > 5*time.Second {
		t.Fatalf("took %s", took)
	}
	if c, err := workQueue(t, p.nc, "hash").Consumer(t.Context(), "runners"); err != nil || pending(c) != 0 {
		t.Fatalf("an item is still held: %v", err)
	}
}

func pending(c jetstream.Consumer) int { return c.CachedInfo().NumAckPending }

package fabric_test

// These tests prove that a lease holds as long as it is renewed, ends exactly
// when it says, and can be renewed late as long as nobody took the job over.

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/weft-fabric/weft/fabric"
	"github.com/weft-fabric/weft/internal/natstest"
	"github.com/weft-fabric/weft/job"
)

// renewing renews a claim every third of its lease until the returned function
// is called, which gives the last one.
func renewing(t *testing.T, r *fabric.Runner, c job.Claim) (stop func() job.Claim) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		tick := time.NewTicker(c.Lease / 3)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			next, err := r.Renew(context.WithoutCancel(ctx), c, nil)
			if err != nil {
				t.Errorf("renew %s: %v", c.Job.ID, err)
				return
			}
			c = next
		}
	})
	return func() job.Claim {
		cancel()
		running.Wait()
		return c
	}
}

func TestRenewedLeaseIsNeverTakenOver(t *testing.T) {
	t.Parallel()
	const span = 1500 * time.Millisecond
	s := natstest.Start(t)
	p, other := join(t, s, lease(span)), join(t, s, lease(span))
	keep(t, other.Fabric)
	r := runner(t, p.Fabric, "mine")
	enqueue(t, p.Fabric, job.Spec{ID: "a", Stage: "hash", InputRef: "data:,x"})
	stop := renewing(t, r, claimNext(t, r, "hash", "a"))
	claimsNone(t, p.Fabric, runner(t, other.Fabric, "yours"), "hash", "a", 5*span)
	settle(t, r, stop(), job.CompletedWith(nil))
	if j := get(t, p.Fabric, "a"); j.State != job.StateSucceeded || j.Attempt != 1 || j.Fence != 1 || len(j.AttemptsLog) != 1 {
		t.Fatalf("%+v", j)
	}
	nothingLeft(t, p.nc, "hash")
}

func TestLeaseThatRanOutGoesOnIfNobodyTookTheJob(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	p, other := join(t, s, lease(time.Second)), join(t, s, lease(time.Second))
	r := runner(t, p.Fabric, "mine")
	enqueue(t, p.Fabric, job.Spec{ID: "a", Stage: "hash", InputRef: "data:,x"})
	c := claimNext(t, r, "hash", "a")
	awaitExpiry(t, p.Fabric, c)
	renewed := renew(t, r, c)
	if renewed.Token.Fence != c.Token.Fence || !renewed.Token.ExpiresAt.After(c.Token.ExpiresAt) {
		t.Fatalf("%+v after %+v", renewed.Token, c.Token)
	}
	stop := renewing(t, r, renewed)
	claimsNone(t, p.Fabric, runner(t, other.Fabric, "yours"), "hash", "a", 2*time.Second)
	settle(t, r, stop(), job.CompletedWith(nil))
	nothingLeft(t, p.nc, "hash")
}

func TestOutcomeOfALeaseThatRanOutIsRecordedIfNobodyTookTheJob(t *testing.T) {
	t.Parallel()
	for name, outcome := range map[string]job.Outcome{
		"completed": job.CompletedWith(nil), "failed": job.FailedAfter("no luck", time.Hour), "discarded": job.Discarded("no use"),
		"returned": job.Snoozed("not yet", time.Hour), "released": job.Released(),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := join(t, natstest.Start(t), lease(time.Second))
			r := runner(t, p.Fabric, "")
			enqueue(t, p.Fabric, job.Spec{ID: "a", Stage: "hash", InputRef: "data:,x"})
			c := claimNext(t, r, "hash", "a")
			awaitExpiry(t, p.Fabric, c)
			settle(t, r, c, outcome)
			if j := get(t, p.Fabric, "a"); j.State == job.StateLeased || j.Fence != 1 {
				t.Fatalf("%+v", j)
			}
		})
	}
}

func TestRenewalAfterATakeoverIsRefused(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	p, other := join(t, s, lease(time.Second)), join(t, s, lease(time.Second))
	mine, yours := runner(t, p.Fabric, "mine"), runner(t, other.Fabric, "yours")
	enqueue(t, p.Fabric, job.Spec{ID: "a", Stage: "hash", InputRef: "data:,x"})
	c := claimNext(t, mine, "hash", "a")
	now := claimNext(t, yours, "hash", "a")
	if now.Job.Attempt != 2 || now.Token.Fence != 2 {
		t.Fatalf("took over %+v", now.Job)
	}
	for range 2 { // the second time without asking the bucket what it holds
		got, err := mine.Renew(t.Context(), c, []byte(`{"from":"the old one"}`))
		refused(t, err, job.ErrStaleLease)
		if got.Job.WorkerID != "yours" || got.Job.State != job.StateLeased {
			t.Fatalf("the refusal shows %+v", got.Job)
		}
	}
	if j := get(t, p.Fabric, "a"); j.Progress != nil || j.WorkerID != "yours" {
		t.Fatalf("%+v", j)
	}
	settle(t, yours, renew(t, yours, now), job.CompletedWith(nil))
}

func TestOnlyTheJobThatIsNotRenewedIsTakenOver(t *testing.T) {
	t.Parallel()
	const span = 1500 * time.Millisecond
	s := natstest.Start(t)
	p, other := join(t, s, lease(span)), join(t, s, lease(span))
	r := runner(t, p.Fabric, "mine")
	for range 5 {
		enqueue(t, p.Fabric, job.Spec{Stage: "hash", InputRef: "data:,x"})
	}
	held := claimAll(t, r, "hash", 5)
	var silent job.Claim
	var stops []func() job.Claim
	for _, c := range held {
		if silent.Job.ID == "" {
			silent = c
			continue
		}
		stops = append(stops, renewing(t, r, c))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*span)
	defer cancel()
	taken, yours := map[string]int{}, runner(t, other.Fabric, "yours")
	for ctx.Err() == nil {
		claims, err := yours.Claim(ctx, "hash", 5)
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		for _, c := range claims {
			taken[c.Job.ID]++
		}
	}
	if len(taken) != 1 || taken[silent.Job.ID] == 0 {
		t.Fatalf("taken over: %v; silent: %s", taken, silent.Job.ID)
	}
	for _, stop := range stops {
		settle(t, r, stop(), job.CompletedWith(nil))
	}
}

// frozen is a clock that stands still until it is moved.
type frozen struct {
	mu sync.Mutex
	at time.Time
}

func (f *frozen) now() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.at
}

func (f *frozen) move(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.at = f.at.Add(d)
}

func (f *frozen) clock(o *fabric.Options) { o.Clock = f.now }

func TestLeaseEndsExactlyWhenItSays(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	mineClock, yoursClock := &frozen{at: time.Now()}, &frozen{at: time.Now()}
	p, other := join(t, s, mineClock.clock), join(t, s, yoursClock.clock)
	mine, yours := runner(t, p.Fabric, "mine"), runner(t, other.Fabric, "yours")
	enqueue(t, p.Fabric, job.Spec{ID: "a", Stage: "hash", InputRef: "data:,x"})
	mineClock.move(time.Second) // whenever the clocks were measured, the job is due
	yoursClock.move(time.Second)
	c := claimNext(t, mine, "hash", "a")
	limit := c.Token.ExpiresAt

	yoursClock.move(limit.Sub(other.Now()) - time.Millisecond)
	offerAgain(t, other, "a")
	healthy := enqueue(t, other.Fabric, job.Spec{Stage: "hash", InputRef: "data:,y"})
	settle(t, yours, claimNext(t, yours, "hash", healthy.ID), job.CompletedWith(nil))
	if j := get(t, p.Fabric, "a"); j.Fence != 1 {
		t.Fatalf("taken over a millisecond before the end: %+v", j)
	}

	yoursClock.move(time.Millisecond)
	if !other.Now().Equal(limit) {
		t.Fatalf("it is %s, not %s", other.Now(), limit)
	}
	offerAgain(t, other, "a")
	if now := claimNext(t, yours, "hash", "a"); now.Token.Fence != 2 || !now.Token.ExpiresAt.Equal(limit.Add(now.Lease)) {
		t.Fatalf("took over %+v", now.Token)
	}
}

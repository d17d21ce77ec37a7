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
	s := natstest.Start(t)
	p, other := join(t, s, lease(short)), join(t, s, lease(short))
	keep(t, other.Fabric)
	r := runner(t, p.Fabric, "mine")
	enqueue(t, p.Fabric, job.Spec{ID: "a", Stage: "hash", InputRef: "data:,x"})
	stop := renewing(t, r, claimNext(t, r, "hash", "a"))
	claimsNone(t, p.Fabric, runner(t, other.Fabric, "yours"), "hash", "a", 5*short)
	settle(t, r, stop(), job.CompletedWith(nil))
	if j := get(t, p.Fabric, "a"); j.State != job.StateSucceeded || j.Attempt != 1 || j.Fence != 1 || len(j.AttemptsLog) != 1 {
		t.Fatalf("%+v", j)
	}
	nothingLeft(t, p.nc, "hash")
}

func TestLeaseThatRanOutGoesOnIfNobodyTookTheJob(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	p, other := join(t, s, lease(short)), join(t, s, lease(short))
	r := runner(t, p.Fabric, "mine")
	enqueue(t, p.Fabric, job.Spec{ID: "a", Stage: "hash", InputRef: "data:,x"})
	c := claimNext(t, r, "hash", "a")
	awaitExpiry(t, p.Fabric, c)
	renewed := renew(t, r, c)
	if renewed.Token.Fence != c.Token.Fence || !renewed.Token.ExpiresAt.After(c.Token.ExpiresAt) {
		t.Fatalf("%+v after %+v", renewed.Token, c.Token)
	}
	stop := renewing(t, r, renewed)
	claimsNone(t, p.Fabric, runner(t, other.Fabric, "yours"), "hash", "a", 2*short)
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
			p := join(t, natstest.Start(t), lease(short))
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
	p, other := join(t, s, lease(short)), join(t, s, lease(short))
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
	s := natstest.Start(t)
	p, other := join(t, s, lease(short)), join(t, s, lease(short))
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
	ctx, cancel := context.WithTimeout(t.Context(), 3*short)
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
	p, other := join(t, s, lease(time.Second), mineClock.clock), join(t, s, yoursClock.clock)
	mine, yours := runner(t, p.Fabric, "mine"), runner(t, other.Fabric, "yours")
	enqueue(t, p.Fabric, job.Spec{ID: "a", Stage: "hash", InputRef: "data:,x"})
	limit := claimNext(t, mine, "hash", "a").Token.ExpiresAt

	// The item comes back after a second of real time; by the clock of its taker
	// the lease has a millisecond to run.
	yoursClock.move(limit.Sub(other.Now()) - time.Millisecond)
	taken := make(chan job.Claim, 1)
	go func() { taken <- claim(t, yours, "hash") }()
	st := workQueue(t, p.nc, "hash")
	natstest.Eventually(t, patience, "the item is given to the other again and again", func() bool {
		c, err := st.Consumer(t.Context(), "runners")
		return err == nil && c.CachedInfo().Delivered.Consumer > 5
	})
	if j := get(t, p.Fabric, "a"); j.Fence != 1 || len(taken) > 0 {
		t.Fatalf("taken over a millisecond before the end: %+v", j)
	}
	yoursClock.move(time.Millisecond)
	if c := <-taken; !other.Now().Equal(limit) || c.Token.Fence != 2 || !c.Token.ExpiresAt.Equal(limit.Add(c.Lease)) {
		t.Fatalf("at %s, %s: %+v", limit, other.Now(), c.Token)
	}
}

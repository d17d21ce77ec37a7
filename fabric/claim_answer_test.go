package fabric_test

// This test proves that a claim whose answer was lost is recognised, and handed
// out as the one claim it is.

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/weft-fabric/weft/fabric"
	"github.com/weft-fabric/weft/internal/natstest"
	"github.com/weft-fabric/weft/job"
)

// loseAnswersAfterDelivery joins through a proxy and loses the server's answers
// from the moment at which the process has been given an item and has not yet
// claimed its job: a claim looks at the clock in between.
func loseAnswersAfterDelivery(t *testing.T, backend process, proxy *natstest.Proxy, stage string) (process, *atomic.Bool) {
	t.Helper()
	st, muted, nc := workQueue(t, backend.nc, stage), &atomic.Bool{}, proxy.Connect()
	clock := func(o *fabric.Options) {
		o.Clock = func() time.Time {
			c, err := st.Consumer(t.Context(), "runners")
			if err == nil && c.CachedInfo().NumAckPending > 0 && muted.CompareAndSwap(false, true) {
				proxy.Mute()
			}
			return time.Now()
		}
	}
	return process{open(t, nc, clock), nc}, muted
}

func TestClaimWhoseAnswerWasLostIsHandedOutOnce(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	proxy, backend := s.Proxy(), join(t, s)
	enqueue(t, backend.Fabric, job.Spec{ID: "a", Stage: "hash", InputRef: "data:,x"})
	p, muted := loseAnswersAfterDelivery(t, backend, proxy, "hash")
	r := runner(t, p.Fabric, "")
	done := make(chan job.Claim, 1)
	go func() {
		if claims, err := r.Claim(t.Context(), "hash", 1); err == nil {
			done <- claims[0]
		}
	}()
	before := awaitState(t, backend.Fabric, "a", job.StateLeased)
	if !muted.Load() || len(done) > 0 {
		t.Fatal("the answer was not lost")
	}
	proxy.Heal()
	select {
	case c := <-done:
		if !c.Token.ExpiresAt.Equal(before.LeaseExpiresAt) {
			t.Errorf("handed out %+v, the record has %s", c.Token, before.LeaseExpiresAt)
		}
		settle(t, r, renew(t, r, c), job.CompletedWith(nil))
	case <-time.After(2 * patience):
		t.Fatal("not handed out")
	}
	if j := get(t, backend.Fabric, "a"); j.State != job.StateSucceeded || j.Attempt != 1 || j.Fence != 1 {
		t.Fatalf("%+v", j)
	}
	nothingLeft(t, backend.nc, "hash")
}

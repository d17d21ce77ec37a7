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

func TestClaimWhoseAnswerWasLostIsHandedOutOnce(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	proxy := s.Proxy()
	nc := proxy.Connect()
	backend := join(t, s)
	enqueue(t, backend.Fabric, job.Spec{ID: "a", Stage: "hash", InputRef: "data:,x"})
	st := workQueue(t, backend.nc, "hash")
	// A claim looks at the clock after its item has come and before it is written:
	// from there on the server's answers are lost.
	var muted atomic.Bool
	p := process{open(t, nc, func(o *fabric.Options) {
		o.Clock = func() time.Time {
			if c, err := st.Consumer(t.Context(), "runners"); err == nil && c.CachedInfo().NumAckPending > 0 && muted.CompareAndSwap(false, true) {
				proxy.Mute()
			}
			return time.Now()
		}
	}), nc}
	r := runner(t, p.Fabric, "")
	done := make(chan job.Claim, 1)
	go func() {
		claims, err := r.Claim(t.Context(), "hash", 1)
		if err != nil {
			t.Errorf("claim: %v", err)
			return
		}
		done <- claims[0]
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

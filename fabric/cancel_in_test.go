package fabric_test

// This test proves that a job which has moved out of the states that were asked
// for is spared.

import (
	"errors"
	"testing"

	"github.com/weft-fabric/weft/fabric"
	"github.com/weft-fabric/weft/internal/natstest"
	"github.com/weft-fabric/weft/job"
)

func TestCancelInSparesOtherStates(t *testing.T) {
	t.Parallel()
	f := open(t, natstest.Conn(t))
	enqueue(t, f, job.Spec{ID: "a", Stage: "hash", InputRef: "x"})
	r := runner(t, f, "")
	c := claimNext(t, r, "hash", "a")
	if _, err := f.CancelIn(t.Context(), "a", "no", job.StateWaiting, job.StateRetryWaiting); !errors.Is(err, fabric.ErrOtherState) {
		t.Fatalf("%v", err)
	}
	c = renew(t, r, c)
	if j, err := f.CancelIn(t.Context(), "a", "no", job.StateWaiting, job.StateLeased); err != nil || j.State != job.StateCancelled {
		t.Fatalf("%s, %v", j.State, err)
	}
	refused(t, r.Settle(t.Context(), c, job.Completed("data:,done")), job.ErrStaleLease)
	_, err := f.CancelIn(t.Context(), "a", "no", job.StateWaiting)
	refused(t, err, job.ErrTerminalJob)
	_, err = f.CancelIn(t.Context(), "nobody", "no", job.StateWaiting)
	refused(t, err, job.ErrMissingJob)
}

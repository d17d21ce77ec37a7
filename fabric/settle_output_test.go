package fabric_test

// These tests prove that an output of any size is kept and can be read again:
// small ones in the record, large ones as objects.

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/weft-fabric/weft/fabric"
	"github.com/weft-fabric/weft/internal/natstest"
	"github.com/weft-fabric/weft/job"
	"github.com/weft-fabric/weft/worker"
)

func TestOutputsOfAnySizeAreReadableByAnybody(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	p, reader := join(t, s), join(t, s)
	r := runner(t, p.Fabric, "")
	large := bytes.Repeat([]byte("0123456789abcdef"), 3<<20/16) // three messages' worth
	for name, c := range map[string]struct {
		data   []byte
		prefix string
	}{
		"none":    {nil, "data:"},
		"text":    {[]byte("a text, 100% plain"), "data:text/plain"},
		"bytes":   {[]byte{0, 1, 0xff}, "data:application/octet-stream"},
		"longest": {bytes.Repeat([]byte{0xff}, job.MaxInlineOutput), "data:"},
		"longer":  {bytes.Repeat([]byte{0xff}, job.MaxInlineOutput+1), "nats-obj://weft-output/longer/1"},
		"large":   {large, "nats-obj://weft-output/large/1"},
	} {
		enqueue(t, p.Fabric, job.Spec{ID: name, Stage: "hash", InputRef: "data:,x"})
		settle(t, r, claimNext(t, r, "hash", name), job.CompletedWith(c.data))
		j := get(t, reader.Fabric, name)
		if got := output(t, reader.Fabric, j); got != string(c.data) || !strings.HasPrefix(j.OutputRef, c.prefix) {
			t.Errorf("%s: %d bytes of %d at %.60s", name, len(got), len(c.data), j.OutputRef)
		}
	}
	nothingLeft(t, p.nc, "hash")
}

func TestOutputOfALostClaimDoesNotReplaceItsSuccessors(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	p, other := join(t, s, lease(fabric.MinLease)), join(t, s)
	late, holder := runner(t, p.Fabric, "late"), runner(t, other.Fabric, "holder")
	enqueue(t, p.Fabric, job.Spec{ID: "a", Stage: "hash", InputRef: "data:,x"})
	old := claimNext(t, late, "hash", "a")
	now := claimNext(t, holder, "hash", "a")
	settle(t, holder, renew(t, holder, now), job.CompletedWith(bytes.Repeat([]byte("new"), 10<<10)))
	refused(t, late.Settle(t.Context(), old, job.CompletedWith(bytes.Repeat([]byte("old"), 10<<10))), job.ErrStaleLease)
	if got := output(t, p.Fabric, get(t, p.Fabric, "a")); !strings.HasPrefix(got, "new") {
		t.Fatalf("the output is %.20q", got)
	}
}

// brokenOutput gives n bytes and then fails.
func brokenOutput(n int, err error) job.Outcome {
	return job.CompletedFrom(func() (io.ReadCloser, error) {
		if n == 0 {
			return nil, err
		}
		return io.NopCloser(io.MultiReader(bytes.NewReader(make([]byte, n)), iotest.ErrReader(err))), nil
	})
}

func TestOutputThatCannotBeReadIsRefusedAndLeavesTheClaim(t *testing.T) {
	t.Parallel()
	p := join(t, natstest.Start(t))
	r := runner(t, p.Fabric, "")
	broken := errors.New("the disk is gone")
	for _, n := range []int{0, 10, 1 << 20} { // not opened, broken off early, broken off as an object
		j := enqueue(t, p.Fabric, job.Spec{Stage: "hash", InputRef: "data:,x"})
		c := claimNext(t, r, "hash", j.ID)
		err := r.Settle(t.Context(), c, brokenOutput(n, broken))
		refused(t, err, job.ErrInvalidJob)
		if !errors.Is(err, broken) {
			t.Errorf("after %d bytes: %v", n, err)
		}
		settle(t, r, renew(t, r, c), job.FailedAfter("no output", time.Hour))
	}
}

func TestAttemptWhoseOutputCannotBeReadFailsWithTheReason(t *testing.T) {
	t.Parallel()
	p := join(t, natstest.Start(t))
	enqueue(t, p.Fabric, job.Spec{ID: "a", Stage: "hash", InputRef: "data:,x", MaxAttempts: 1})
	work(t, p.Fabric, "hash", 1, func(context.Context, *worker.Task) job.Outcome {
		return brokenOutput(10, errors.New("the disk is gone"))
	})
	if j := awaitState(t, p.Fabric, "a", job.StateFailed); !strings.Contains(j.Reason, "the disk is gone") {
		t.Fatalf("reason %q", j.Reason)
	}
}

func TestOutcomeThatNobodyGaveIsRefused(t *testing.T) {
	t.Parallel()
	p := join(t, natstest.Start(t))
	r := runner(t, p.Fabric, "")
	enqueue(t, p.Fabric, job.Spec{ID: "a", Stage: "hash", InputRef: "data:,x"})
	c := claimNext(t, r, "hash", "a")
	refused(t, r.Settle(t.Context(), c, job.Outcome{}), job.ErrInvalidJob)
	refused(t, r.Settle(t.Context(), c, job.Completed(strings.Repeat("x", job.MaxOutputRefSize+1))), job.ErrInvalidJob)
	settle(t, r, c, job.Completed("s3://elsewhere/1"))
	if _, err := p.Output(t.Context(), get(t, p.Fabric, "a")); !errors.Is(err, fabric.ErrUnopenable) {
		t.Fatal(err)
	}
}

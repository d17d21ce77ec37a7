package fabric_test

// These tests prove that when an operator and a worker decide on a job at once,
// one of them does, and both are told the truth.

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/weft-fabric/weft/fabric"
	"github.com/weft-fabric/weft/internal/natstest"
	"github.com/weft-fabric/weft/job"
)

func TestOfCancelAndOutcomeAtOnceOneWinsAndBothAnswersAreTrue(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	p, operator := join(t, s, quiet), join(t, s, quiet)
	r := runner(t, p.Fabric, "")
	won := map[string]int{}
	for round := range 100 {
		id := fmt.Sprintf("j%d", round)
		enqueue(t, p.Fabric, job.Spec{ID: id, Stage: "hash", InputRef: "data:,x"})
		c := claimNext(t, r, "hash", id)
		var cancelled, completed error
		var deciding sync.WaitGroup
		deciding.Go(func() { _, cancelled = operator.Cancel(t.Context(), id, "no need") })
		deciding.Go(func() { completed = r.Settle(t.Context(), c, job.CompletedWith(nil)) })
		deciding.Wait()
		j := get(t, p.Fabric, id)
		switch {
		case cancelled == nil && errors.Is(completed, job.ErrStaleLease) && j.State == job.StateCancelled && j.Reason == "no need":
			won["cancel"]++
		case completed == nil && errors.Is(cancelled, job.ErrTerminalJob) && j.State == job.StateSucceeded:
			won["complete"]++
		default:
			t.Errorf("cancel says %v, complete says %v, the job is %s", cancelled, completed, j.State)
		}
	}
	t.Logf("winners: %v", won)
	nothingLeft(t, p.nc, "hash")
}

func TestCancelOverridesRenewals(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	p, operator := join(t, s, quiet), join(t, s, quiet)
	r := runner(t, p.Fabric, "")
	for round := range 50 {
		id := fmt.Sprintf("j%d", round)
		enqueue(t, p.Fabric, job.Spec{ID: id, Stage: "hash", InputRef: "data:,x"})
		c := claimNext(t, r, "hash", id)
		told := make(chan error, 1)
		go func() { told <- renewUntilRefused(t.Context(), r, c) }()
		if j, err := operator.Cancel(t.Context(), id, "no need"); err != nil || j.State != job.StateCancelled {
			t.Fatalf("%+v, %v", j, err)
		}
		if err := <-told; err != nil {
			t.Fatal(err)
		}
	}
}

// renewUntilRefused renews much more often than any worker does. It returns nil
// when a renewal was refused because the job is cancelled.
func renewUntilRefused(ctx context.Context, r *fabric.Runner, c job.Claim) error {
	beat := time.NewTicker(2 * time.Millisecond)
	defer beat.Stop()
	for {
		next, err := r.Renew(ctx, c, nil)
		if errors.Is(err, job.ErrStaleLease) && next.Job.State == job.StateCancelled {
			return nil
		}
		if err != nil {
			return err
		}
		c = next
		<-beat.C
	}
}

func TestCancelTellsTheHolder(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	p, operator := join(t, s), join(t, s)
	r := runner(t, p.Fabric, "")
	enqueue(t, p.Fabric, job.Spec{ID: "a", Stage: "hash", InputRef: "data:,x"})
	c := claimNext(t, r, "hash", "a")
	if _, err := operator.Cancel(t.Context(), "a", "no need"); err != nil {
		t.Fatal(err)
	}
	checkCancelled(t, r, c, "no need")
	_, err := operator.Cancel(t.Context(), "a", "once more")
	refused(t, err, job.ErrTerminalJob)
	_, err = operator.Cancel(t.Context(), "nobody", "x")
	refused(t, err, job.ErrMissingJob)
}

func TestCancelOfABareItemMakesItsRecord(t *testing.T) {
	t.Parallel()
	p := join(t, natstest.Start(t))
	if _, err := p.Stage(t.Context(), "hash"); err != nil {
		t.Fatal(err)
	}
	publish(t, p.nc, "weft.work.hash.bare", `{"input_ref":"data:,x"}`, 0)
	j, err := p.Cancel(t.Context(), "bare", "no need")
	if err != nil || j.State != job.StateCancelled {
		t.Fatalf("%+v, %v", j, err)
	}
	nothingLeft(t, p.nc, "hash")
	if j := get(t, p.Fabric, "bare"); j.InputRef != "data:,x" || j.Reason != "no need" {
		t.Fatalf("%+v", j)
	}
}

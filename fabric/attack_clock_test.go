package fabric_test

// These tests prove that clocks which are set take no lease from its holder: not
// the server's, which is another server's after a change of leader, and not that
// of the process in which the keeper runs.

import (
	"testing"
	"time"

	"github.com/weft-fabric/weft/fabric"
	"github.com/weft-fabric/weft/internal/natstest"
	"github.com/weft-fabric/weft/job"
)

// holdOn renews a claim like a worker for some leases, and checks that it stays.
func holdOn(t *testing.T, f *fabric.Fabric, r *fabric.Runner, c job.Claim, leases int) {
	t.Helper()
	until := time.Now().Add(time.Duration(leases) * c.Lease)
	renewAt := time.Now()
	natstest.Eventually(t, patience, "the lease is held", func() bool {
		if now := time.Now(); now.After(renewAt) {
			renewAt = now.Add(c.Lease / 3)
			c = renew(t, r, c)
		}
		return time.Now().After(until)
	})
	settle(t, r, c, job.Completed("data:,done"))
	if j := get(t, f, c.Job.ID); j.Fence != 1 || len(j.AttemptsLog) != 1 {
		t.Errorf("the lease was taken: fence %d, %+v", j.Fence, j.AttemptsLog)
	}
}

func later(d time.Duration) func(time.Time) time.Time {
	return func(at time.Time) time.Time { return at.Add(d) }
}

// The keeper has measured the new time, the worker has not.
func TestServersClockThatIsAheadAfterALeaderChangeTakesNoLease(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	f := open(t, srv.Connect(), lease(3*time.Second))
	keeper := open(t, srv.Connect())
	lead(t, keeper)
	enqueue(t, f, job.Spec{Stage: "work", InputRef: "data:,x"})
	r := runner(t, f, "")
	c := claim(t, r, "work")
	fabric.SetServerClock(keeper, later(2*time.Minute))
	if err := fabric.MeasureClock(t.Context(), keeper); err != nil {
		t.Fatal(err)
	}
	holdOn(t, f, r, c, 2)
}

// Nobody has measured yet: the keeper must not end a lease by a time that it has
// not looked at since.
func TestKeepersOwnClockThatIsSetTakesNoLease(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	f := open(t, srv.Connect(), lease(3*time.Second))
	var clock age
	lead(t, open(t, srv.Connect(), clock.clock))
	enqueue(t, f, job.Spec{Stage: "work", InputRef: "data:,x"})
	r := runner(t, f, "")
	c := claim(t, r, "work")
	clock.add(2 * time.Minute)
	holdOn(t, f, r, c, 2)
}

// The keeper's clock is ahead for a moment, so that a lease seems over that is
// not. Its holder is dead, and nobody else works: the keeper comes back to it.
func TestLeaseThatSeemedOverEndsInTheEnd(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	f := open(t, srv.Connect(), lease(2*time.Second))
	var clock age
	lead(t, open(t, srv.Connect(), clock.clock))
	enqueue(t, f, job.Spec{ID: "held", Stage: "work", InputRef: "data:,x"})
	claim(t, runner(t, f, ""), "work")
	clock.add(900 * time.Millisecond) // less than counts as a step
	j := awaitState(t, f, "held", job.StateRetryWaiting)
	if early := j.AttemptsLog[0].Started.Add(2 * time.Second).Sub(j.UpdatedAt); early > 0 {
		t.Errorf("the lease ended %s early", early)
	}
}

// A second item of the job reaches a worker whose clock is ahead.
func TestTakerWhoseClockHasSteppedTakesNoLease(t *testing.T) {
	t.Parallel()
	for name, step := range map[string]func(t *testing.T, ahead *fabric.Fabric, own *age){
		"the_servers": func(t *testing.T, ahead *fabric.Fabric, _ *age) {
			fabric.SetServerClock(ahead, later(2*time.Minute))
			if err := fabric.MeasureClock(t.Context(), ahead); err != nil {
				t.Fatal(err)
			}
		},
		"its_own": func(_ *testing.T, _ *fabric.Fabric, own *age) { own.add(2 * time.Minute) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := natstest.Start(t)
			nc := srv.Connect()
			f := open(t, nc, lease(3*time.Second))
			enqueue(t, f, job.Spec{ID: "held", Stage: "work", InputRef: "data:,x"})
			r := runner(t, f, "")
			c := claim(t, r, "work")
			var own age
			ahead := open(t, srv.Connect(), own.clock)
			step(t, ahead, &own)
			var ran handled
			work(t, ahead, "work", 1, counted(&ran))
			publish(t, nc, "weft.work.work.held", `{"input_ref":"data:,x"}`, 0)
			holdOn(t, f, r, c, 2)
			if ran.of("held") != 0 {
				t.Error("the job was run by another worker too")
			}
		})
	}
}

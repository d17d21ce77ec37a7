package fabric_test

// These tests prove that of the jobs of one key the one of the greatest order
// stays, whoever dies half-way and whatever happens at the same time, and that
// what it superseded does not start and does not count.

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/weft-fabric/weft/fabric"
	"github.com/weft-fabric/weft/internal/natstest"
	"github.com/weft-fabric/weft/job"
)

// orders are those in which three enqueues can go on after all their records are
// there.
var orders = [][3]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}}

// rivals is one key for which three jobs were enqueued.
type rivals struct {
	key  string
	jobs [3]job.Job
}

// ahead is the job that must win: of the greatest order, of the greatest id among
// equals.
func (r rivals) ahead() job.Job {
	best := r.jobs[0]
	for _, j := range r.jobs[1:] {
		if j.KeyOrder > best.KeyOrder || j.KeyOrder == best.KeyOrder && j.ID > best.ID {
			best = j
		}
	}
	return best
}

// contend enqueues three jobs of one key, which die after the given steps.
func contend(t *testing.T, f *fabric.Fabric, order [3]int, last [3]int) rivals {
	t.Helper()
	r := rivals{key: fmt.Sprint("key ", order, last)}
	var specs [3]job.Spec
	for i := range specs {
		specs[i] = job.Spec{ID: fmt.Sprintf("j%d_%d%d%d_%d%d%d", i, order[0], order[1], order[2], last[0], last[1], last[2]), Stage: "keyed", InputRef: "data:,x", Key: r.key}
		j, err := fabric.EnqueueUpTo(t.Context(), f, specs[i], fabric.StepRecord)
		if err != nil {
			t.Error(err)
		}
		r.jobs[i] = j
	}
	for _, i := range order {
		if last[i] > fabric.StepRecord {
			if _, err := fabric.EnqueueUpTo(t.Context(), f, specs[i], last[i]); err != nil {
				t.Error(err)
			}
		}
	}
	return r
}

func TestOfThreeEnqueuesThatDieTheGreatestOrderStays(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t)
	f := open(t, server.Connect(), quiet)
	all := make([]rivals, len(orders)*4*4*4)
	var contending sync.WaitGroup
	for i, order := range orders {
		contending.Go(func() {
			for steps := range 4 * 4 * 4 {
				all[64*i+steps] = contend(t, f, order, [3]int{1 + steps%4, 1 + steps/4%4, 1 + steps/16})
			}
		})
	}
	contending.Wait()
	lead(t, open(t, server.Connect(), quiet))
	items := workQueue(t, server.Connect(), "keyed")
	natstest.Eventually(t, 3*patience, "each key has one live job, with an item", seldom(200*time.Millisecond, func() bool {
		return offeredJobs(t, f, items) == len(all)
	}))
	var ran handled
	work(t, f, "keyed", 8, counted(&ran))
	for _, r := range all {
		best := r.ahead()
		awaitAll(t, f, patience, best.ID)
		for _, j := range r.jobs {
			if now := get(t, f, j.ID); j.ID != best.ID && (now.State != job.StateCancelled || now.Fence != 0) {
				t.Errorf("%s: %s is %s, fence %d, though %s is ahead", r.key, j.ID, now.State, now.Fence, best.ID)
			}
		}
		if n := ran.of(best.ID); n != 1 {
			t.Errorf("%s ran %d times", best.ID, n)
		}
	}
}

// offeredJobs counts the live jobs of a stage, if each has an item. Items of jobs
// that have ended may be left; their takers remove them.
func offeredJobs(t *testing.T, f *fabric.Fabric, st jetstream.Stream) (n int) {
	t.Helper()
	items := subjectsOf(t, st, "weft.work.>")
	for j, err := range f.List(t.Context(), fabric.Filter{Stage: "keyed", States: []job.State{job.StateWaiting}}) {
		if err != nil {
			t.Fatal(err)
		}
		if items["weft.work.keyed."+j.ID] == 0 {
			return 0
		}
		n++
	}
	return n
}

// A running job is told although whoever superseded it died before it could, and
// although the newer one runs already.
func TestRunningJobIsToldThoughItsSuccessorsEnqueueDied(t *testing.T) {
	t.Parallel()
	f := open(t, natstest.Conn(t))
	lead(t, f)
	r := runner(t, f, "")
	enqueue(t, f, job.Spec{ID: "old", Stage: "keyed", InputRef: "data:,x", Key: "k"})
	old := claimNext(t, r, "keyed", "old")
	spec := job.Spec{ID: "new", Stage: "keyed", InputRef: "data:,x", Key: "k"}
	if _, err := fabric.EnqueueUpTo(t.Context(), f, spec, fabric.StepPointer); err != nil {
		t.Fatal(err)
	}
	enqueueItem(t, f, "new")
	claimNext(t, r, "keyed", "new")
	awaitNudge(t, old)
	if _, err := r.Renew(t.Context(), old, nil); !errors.Is(err, job.ErrStaleLease) {
		t.Fatalf("renewed a superseded job: %v", err)
	}
	if j := get(t, f, "old"); j.State != job.StateCancelled || j.Reason != "superseded by new" {
		t.Errorf("%s, %q", j.State, j.Reason)
	}
}

// enqueueItem offers a job by an enqueue that is repeated.
func enqueueItem(t *testing.T, f *fabric.Fabric, id string) {
	t.Helper()
	if err := fabric.OfferFirst(t.Context(), f, id); err != nil {
		t.Fatal(err)
	}
}

// A newer job of the key is enqueued while the older is claimed, renewed and
// completed. Whatever comes first, what the two are told agrees with the records.
func TestSupersedingRacesClaimRenewalAndCompletion(t *testing.T) {
	t.Parallel()
	const rounds = 60
	server := natstest.Start(t)
	f := open(t, server.Connect(), quiet)
	front := open(t, server.Connect(), quiet)
	r := runner(t, f, "")
	completed, dropped := 0, 0
	for i := range rounds {
		key := fmt.Sprintf("key%d", i)
		older, newer := fmt.Sprintf("older%d", i), fmt.Sprintf("newer%d", i)
		enqueue(t, front, job.Spec{ID: older, Stage: "keyed", InputRef: "data:,x", Key: key})
		var racing sync.WaitGroup
		racing.Go(func() {
			if _, err := front.Enqueue(t.Context(), job.Spec{ID: newer, Stage: "keyed", InputRef: "data:,x", Key: key}); err != nil {
				t.Error(err)
			}
		})
		c := claim(t, r, "keyed")
		c, renewed := r.Renew(t.Context(), c, nil)
		settled := r.Settle(t.Context(), c, job.Completed("data:,done"))
		racing.Wait()
		if c.Job.ID == newer { // the older one was superseded before it was claimed
			if settled != nil {
				t.Errorf("%s: %v", newer, settled)
			}
			checkSuperseded(t, f, older, newer)
			dropped++
			continue
		}
		switch state := get(t, f, older).State; {
		case settled == nil && state == job.StateSucceeded:
			completed++
		case errors.Is(settled, job.ErrStaleLease) && state == job.StateCancelled:
			checkSuperseded(t, f, older, newer)
			dropped++
		default:
			t.Errorf("%s is %s; it was renewed: %v, settled: %v", older, state, renewed, settled)
		}
		if got := finish(t, r, "keyed"); got.ID != newer {
			t.Fatalf("claimed %s after %s", got.ID, newer)
		}
	}
	t.Logf("%d completed before they were superseded, %d did not", completed, dropped)
}

func checkSuperseded(t *testing.T, f *fabric.Fabric, older, newer string) {
	t.Helper()
	if j := get(t, f, older); j.State != job.StateCancelled || j.Reason != "superseded by "+newer {
		t.Errorf("%s is %s, %q", older, j.State, j.Reason)
	}
}

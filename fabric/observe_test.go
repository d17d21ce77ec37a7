package fabric_test

// These tests prove that an observer is told of what happens, once, by the process
// that does it.

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/weft-fabric/weft/fabric"
	"github.com/weft-fabric/weft/internal/natstest"
	"github.com/weft-fabric/weft/job"
)

// told is an observer that keeps what it is told.
type told struct {
	mu     sync.Mutex
	events []string
	waits  []time.Duration
}

func (o *told) add(format string, args ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.events = append(o.events, fmt.Sprintf(format, args...))
}

func (o *told) count(event string) (n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, e := range o.events {
		if e == event {
			n++
		}
	}
	return n
}

// want fails unless the events are told so often, and no other of their kind.
func (o *told) want(t *testing.T, want map[string]int) {
	t.Helper()
	for event, n := range want {
		if got := o.count(event); got != n {
			o.mu.Lock()
			all := slices.Clone(o.events)
			o.mu.Unlock()
			t.Errorf("%q was told %d times, want %d; all: %q", event, got, n, all)
		}
	}
}

func (o *told) Claimed(stage string, waited time.Duration) {
	o.add("claimed %s", stage)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.waits = append(o.waits, waited)
}

func (o *told) ClaimRefused(stage string, code job.Code) { o.add("refused %s %s", stage, code) }
func (o *told) Renewed(stage string, err error)          { o.add("renewed %s %t", stage, err == nil) }
func (o *told) Lost(stage string, state job.State)       { o.add("lost %s %s", stage, state) }
func (o *told) JobFinished(stage string, s job.State)    { o.add("finished %s %s", stage, s) }
func (o *told) Unreadable()                              { o.add("unreadable") }
func (o *told) Leads(leads bool)                         { o.add("leads %t", leads) }
func (o *told) Kept(action fabric.KeeperAction)          { o.add("kept %s", action) }

func (o *told) AttemptEnded(stage string, outcome job.AttemptOutcome, took time.Duration) {
	if took < 0 {
		o.add("took %s", took)
	}
	o.add("ended %s %s", stage, outcome)
}

func (o *told) Audited(r fabric.AuditResult) {
	o.add("audited: %d missing, %d unreadable, error %v", r.Missing, r.Unreadable, r.Err)
}

func (o *told) option(opts *fabric.Options) { opts.Observer = o }

func TestObserverOfARunner(t *testing.T) {
	t.Parallel()
	o := &told{}
	s := natstest.Start(t)
	p, other := join(t, s, o.option, impatient, lease(short)), join(t, s)
	r, thief := runner(t, p.Fabric, ""), runner(t, other.Fabric, "")
	for _, id := range []string{"done", "tried", "bad", "cancelled", "slow"} {
		enqueue(t, p.Fabric, job.Spec{ID: id, Stage: "hash", InputRef: "data:,x", MaxAttempts: 2})
		c := claimNext(t, r, "hash", id)
		switch id {
		case "done":
			settle(t, r, renew(t, r, c), job.CompletedWith(nil))
		case "tried":
			settle(t, r, c, job.FailedAfter("no", 0))
			settle(t, r, claimNext(t, r, "hash", id), job.Released())
			settle(t, r, claimNext(t, r, "hash", id), job.CompletedWith(nil))
		case "bad":
			settle(t, r, c, job.Discarded("bad"))
		case "cancelled":
			if _, err := other.Cancel(t.Context(), id, "no"); err != nil {
				t.Fatal(err)
			}
			if _, err := r.Renew(t.Context(), c, nil); err == nil {
				t.Fatal("a cancelled job was renewed")
			}
		case "slow":
			awaitExpiry(t, p.Fabric, c)
			taken := claimNext(t, thief, "hash", id)
			refused(t, r.Settle(t.Context(), c, job.CompletedWith(nil)), job.ErrStaleLease)
			settle(t, thief, taken, job.CompletedWith(nil))
		}
	}
	o.want(t, map[string]int{
		"claimed hash": 7, "renewed hash true": 1, "renewed hash false": 1,
		"ended hash succeeded": 2, "ended hash failed": 2, "ended hash released": 1, "ended hash expired": 0,
		"finished hash succeeded": 2, "finished hash failed": 1, "finished hash cancelled": 0,
		"lost hash cancelled": 1, "lost hash leased": 1,
	})
	for _, waited := range o.waits {
		if waited < 0 || waited > patience {
			t.Errorf("a job waited for %s", waited)
		}
	}
}

func TestObserverIsToldWhenAJobIsTakenOver(t *testing.T) {
	t.Parallel()
	o := &told{}
	s := natstest.Start(t)
	p, dead := join(t, s, o.option, lease(short)), join(t, s, lease(short))
	enqueue(t, p.Fabric, job.Spec{ID: "a", Stage: "hash", InputRef: "data:,x"})
	c := claimNext(t, runner(t, dead.Fabric, ""), "hash", "a")
	dead.die()
	awaitExpiry(t, p.Fabric, c)
	claimNext(t, runner(t, p.Fabric, ""), "hash", "a")
	o.want(t, map[string]int{"claimed hash": 1, "ended hash expired": 1})
}

func TestObserverOfAKeeper(t *testing.T) {
	t.Parallel()
	o := &told{}
	s := natstest.Start(t)
	p, keeper, dead := join(t, s, lease(short)), join(t, s, o.option), join(t, s, lease(short))
	r := runner(t, p.Fabric, "")
	enqueue(t, p.Fabric, job.Spec{ID: "good", Stage: "hash", InputRef: "data:,x"})
	enqueue(t, p.Fabric, job.Spec{ID: "bad", Stage: "hash", InputRef: "data:,x"})
	enqueue(t, p.Fabric, job.Spec{ID: "after-good", Stage: "hash", InputRef: "data:,x", Dependencies: []string{"good"}})
	enqueue(t, p.Fabric, job.Spec{
		ID: "after-bad", Stage: "hash", InputRef: "data:,x",
		Dependencies: []string{"bad"}, OnDependencyFailure: job.CancelOnFailure,
	})
	enqueue(t, p.Fabric, job.Spec{ID: "held", Stage: "held", InputRef: "data:,x", MaxAttempts: 1})
	claimNext(t, runner(t, dead.Fabric, ""), "held", "held")
	dead.die()
	enqueue(t, p.Fabric, job.Spec{ID: "lost", Stage: "lost", InputRef: "data:,x"})
	if err := workQueue(t, p.nc, "lost").Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	putRecord(t, p.nc, "odd", `{"odd":`)
	stop := lead(t, keeper.Fabric)
	for id, c := range claimAll(t, r, "hash", 2) {
		outcome := job.CompletedWith(nil)
		if id == "bad" {
			outcome = job.Discarded("bad")
		}
		settle(t, r, c, outcome)
	}
	awaitState(t, p.Fabric, "after-bad", job.StateCancelled)
	awaitState(t, p.Fabric, "held", job.StateFailed)
	claimNext(t, r, "hash", "after-good")
	claimNext(t, r, "lost", "lost")
	natstest.Eventually(t, patience, "an audit", func() bool { return o.count("audited: 0 missing, 1 unreadable, error <nil>") > 0 })
	stop()
	o.want(t, map[string]int{
		"leads true": 1, "leads false": 1, "unreadable": 1,
		"kept dependent_released": 1, "kept dependent_cancelled": 1, "kept lease_expired": 1, "kept item_offered": 1,
		"ended held expired": 1, "finished held failed": 1, "finished hash cancelled": 1, "claimed hash": 0,
	})
}

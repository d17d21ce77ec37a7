package fabric_test

// These tests prove that an outcome is recorded once, whatever becomes of the
// answers: a lost one is found out, and a server that is down is waited for.

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weft-fabric/weft/internal/natstest"
	"github.com/weft-fabric/weft/job"
	"github.com/weft-fabric/weft/kv"
)

// brief bounds a call that gets no answer.
func brief(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}

// joinThrough joins through a proxy.
func joinThrough(t *testing.T, s *natstest.Server) (process, *natstest.Proxy) {
	t.Helper()
	p := s.Proxy()
	nc := p.Connect()
	return process{open(t, nc), nc}, p
}

func TestOutcomeWhoseAnswerWasLostIsASuccessOnceMore(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		outcome job.Outcome
		state   job.State
		left    string // in the work queue
	}{
		"completed": {job.CompletedWith([]byte("done")), job.StateSucceeded, ""},
		"discarded": {job.Discarded("no use"), job.StateFailed, ""},
		"failed":    {job.FailedAfter("no luck", time.Hour), job.StateRetryWaiting, "weft.later.hash.a"},
		"returned":  {job.Snoozed("not yet", time.Hour), job.StateWaiting, "weft.later.hash.a"},
		"released":  {job.Released(), job.StateWaiting, "weft.work.hash.a"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := natstest.Start(t)
			p, proxy := joinThrough(t, s)
			backend := join(t, s)
			r := runner(t, p.Fabric, "")
			enqueue(t, backend.Fabric, job.Spec{ID: "a", Stage: "hash", InputRef: "data:,x"})
			claimed := claimNext(t, r, "hash", "a")
			proxy.Mute()
			if err := r.Settle(brief(t), claimed, c.outcome); !errors.Is(err, kv.ErrUndecided) {
				t.Fatalf("without an answer: %v", err)
			}
			before := awaitState(t, backend.Fabric, "a", c.state)
			proxy.Heal()
			for range 3 {
				settle(t, r, claimed, c.outcome)
			}
			if after := get(t, backend.Fabric, "a"); len(after.AttemptsLog) != 1 || !after.UpdatedAt.Equal(before.UpdatedAt) || after.OutputRef != before.OutputRef {
				t.Fatalf("%+v became %+v", before, after)
			}
			st := workQueue(t, backend.nc, "hash")
			natstest.Eventually(t, patience, "the work queue agrees", func() bool {
				left := slices.Collect(maps.Keys(subjectsOf(t, st, "weft.>")))
				return strings.Join(left, " ") == c.left
			})
		})
	}
}

func TestOutcomeThatArrivedIsASuccessOnceMoreWithoutLosses(t *testing.T) {
	t.Parallel()
	p := join(t, natstest.Start(t))
	r := runner(t, p.Fabric, "")
	enqueue(t, p.Fabric, job.Spec{ID: "a", Stage: "hash", InputRef: "data:,x"})
	c := claimNext(t, r, "hash", "a")
	settle(t, r, c, job.CompletedWith(nil))
	before := record(t, p.Fabric, "a")
	settle(t, r, c, job.CompletedWith(nil))
	if after := record(t, p.Fabric, "a"); after.Revision != before.Revision {
		t.Fatalf("became %s", after.Raw)
	}
}

// TestAnotherOutcomeThanTheRecordedOneIsRefused: whoever reports it must not
// believe that it counts.
func TestAnotherOutcomeThanTheRecordedOneIsRefused(t *testing.T) {
	t.Parallel()
	p := join(t, natstest.Start(t))
	r := runner(t, p.Fabric, "")
	outcomes := map[string]job.Outcome{
		"completed": job.Completed("data:,a"), "elsewhere": job.Completed("data:,b"), "failed": job.FailedAfter("no luck", time.Hour),
		"returned": job.Snoozed("not yet", time.Hour),
	}
	for name, first := range outcomes {
		enqueue(t, p.Fabric, job.Spec{ID: name, Stage: "hash", InputRef: "data:,x"})
		c := claimNext(t, r, "hash", name)
		settle(t, r, c, first)
		for other, second := range outcomes {
			// A failure may be what became of a return that came once too often.
			if name == other || name == "failed" && other == "returned" {
				settle(t, r, c, second)
				continue
			}
			refused(t, r.Settle(t.Context(), c, second), job.ErrStaleLease)
		}
	}
}

func TestRenewalWhoseAnswerWasLostDoesNotLoseTheOutcome(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	p, proxy := joinThrough(t, s)
	backend := join(t, s)
	r := runner(t, p.Fabric, "")
	enqueue(t, backend.Fabric, job.Spec{ID: "a", Stage: "hash", InputRef: "data:,x"})
	c := claimNext(t, r, "hash", "a")
	proxy.Mute()
	if _, err := r.Renew(brief(t), c, []byte(`{"half":true}`)); !errors.Is(err, kv.ErrUndecided) {
		t.Fatalf("without an answer: %v", err)
	}
	natstest.Eventually(t, patience, "the renewal arrives", func() bool { return get(t, backend.Fabric, "a").Progress != nil })
	proxy.Heal()
	settle(t, r, c, job.CompletedWith([]byte("done")))
	if j := get(t, backend.Fabric, "a"); output(t, backend.Fabric, j) != "done" || j.Fence != 1 {
		t.Fatalf("%+v", j)
	}
	nothingLeft(t, backend.nc, "hash")
}

func TestOutcomeWaitsForAServerThatIsDown(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	p := join(t, s)
	r := runner(t, p.Fabric, "")
	for _, id := range []string{"waits", "gives-up"} {
		enqueue(t, p.Fabric, job.Spec{ID: id, Stage: "hash", InputRef: "data:,x"})
	}
	held := claimAll(t, r, "hash", 2)
	s.Stop()
	if err := r.Settle(brief(t), held["gives-up"], job.CompletedWith(nil)); !errors.Is(err, kv.ErrUndecided) {
		t.Fatalf("with the server down: %v", err)
	}
	settled := make(chan error, 1)
	go func() { settled <- r.Settle(t.Context(), held["waits"], job.CompletedWith(nil)) }()
	s.Restart()
	select {
	case err := <-settled:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(patience):
		t.Fatal("not settled after the restart")
	}
	settle(t, r, held["gives-up"], job.CompletedWith(nil))
	for id := range held {
		if j := get(t, p.Fabric, id); j.State != job.StateSucceeded || j.Fence != 1 || len(j.AttemptsLog) != 1 {
			t.Errorf("%+v", j)
		}
	}
	nothingLeft(t, p.nc, "hash")
}

// TestJobWhoseOutcomeWasGivenUpRunsAgainAtTheSameWorker leaves a claim that nobody
// will renew or settle any more in a process that lives on and is the only one.
func TestJobWhoseOutcomeWasGivenUpRunsAgainAtTheSameWorker(t *testing.T) {
	t.Parallel()
	for name, kept := range map[string]bool{"with a keeper": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := natstest.Start(t)
			p := join(t, s, lease(short))
			if kept {
				keep(t, p.Fabric)
			}
			r := runner(t, p.Fabric, "")
			enqueue(t, p.Fabric, job.Spec{ID: "a", Stage: "hash", InputRef: "data:,x"})
			claimed := claimNext(t, r, "hash", "a")
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if err := r.Settle(ctx, claimed, job.CompletedWith([]byte("given up"))); err == nil {
				t.Fatal("settled without time to")
			}
			c := claimNext(t, r, "hash", "a")
			if c.Job.Attempt != 2 || c.Job.Fence != 2 {
				t.Fatalf("%+v", c.Job)
			}
			refused(t, r.Settle(t.Context(), claimed, job.CompletedWith([]byte("late"))), job.ErrStaleLease)
			settle(t, r, renew(t, r, c), job.CompletedWith([]byte("done")))
			if j := get(t, p.Fabric, "a"); output(t, p.Fabric, j) != "done" {
				t.Fatalf("%+v", j)
			}
			nothingLeft(t, p.nc, "hash")
		})
	}
}

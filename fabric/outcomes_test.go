package fabric_test

// These tests prove that a feed gives each outcome at least once, whatever happens
// to the backend, to the server or to the feed's consumer meanwhile.

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weft-fabric/weft/fabric"
	"github.com/weft-fabric/weft/internal/natstest"
	"github.com/weft-fabric/weft/job"
	"github.com/weft-fabric/weft/worker"
)

// verdict is how a job of the long test ends, by its number.
func verdict(id string) (job.Outcome, job.State) {
	if strings.HasSuffix(id, "7") {
		return job.Discarded("no good"), job.StateFailed
	}
	return job.Completed("data:,done"), job.StateSucceeded
}

// A backend that was down while 10,000 jobs finished receives each outcome at least
// once after its return: those that it had in hand when it died, those of before the
// server was restarted, and those of after.
func TestBackendThatWasDownReceivesEachOutcome(t *testing.T) {
	t.Parallel()
	const before = 300
	all := 10_000
	if raceEnabled { // it makes each job ten times as dear
		all = 2000
	}
	s := natstest.Start(t)
	p := join(t, s, terse(t))
	keep(t, p.Fabric)
	var ran atomic.Int64
	work(t, p.Fabric, "hash", 128, func(_ context.Context, task *worker.Task) job.Outcome {
		ran.Add(1)
		o, _ := verdict(task.Job().ID)
		return o
	})

	first, inHand := dyingBackend(t, s)
	enqueueNumbered(t, p.Fabric, 0, before)
	died := first()

	enqueueNumbered(t, p.Fabric, before, all)
	natstest.Eventually(t, patience, "half of the jobs ran", func() bool { return ran.Load() > int64(all)/2 })
	s.Restart()
	natstest.Eventually(t, 2*patience, "all jobs ran", func() bool { return ran.Load() >= int64(all) })

	db := newDatabase()
	back := join(t, s, terse(t))
	land(t, back.Fabric, "billing", db.land, quick, fabric.OutcomeHandlers(8))
	natstest.Eventually(t, 2*patience, "each outcome is landed", func() bool { return db.jobs()+died.jobs() >= all && landedAll(db, died, all) })
	for i := range all {
		id := numbered(i)
		if _, want := verdict(id); db.state(id) != want && died.state(id) != want {
			t.Errorf("%s is landed as %q and %q, want %s", id, db.state(id), died.state(id), want)
		}
	}
	for _, id := range inHand() {
		if db.state(id) == "" {
			t.Errorf("%s was in the hands of the backend that died, and did not come again", id)
		}
	}
}

func numbered(i int) string { return fmt.Sprintf("job-%05d", i) }

// landedAll looks for the jobs one by one, as a job may be landed in both.
func landedAll(db, died *database, all int) bool {
	for i := range all {
		if id := numbered(i); db.state(id) == "" && died.state(id) == "" {
			return false
		}
	}
	return true
}

func enqueueNumbered(t *testing.T, f *fabric.Fabric, from, to int) {
	t.Helper()
	specs := func(yield func(job.Spec) bool) {
		for i := from; i < to && yield(job.Spec{ID: numbered(i), Stage: "hash", InputRef: "data:,x"}); i++ {
		}
	}
	err := f.EnqueueMany(t.Context(), specs, func(e fabric.Enqueued) error { return e.Err })
	if err != nil {
		t.Fatal(err)
	}
}

// dyingBackend lands some outcomes and gets stuck in others. die kills it while its
// handlers hold these, and gives what it had landed.
func dyingBackend(t *testing.T, s *natstest.Server) (die func() *database, inHand func() []string) {
	t.Helper()
	const handlers = 4
	b := join(t, s, quiet)
	db, release := newDatabase(), make(chan struct{})
	var mu sync.Mutex
	var stuck []string
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = b.Outcomes(ctx, "billing", func(ctx context.Context, o fabric.Outcome) error {
			if db.jobs() < 100 {
				return db.land(ctx, o)
			}
			mu.Lock()
			stuck = append(stuck, o.Job.ID)
			mu.Unlock()
			<-release
			return nil
		}, quick, fabric.OutcomeHandlers(handlers))
	}()
	inHand = func() []string {
		mu.Lock()
		defer mu.Unlock()
		return append([]string(nil), stuck...)
	}
	return func() *database {
		t.Helper()
		natstest.Eventually(t, patience, "handlers hold outcomes", func() bool { return len(inHand()) == handlers })
		b.die()
		cancel()
		close(release)
		<-done
		return db
	}, inHand
}

// One handler has the outcomes in the order in which the jobs ended; several run at
// once.
func TestHandlersOfOutcomes(t *testing.T) {
	t.Parallel()
	f := open(t, natstest.Conn(t))
	const n = 20
	var want []string
	for i := range n {
		want = append(want, numbered(i))
		end(t, f, numbered(i), "hash")
	}
	one := make(chan string, n)
	land(t, f, "one", func(_ context.Context, o fabric.Outcome) error {
		one <- o.Job.ID
		return nil
	})
	var got []string
	for range n {
		got = append(got, await(t, one, "an outcome"))
	}
	if !slices.Equal(got, want) {
		t.Errorf("landed %v", got)
	}
	together := make(chan struct{}, n)
	land(t, f, "three", func(ctx context.Context, _ fabric.Outcome) error {
		together <- struct{}{}
		<-ctx.Done()
		return ctx.Err()
	}, fabric.OutcomeHandlers(3))
	for range 3 {
		await(t, together, "a handler")
	}
	if feeds, err := f.Feeds(t.Context()); err != nil || feeds[1].Unacked != 3 {
		t.Errorf("three handlers hold %+v, %v", feeds, err)
	}
}

func TestOutcomesOfAFilterAlone(t *testing.T) {
	t.Parallel()
	f := open(t, natstest.Conn(t))
	end(t, f, "a1", "a")
	end(t, f, "b1", "b")
	work(t, f, "a", 1, nil)
	stages, states := newDatabase(), newDatabase()
	land(t, f, "stages", stages.land, fabric.OnlyOutcomes(fabric.Filter{Stage: "a"}))
	land(t, f, "states", states.land, fabric.OnlyOutcomes(fabric.Filter{States: []job.State{job.StateSucceeded}, Labels: map[string]string{"who": "ann"}}))
	enqueue(t, f, job.Spec{ID: "other", Stage: "a", InputRef: "data:,x"})
	enqueue(t, f, job.Spec{ID: "hers", Stage: "a", InputRef: "data:,x", Labels: map[string]string{"who": "ann"}})
	end(t, f, "b2", "b")
	awaitLanded(t, stages, "a1", "other", "hers")
	awaitLanded(t, states, "hers")
	untaken(t, f)
	if stages.jobs() != 3 || states.jobs() != 1 {
		t.Errorf("landed %v and %v", stages.states, states.states)
	}
}

func TestOutcomeComesAgainAfterAnErrorAndAPanic(t *testing.T) {
	t.Parallel()
	f := open(t, natstest.Conn(t), quiet)
	db := newDatabase()
	var tries atomic.Int64
	land(t, f, "billing", func(ctx context.Context, o fabric.Outcome) error {
		switch tries.Add(1) {
		case 1:
			return errors.New("the database is away")
		case 2:
			panic("a mistake")
		}
		if o.Deliveries != 3 {
			t.Errorf("delivery %d is the third", o.Deliveries)
		}
		return db.land(ctx, o)
	})
	end(t, f, "one", "hash")
	awaitLanded(t, db, "one")
	untaken(t, f)
	if n := tries.Load(); n != 3 {
		t.Errorf("%d tries", n)
	}
}

// While its handler runs, an outcome is nobody else's, however long that takes.
func TestOutcomeIsHeldWhileItsHandlerRuns(t *testing.T) {
	t.Parallel()
	f := open(t, natstest.Conn(t))
	release, began := make(chan struct{}), make(chan uint64, 10)
	for range 2 {
		land(t, f, "billing", func(ctx context.Context, o fabric.Outcome) error {
			began <- o.Deliveries
			select {
			case <-release:
			case <-ctx.Done():
			}
			return nil
		}, fabric.OutcomeAckWait(fabric.MinAckWait))
	}
	end(t, f, "long", "hash")
	await(t, began, "the handler runs")
	held := time.Now()
	natstest.Eventually(t, patience, "three times ack-wait pass", func() bool { return time.Since(held) > 3*fabric.MinAckWait })
	close(release)
	untaken(t, f)
	if len(began) != 0 {
		t.Errorf("it was handed out again, delivery %d", <-began)
	}
}

func TestBackendsOfOneNameShareAFeed(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	const n = 20
	one, two := newDatabase(), newDatabase()
	for _, db := range []*database{one, two} {
		b := join(t, s)
		land(t, b.Fabric, "billing", func(ctx context.Context, o fabric.Outcome) error {
			// Neither goes on until both have had one.
			natstest.Eventually(t, patience, "both take", func() bool {
				_ = db.land(ctx, o)
				return ctx.Err() != nil || one.jobs() > 0 && two.jobs() > 0
			})
			return nil
		})
	}
	f := join(t, s)
	for i := range n {
		end(t, f.Fabric, numbered(i), "hash")
	}
	natstest.Eventually(t, patience, "all are landed", func() bool { return one.jobs()+two.jobs() == n })
	untaken(t, f.Fabric)
	for i := range n {
		if id := numbered(i); one.outcomes(id)+two.outcomes(id) != 1 {
			t.Errorf("%s: %d and %d", id, one.outcomes(id), two.outcomes(id))
		}
	}
}

// An operator's retry gives a job a second outcome, which is not the first one again.
func TestRetriedJobHasASecondOutcome(t *testing.T) {
	t.Parallel()
	f := open(t, natstest.Conn(t), attempts(1))
	db := newDatabase()
	land(t, f, "billing", db.land)
	var tries atomic.Int64
	work(t, f, "hash", 1, func(context.Context, *worker.Task) job.Outcome {
		if tries.Add(1) == 1 {
			return job.Failed("no")
		}
		return job.Completed("data:,done")
	})
	enqueue(t, f, job.Spec{ID: "one", Stage: "hash", InputRef: "data:,x"})
	natstest.Eventually(t, patience, "it is landed as failed", func() bool { return db.state("one") == job.StateFailed })
	if _, err := f.Retry(t.Context(), "one", "once more"); err != nil {
		t.Fatal(err)
	}
	natstest.Eventually(t, patience, "it is landed as succeeded", func() bool { return db.state("one") == job.StateSucceeded })
	if n := db.outcomes("one"); n != 2 {
		t.Errorf("%d outcomes", n)
	}
}

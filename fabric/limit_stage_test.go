package fabric_test

// These tests prove that a stage's limit holds for all its workers together,
// whatever happens to them, to the server and to the limit.

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weft-fabric/weft/fabric"
	"github.com/weft-fabric/weft/internal/natstest"
	"github.com/weft-fabric/weft/job"
	"github.com/weft-fabric/weft/worker"
)

// crowd counts how many handlers run at once.
type crowd struct{ now, most, runs atomic.Int64 }

func (c *crowd) enter() (leave func()) {
	n := c.now.Add(1)
	for m := c.most.Load(); n > m && !c.most.CompareAndSwap(m, n); m = c.most.Load() {
	}
	c.runs.Add(1)
	return func() { c.now.Add(-1) }
}

// moment is how long the handlers of a crowd run: long enough to meet.
const moment = 5 * time.Millisecond

// handler is one that is counted while it runs.
func (c *crowd) handler() worker.HandlerFunc {
	return func(ctx context.Context, _ *worker.Task) job.Outcome {
		defer c.enter()()
		select {
		case <-ctx.Done():
		case <-time.After(moment):
		}
		return job.Completed("data:,done")
	}
}

func setStage(t *testing.T, f *fabric.Fabric, stage string, change fabric.StageChange) {
	t.Helper()
	if _, err := f.SetStage(t.Context(), stage, change); err != nil {
		t.Fatal(err)
	}
}

func TestStagesLimitIsNeverExceeded(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	p := join(t, s, lease(short), attempts(100), terse(t))
	keep(t, p.Fabric)
	limit := 3
	ids := enqueueMany(t, p.Fabric, 50, job.Spec{Stage: "hash", InputRef: "data:,x"})
	setStage(t, p.Fabric, "hash", fabric.StageChange{Concurrency: &limit})

	// One that dies has taken a part of the limit, until its lease runs out.
	dead := join(t, s, lease(short), quiet)
	claim(t, runner(t, dead.Fabric, "dead"), "hash")
	dead.die()

	var c crowd
	for range 4 {
		work(t, join(t, s, lease(short), terse(t)).Fabric, "hash", 8, c.handler())
	}
	ids = append(ids, enqueueMany(t, p.Fabric, 50, job.Spec{Stage: "hash", InputRef: "data:,x"})...)
	natstest.Eventually(t, patience, "some have run", func() bool { return c.runs.Load() > 30 })
	s.Restart()
	for _, other := range []int{1, 2, 3} {
		natstest.Eventually(t, patience, "the limit is changed", func() bool {
			_, err := p.SetStage(t.Context(), "hash", fabric.StageChange{Concurrency: &other})
			return err == nil
		})
		ids = append(ids, enqueueMany(t, p.Fabric, 40, job.Spec{Stage: "hash", InputRef: "data:,x"})...)
	}
	awaitAll(t, p.Fabric, 3*patience, ids...)
	if most := c.most.Load(); most > int64(limit) || most < 2 {
		t.Errorf("%d handlers ran at once, where %d may", most, limit)
	}
}

// The server counts what it has handed out of each lane, and forgets an item that
// somebody replaces by hand while its job runs. The limit holds all the same.
func TestStagesLimitHoldsOverLanesAndReplacedItems(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	p := join(t, s, attempts(100), terse(t))
	limit := 3
	var ids []string
	for _, priority := range []int{1, 3, 4} {
		ids = append(ids, enqueueMany(t, p.Fabric, 25, job.Spec{Stage: "hash", InputRef: "data:,x", Priority: priority})...)
	}
	setStage(t, p.Fabric, "hash", fabric.StageChange{Concurrency: &limit})
	var c crowd
	run := c.handler()
	for range 4 {
		work(t, join(t, s, terse(t)).Fabric, "hash", 8, func(ctx context.Context, task *worker.Task) job.Outcome {
			if j := task.Job(); j.Lane() == job.DefaultPriority {
				offerAgain(t, p, j.ID)
			}
			return run(ctx, task)
		})
	}
	awaitAll(t, p.Fabric, 3*patience, ids...)
	if most := c.most.Load(); most > int64(limit) || most < 2 {
		t.Errorf("%d handlers ran at once, where %d may", most, limit)
	}
}

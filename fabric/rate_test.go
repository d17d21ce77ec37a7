package fabric_test

// These tests prove that a stage's rate holds for all its workers together, and
// that nothing is lost or charged by it.

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weft-fabric/weft/fabric"
	"github.com/weft-fabric/weft/internal/natstest"
	"github.com/weft-fabric/weft/job"
)

func TestParseRate(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text  string
		want  fabric.Rate
		shown string
	}{
		{"0", fabric.Rate{}, "0"},
		{"100/s", fabric.Rate{Jobs: 100, Per: time.Second, Burst: 10}, "100/s"},
		{"5/s", fabric.Rate{Jobs: 5, Per: time.Second, Burst: 1}, "5/s"},
		{"6000/m", fabric.Rate{Jobs: 6000, Per: time.Minute, Burst: 10}, "6000/m"},
		{"1/h", fabric.Rate{Jobs: 1, Per: time.Hour, Burst: 1}, "1/h"},
	} {
		if got, err := fabric.ParseRate(c.text); err != nil || got != c.want || got.String() != c.shown {
			t.Errorf("%s: %+v shown as %s, %v", c.text, got, got, err)
		}
	}
	for _, bad := range []string{"", "100", "/s", "0/s", "-1/s", "1.5/s", "10/d", "10/s/s", "10001/s", "10 /s", "99999999999999999999/h"} {
		_, err := fabric.ParseRate(bad)
		refused(t, err, job.ErrInvalidJob)
	}
}

// rated makes a stage with a rate and opens a process for each of n workers, whose
// common clock the test moves.
func rated(t *testing.T, n int, r fabric.Rate) (workers []process, clock *age) {
	t.Helper()
	s := natstest.Start(t)
	clock = &age{}
	for range n {
		workers = append(workers, join(t, s, quiet, clock.clock))
	}
	if _, err := workers[0].Stage(t.Context(), "hash"); err != nil {
		t.Fatal(err)
	}
	setStage(t, workers[0].Fabric, "hash", fabric.StageChange{Rate: &r})
	return workers, clock
}

func TestRateHoldsForAllWorkersTogether(t *testing.T) {
	t.Parallel()
	ps, clock := rated(t, 4, fabric.Rate{Jobs: 3, Per: time.Hour, Burst: 3})
	ids := enqueueMany(t, ps[0].Fabric, 8, job.Spec{Stage: "hash", InputRef: "data:,x"})
	var c crowd
	for _, p := range ps {
		work(t, p.Fabric, "hash", 4, c.handler())
	}
	exactly := func(n int64) {
		t.Helper()
		natstest.Eventually(t, patience, fmt.Sprintf("%d run", n), func() bool { return c.runs.Load() >= n })
		if got := c.runs.Load(); got != n {
			t.Fatalf("%d jobs were begun, where %d may", got, n)
		}
	}
	exactly(3)
	clock.add(20 * time.Minute)
	exactly(4)
	clock.add(40 * time.Minute)
	exactly(6)
	for _, id := range ids {
		if j := get(t, ps[0].Fabric, id); j.Attempt > 1 || j.State == job.StateFailed {
			t.Errorf("%s is %s at attempt %d: waiting has cost something", id, j.State, j.Attempt)
		}
	}
}

// What a dead worker had reserved for what it never began is lost, and no more.
func TestWorkerThatDiesTakesNoMoreOfTheRateThanItsOwnClaims(t *testing.T) {
	t.Parallel()
	ps, _ := rated(t, 2, fabric.Rate{Jobs: 1, Per: time.Hour, Burst: 5})
	ids := enqueueMany(t, ps[0].Fabric, 10, job.Spec{Stage: "hash", InputRef: "data:,x"})
	claimAll(t, runner(t, ps[0].Fabric, ""), "hash", 2)
	ps[0].die()
	r := runner(t, ps[1].Fabric, "")
	claimAll(t, r, "hash", 3)
	waiting := ids[slices.IndexFunc(ids, func(id string) bool { return get(t, ps[1].Fabric, id).Attempt == 0 })]
	if e := explained(t, ps[1].Fabric, waiting); !slices.Contains(codes(e), fabric.CauseRate) || !strings.Contains(fmt.Sprint(e.Findings), "held back by the rate limit of stage hash, 1/h") {
		t.Errorf("%+v", e)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if claims, err := r.Claim(ctx, "hash", 5); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("claimed %d more, %v", len(claims), err)
	}
	begun := 0
	for _, id := range ids {
		if get(t, ps[1].Fabric, id).Attempt > 0 {
			begun++
		}
	}
	if begun != 5 {
		t.Fatalf("%d jobs were begun, where 5 may", begun)
	}
}

func TestRateMayBeLiftedAndCostsNothingThen(t *testing.T) {
	t.Parallel()
	ps, _ := rated(t, 1, fabric.Rate{Jobs: 1, Per: time.Hour, Burst: 1})
	ids := enqueueMany(t, ps[0].Fabric, 20, job.Spec{Stage: "hash", InputRef: "data:,x"})
	var c crowd
	work(t, ps[0].Fabric, "hash", 4, c.handler())
	natstest.Eventually(t, patience, "one runs", func() bool { return c.runs.Load() == 1 })
	setStage(t, ps[0].Fabric, "hash", fabric.StageChange{Rate: &fabric.Rate{}})
	awaitAll(t, ps[0].Fabric, patience, ids...)
}

func TestRateThatNobodyCanMeanIsRefused(t *testing.T) {
	t.Parallel()
	f := open(t, natstest.Conn(t), quiet)
	if _, err := f.Stage(t.Context(), "hash"); err != nil {
		t.Fatal(err)
	}
	for _, r := range []fabric.Rate{
		{Jobs: 1, Per: time.Second}, {Jobs: 1, Per: time.Second, Burst: -1}, {Jobs: 1, Per: time.Second, Burst: 1 << 20},
		{Jobs: 1, Per: 24 * time.Hour, Burst: 1}, {Jobs: 20_000, Per: time.Second, Burst: 1},
	} {
		_, err := f.SetStage(t.Context(), "hash", fabric.StageChange{Rate: &r})
		refused(t, err, job.ErrInvalidJob)
	}
}

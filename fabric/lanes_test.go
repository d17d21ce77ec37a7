package fabric_test

// These tests prove that lanes share workers by weight: none waits for ever, and
// none is served for what it does not have.

import (
	"fmt"
	"testing"

	"github.com/weft-fabric/weft/fabric"
	"github.com/weft-fabric/weft/internal/natstest"
	"github.com/weft-fabric/weft/job"
)

// byLane claims n jobs of a stage, slots at a time, completes them, and counts them
// by lane.
func byLane(t *testing.T, r *fabric.Runner, stage string, slots, n int) map[int]int {
	t.Helper()
	served := map[int]int{}
	for n > 0 {
		for _, c := range claimAll(t, r, stage, min(slots, n)) {
			served[c.Job.Lane()]++
			settle(t, r, c, job.Completed("data:,done"))
			n--
		}
	}
	return served
}

func fillLane(t *testing.T, f *fabric.Fabric, lane, n int) {
	t.Helper()
	enqueueMany(t, f, n, job.Spec{Stage: "hash", InputRef: "data:,x", Priority: lane})
}

func TestWithLaneOneAlwaysFullLaneFourStillMoves(t *testing.T) {
	t.Parallel()
	for _, slots := range []int{1, 8} {
		t.Run(fmt.Sprintf("%d slots", slots), func(t *testing.T) {
			t.Parallel()
			p := join(t, natstest.Start(t), quiet)
			const n = 90 // of which lane 1 has 80 by its weight of 8, and lane 4 has 10
			fillLane(t, p.Fabric, 1, n)
			fillLane(t, p.Fabric, 4, n)
			got := byLane(t, runner(t, p.Fabric, ""), "hash", slots, n)
			if got[1]+got[4] != n || got[4] < 5 || got[4] > 20 {
				t.Fatalf("lanes were served as %v", got)
			}
		})
	}
}

func TestShareOfAnEmptyLaneGoesToTheOthers(t *testing.T) {
	t.Parallel()
	p := join(t, natstest.Start(t), quiet)
	fillLane(t, p.Fabric, 1, 5)
	fillLane(t, p.Fabric, 2, 1)
	fillLane(t, p.Fabric, 3, 10)
	fillLane(t, p.Fabric, 4, 40)
	if got := byLane(t, runner(t, p.Fabric, ""), "hash", 4, 56); got[1] != 5 || got[2] != 1 || got[3] != 10 || got[4] != 40 {
		t.Fatalf("lanes were served as %v", got)
	}
}

// A runner that asks for a single job and stops, as those of the service API do,
// goes on where the last one stopped.
func TestRunnersThatComeAndGoServeAllLanes(t *testing.T) {
	t.Parallel()
	p := join(t, natstest.Start(t), quiet)
	fillLane(t, p.Fabric, 1, 27)
	fillLane(t, p.Fabric, 4, 27)
	served := map[int]int{}
	for range 27 {
		r, err := p.Runner("")
		if err != nil {
			t.Fatal(err)
		}
		c := claim(t, r, "hash")
		served[c.Job.Lane()]++
		settle(t, r, c, job.Completed("data:,done"))
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if served[4] < 2 || served[4] > 6 {
		t.Fatalf("lanes were served as %v", served)
	}
}

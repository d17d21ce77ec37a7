package fabric_test

// These tests prove that a job which was accepted is run once, wherever its
// enqueuer died.

import (
	"testing"

	"github.com/weft-fabric/weft/fabric"
	"github.com/weft-fabric/weft/internal/natstest"
	"github.com/weft-fabric/weft/job"
)

func TestEnqueueThatStoppedHalfWayRunsOnce(t *testing.T) {
	t.Parallel()
	for name, last := range map[string]int{
		"after the record": fabric.StepRecord, "after the pointer": fabric.StepPointer, "after the cancel": fabric.StepCancel,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := natstest.Start(t)
			p := join(t, s)
			before := enqueue(t, p.Fabric, job.Spec{ID: "before", Stage: "hash", InputRef: "data:,1", Key: "k"})
			spec := job.Spec{ID: "half", Stage: "hash", InputRef: "data:,2", Key: "k"}
			if _, err := fabric.EnqueueUpTo(t.Context(), p.Fabric, spec, last); err != nil {
				t.Fatal(err)
			}
			p.die()
			alive := join(t, s)
			var runs handled
			keep(t, alive.Fabric)
			awaitState(t, alive.Fabric, before.ID, job.StateCancelled)
			work(t, alive.Fabric, "hash", 1, counted(&runs))
			awaitAll(t, alive.Fabric, patience, "half")
			nothingLeft(t, alive.nc, "hash")
			if runs.of("half") != 1 || runs.of("before") != 0 {
				t.Fatalf("ran %v", runs.all())
			}
			if j := get(t, alive.Fabric, "half"); j.Attempt != 1 || j.Fence != 1 {
				t.Fatalf("attempt %d, fence %d", j.Attempt, j.Fence)
			}
		})
	}
}

func TestEnqueueThatIsRepeatedMakesGoodWhatIsMissing(t *testing.T) {
	t.Parallel()
	p := join(t, natstest.Start(t))
	spec := job.Spec{ID: "half", Stage: "hash", InputRef: "data:,2", Key: "k"}
	if _, err := fabric.EnqueueUpTo(t.Context(), p.Fabric, spec, fabric.StepRecord); err != nil {
		t.Fatal(err)
	}
	enqueue(t, p.Fabric, spec)
	r := runner(t, p.Fabric, "")
	settle(t, r, claimNext(t, r, "hash", "half"), job.CompletedWith(nil))
	if j := get(t, p.Fabric, "half"); j.State != job.StateSucceeded || j.Fence != 1 {
		t.Fatalf("%+v", j)
	}
}

package fabric

import (
	"testing"
	"time"

	"github.com/weft-fabric/weft/job"
)

// TestNobodyCostsNothing: where neither an observer nor a tracer is wanted, what would
// tell them makes nothing.
func TestNobodyCostsNothing(t *testing.T) {
	f := &Fabric{opts: Options{}.withDefaults()}
	now := time.Now()
	spec := job.Spec{ID: "a", Stage: "s", InputRef: "r", MaxAttempts: 2}
	before, err := job.New(spec, now)
	if err != nil {
		t.Fatal(err)
	}
	claimed, token, err := before.Claim("w", now, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	done, err := claimed.Complete(token, "w", "data:,x", now)
	if err != nil {
		t.Fatal(err)
	}
	made := testing.AllocsPerRun(100, func() {
		end := f.traced(t.Context(), &spec)
		f.observeClaim(&before, &claimed)
		f.observe(&claimed, &done)
		f.opts.Observer.Renewed("s", nil)
		end(done, nil)
	})
	if made != 0 {
		t.Errorf("%v allocations", made)
	}
}

func TestAJobWaitsFromWhenItCouldBeClaimed(t *testing.T) {
	t.Parallel()
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	for name, test := range map[string]struct {
		j    job.Job
		want time.Time
	}{
		"from its enqueue":        {job.Job{Spec: job.Spec{AvailableAt: at(10)}, State: job.StateWaiting, UpdatedAt: at(10)}, at(10)},
		"from its time":           {job.Job{Spec: job.Spec{AvailableAt: at(20)}, State: job.StateRetryWaiting, UpdatedAt: at(10)}, at(20)},
		"from its dependencies":   {job.Job{Spec: job.Spec{AvailableAt: at(10)}, State: job.StateWaiting, UpdatedAt: at(30)}, at(30)},
		"from its worker's lease": {job.Job{State: job.StateLeased, LeaseExpiresAt: at(40), UpdatedAt: at(10)}, at(40)},
	} {
		if got := availableSince(&test.j); !got.Equal(test.want) {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}

package fabric_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/weft-fabric/weft/fabric"
	"github.com/weft-fabric/weft/internal/natstest"
	"github.com/weft-fabric/weft/job"
)

// These tests prove that enqueueing many specs at once means the same as
// enqueueing each, in their order.

func many(t *testing.T, f *fabric.Fabric, specs ...job.Spec) []fabric.Enqueued {
	t.Helper()
	var all []fabric.Enqueued
	err := f.EnqueueMany(t.Context(), slices.Values(specs), func(e fabric.Enqueued) error {
		all = append(all, e)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != len(specs) {
		t.Fatalf("%d results of %d specs", len(all), len(specs))
	}
	return all
}

func TestEnqueueManyGivesEachResultInOrder(t *testing.T) {
	t.Parallel()
	f := open(t, natstest.Conn(t))
	enqueue(t, f, job.Spec{ID: "old", Stage: "s", InputRef: "x"})
	results := many(t, f,
		job.Spec{ID: "a", Stage: "s", InputRef: "x"},
		job.Spec{ID: "old", Stage: "s", InputRef: "other"},
		job.Spec{ID: "old", Stage: "s", InputRef: "x"},
		job.Spec{ID: "b", Stage: "s", InputRef: "x", Dependencies: []string{"a"}},
		job.Spec{Stage: "S!", InputRef: "x"},
		job.Spec{ID: "c", Stage: "s", InputRef: "x", Dependencies: []string{"nobody"}},
		job.Spec{ID: "k1", Stage: "s", InputRef: "x", Key: "k"},
		job.Spec{ID: "k2", Stage: "s", InputRef: "x", Key: "k"},
	)
	for i, want := range []error{nil, job.ErrDuplicateJob, nil, nil, job.ErrInvalidJob, job.ErrMissingDependency, nil, nil} {
		if got := results[i].Err; !errors.Is(got, want) {
			t.Errorf("spec %d: error %v, want %v", i, got, want)
		}
	}
	if j, err := f.Get(t.Context(), "k1"); err != nil || j.State != job.StateCancelled {
		t.Errorf("the job that a later one of its key supersedes is %s, %v", j.State, err)
	}
	if j, err := f.Get(t.Context(), "b"); err != nil || len(j.WaitingOn) != 1 {
		t.Errorf("the dependent waits on %v, %v", j.WaitingOn, err)
	}
}

func TestEnqueueManyKeepsTheOrderOfThousands(t *testing.T) {
	t.Parallel()
	f := open(t, natstest.Conn(t))
	specs := make([]job.Spec, 3000)
	for i := range specs {
		specs[i] = job.Spec{ID: fmt.Sprintf("j%04d", i), Stage: "s", InputRef: "x"}
	}
	for i, e := range many(t, f, specs...) {
		if e.Err != nil || e.Job.ID != specs[i].ID {
			t.Fatalf("result %d is of %s: %v", i, e.Job.ID, e.Err)
		}
	}
	for i, e := range many(t, f, specs[:100]...) { // once more is the same jobs
		if e.Err != nil {
			t.Fatalf("repeated spec %d: %v", i, e.Err)
		}
	}
	r := runner(t, f, "")
	for i := range 20 {
		if c := claim(t, r, "s"); c.Job.ID != specs[i].ID {
			t.Fatalf("job %d to start is %s", i, c.Job.ID)
		}
	}
}

func TestEnqueueManyStopsWhenToldAndGivesAllThatItHasRead(t *testing.T) {
	t.Parallel()
	f := open(t, natstest.Conn(t))
	enough := errors.New("enough")
	read, given := 0, 0
	endless := func(yield func(job.Spec) bool) {
		for yield(job.Spec{Stage: "s", InputRef: "x"}) {
			read++
		}
	}
	err := f.EnqueueMany(t.Context(), endless, func(e fabric.Enqueued) error {
		if e.Err != nil {
			t.Error(e.Err)
		}
		if given++; given >= 10 {
			return enough
		}
		return nil
	})
	if !errors.Is(err, enough) || given < 10 || given != read {
		t.Errorf("%d results of %d specs, error %v", given, read, err)
	}
}

func TestEnqueueManyGoesByItsOptions(t *testing.T) {
	t.Parallel()
	f := open(t, natstest.Conn(t))
	specs := []job.Spec{{ID: "a", Stage: "s", InputRef: "x", Key: "k"}, {ID: "b", Stage: "s", InputRef: "x", Key: "k"}, {ID: "c", Stage: "s", InputRef: "x"}}
	var got []string
	err := f.EnqueueMany(t.Context(), slices.Values(specs), func(e fabric.Enqueued) error {
		got = append(got, fmt.Sprint(e.Job.ID, " ", e.Err != nil))
		return nil
	}, fabric.OnConflict(fabric.Coalesce))
	if want := []string{"a false", "a false", "c true"}; err != nil || !slices.Equal(got, want) { // c has no key
		t.Errorf("%v, %v", got, err)
	}
}

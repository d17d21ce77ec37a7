package fabric_test

// These tests prove what an id stands for: the same spec once more is the same
// job, another spec is refused, and many at once make one.

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/weft-fabric/weft/internal/natstest"
	"github.com/weft-fabric/weft/job"
)

func TestSameSpecTwiceIsOneJob(t *testing.T) {
	t.Parallel()
	p := join(t, natstest.Start(t))
	spec := job.Spec{ID: "a", Stage: "hash", InputRef: "data:,x", Payload: []byte(`{"n":1,"m":2}`), Labels: map[string]string{"l": "v"}}
	first := enqueue(t, p.Fabric, spec)
	spec.Payload = []byte(` {"m": 2, "n": 1}`) // the form does not count
	spec.AvailableAt = time.Now().Add(time.Hour)
	if second := enqueue(t, p.Fabric, spec); second.CreatedAt != first.CreatedAt || !second.AvailableAt.Equal(first.AvailableAt) {
		t.Fatalf("became %+v", second)
	}
	r := runner(t, p.Fabric, "")
	c := claimNext(t, r, "hash", "a")
	if again := enqueue(t, p.Fabric, spec); again.State != job.StateLeased {
		t.Fatalf("while it runs: %s", again.State)
	}
	settle(t, r, c, job.CompletedWith(nil))
	if again := enqueue(t, p.Fabric, spec); again.State != job.StateSucceeded {
		t.Fatalf("after it ran: %s", again.State)
	}
	nothingLeft(t, p.nc, "hash")
}

func TestOtherSpecUnderAnIdIsRefusedAndTheFirstUntouched(t *testing.T) {
	t.Parallel()
	p := join(t, natstest.Start(t))
	spec := job.Spec{ID: "a", Stage: "hash", InputRef: "data:,x", Key: "k", MaxAttempts: 2}
	enqueue(t, p.Fabric, spec)
	before := record(t, p.Fabric, "a")
	for name, change := range map[string]func(*job.Spec){
		"stage":          func(s *job.Spec) { s.Stage = "other" },
		"input":          func(s *job.Spec) { s.InputRef = "data:,y" },
		"input revision": func(s *job.Spec) { s.InputRevision = 1 },
		"key":            func(s *job.Spec) { s.Key = "other" },
		"payload":        func(s *job.Spec) { s.Payload = []byte(`{}`) },
		"attempts":       func(s *job.Spec) { s.MaxAttempts = 9 },
		"priority":       func(s *job.Spec) { s.Priority = 1 },
		"timeout":        func(s *job.Spec) { s.Timeout = time.Minute },
		"labels":         func(s *job.Spec) { s.Labels = map[string]string{"l": "v"} },
	} {
		other := spec
		change(&other)
		_, err := p.Enqueue(t.Context(), other)
		dup, ok := errors.AsType[*job.Error](err)
		if !ok || dup.Code != job.CodeDuplicateJob || dup.JobID != "a" {
			t.Errorf("another %s: %v", name, err)
		}
	}
	if after := record(t, p.Fabric, "a"); after.Revision != before.Revision {
		t.Fatalf("the first became %s", after.Raw)
	}
	r := runner(t, p.Fabric, "")
	settle(t, r, claimNext(t, r, "hash", "a"), job.CompletedWith(nil))
}

func TestManyEnqueuesOfAnIdAtOnceAreOneJob(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	var enqueueing sync.WaitGroup
	for range 4 {
		p := join(t, s)
		enqueueing.Go(func() {
			for range 5 {
				if _, err := p.Enqueue(t.Context(), job.Spec{ID: "a", Stage: "hash", InputRef: "data:,x"}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	enqueueing.Wait()
	p := join(t, s)
	var runs handled
	work(t, p.Fabric, "hash", 4, counted(&runs))
	awaitAll(t, p.Fabric, patience, "a")
	nothingLeft(t, p.nc, "hash")
	if runs.of("a") != 1 {
		t.Fatalf("ran %d times", runs.of("a"))
	}
}

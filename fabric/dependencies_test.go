package fabric_test

// These tests prove that a job starts when its dependencies have succeeded, not
// before and not twice, and what becomes of it when one of them fails.

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/weft-fabric/weft/fabric"
	"github.com/weft-fabric/weft/internal/natstest"
	"github.com/weft-fabric/weft/job"
	"github.com/weft-fabric/weft/kv"
	"github.com/weft-fabric/weft/worker"
)

// finish claims a job of the stage and completes it.
func finish(t *testing.T, r *fabric.Runner, stage string) job.Job {
	t.Helper()
	c := claim(t, r, stage)
	if err := r.Settle(t.Context(), c, job.Completed("data:,done")); err != nil {
		t.Fatal(err)
	}
	return c.Job
}

func TestDependencyThatHasSucceededBeforeIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	f := open(t, natstest.Conn(t)) // no keeper: the enqueue alone must see it
	r := runner(t, f, "")
	enqueue(t, f, job.Spec{ID: "first", Stage: "a", InputRef: "data:,x"})
	finish(t, r, "a")
	j := enqueue(t, f, job.Spec{ID: "then", Stage: "b", InputRef: "data:,x", Dependencies: []string{"first"}})
	if len(j.WaitingOn) != 0 {
		t.Fatalf("it waits on %v", j.WaitingOn)
	}
	if got := finish(t, r, "b"); got.ID != "then" {
		t.Fatalf("claimed %s", got.ID)
	}
}

func TestDependentIsReleasedOnceAfterItsDependency(t *testing.T) {
	t.Parallel()
	nc := natstest.Conn(t)
	f := open(t, nc)
	keep(t, f)
	r := runner(t, f, "")
	enqueue(t, f, job.Spec{ID: "first", Stage: "a", InputRef: "data:,x"})
	enqueue(t, f, job.Spec{ID: "then", Stage: "b", InputRef: "data:,x", Dependencies: []string{"first"}})
	if left := subjectsOf(t, workQueue(t, nc, "b"), "weft.>"); len(left) != 0 {
		t.Fatalf("a blocked job was offered: %v", left)
	}
	finish(t, r, "a")
	if got := finish(t, r, "b"); got.ID != "then" || got.Attempt != 1 {
		t.Fatalf("claimed %s, attempt %d", got.ID, got.Attempt)
	}
}

// The dependency ends while its dependent is being enqueued: whichever of the
// two sees the other, the job is offered, and offered once.
func TestDependencyThatEndsDuringTheEnqueueReleasesOnce(t *testing.T) {
	t.Parallel()
	const rounds = 150
	nc := natstest.Conn(t)
	f := open(t, nc)
	keep(t, f)
	r := runner(t, f, "")
	var ran handled
	work(t, f, "b", 4, counted(&ran))
	var ids []string
	for i := range rounds {
		first, then := fmt.Sprintf("first%d", i), fmt.Sprintf("then%d", i)
		enqueue(t, f, job.Spec{ID: first, Stage: "a", InputRef: "data:,x"})
		c := claim(t, r, "a")
		var settling sync.WaitGroup
		settling.Go(func() {
			if err := r.Settle(t.Context(), c, job.Completed("data:,done")); err != nil {
				t.Error(err)
			}
		})
		enqueue(t, f, job.Spec{ID: then, Stage: "b", InputRef: "data:,x", Dependencies: []string{first}})
		settling.Wait()
		ids = append(ids, then)
	}
	awaitAll(t, f, patience, ids...)
	for _, id := range ids {
		if ran.of(id) != 1 {
			t.Errorf("%s ran %d times", id, ran.of(id))
		}
	}
	info, err := workQueue(t, nc, "b").Info(t.Context())
	if err != nil || info.State.LastSeq != rounds {
		t.Errorf("%d items were published for %d jobs: %v", info.State.LastSeq, rounds, err)
	}
}

func TestDependencyWhoseRecordExpiredAfterItWasMetStaysMet(t *testing.T) {
	t.Parallel()
	f := open(t, natstest.Conn(t))
	keep(t, f)
	r := runner(t, f, "")
	enqueue(t, f, job.Spec{ID: "short", Stage: "a", InputRef: "data:,x"})
	enqueue(t, f, job.Spec{ID: "long", Stage: "b", InputRef: "data:,x"})
	enqueue(t, f, job.Spec{ID: "then", Stage: "c", InputRef: "data:,x", Dependencies: []string{"short", "long"}})
	finish(t, r, "a")
	natstest.Eventually(t, patience, "the first dependency is seen", func() bool {
		j, err := f.Get(t.Context(), "then")
		return err == nil && slices.Equal(j.WaitingOn, []string{"long"})
	})
	rec, err := fabric.Bucket(f).Load(t.Context(), "short")
	if err != nil {
		t.Fatal(err)
	}
	if err := fabric.Bucket(f).Delete(t.Context(), kv.JobKey("short"), rec.Revision); err != nil {
		t.Fatal(err)
	}
	finish(t, r, "b")
	if got := finish(t, r, "c"); got.ID != "then" {
		t.Fatalf("claimed %s", got.ID)
	}
}

func TestMissingDependencyIsRefused(t *testing.T) {
	t.Parallel()
	f := open(t, natstest.Conn(t))
	_, err := f.Enqueue(t.Context(), job.Spec{ID: "then", Stage: "b", InputRef: "data:,x", Dependencies: []string{"none"}})
	if !errors.Is(err, job.ErrMissingDependency) {
		t.Fatalf("%v", err)
	}
	if _, err := f.Get(t.Context(), "then"); !errors.Is(err, job.ErrMissingJob) {
		t.Fatalf("the refused job is there: %v", err)
	}
}

// history notes in which order jobs ran.
type history struct {
	handled
	late []string // jobs that ran before one of their dependencies
}

// note is a handler that completes, and that knows what must have run before.
func (h *history) note(_ context.Context, task *worker.Task) job.Outcome {
	j := task.Job()
	for _, id := range j.Dependencies {
		if h.of(id) == 0 {
			h.mu.Lock()
			h.late = append(h.late, j.ID)
			h.mu.Unlock()
		}
	}
	h.add(j.ID)
	return job.Completed("data:,done")
}

func (h *history) check(t *testing.T, ids []string) {
	t.Helper()
	for _, id := range ids {
		if n := h.of(id); n != 1 {
			t.Errorf("%s ran %d times", id, n)
		}
	}
	if len(h.late) > 0 {
		t.Errorf("ran before a dependency: %v", h.late)
	}
}

func TestDiamondRunsInOrder(t *testing.T) {
	t.Parallel()
	f := open(t, natstest.Conn(t))
	keep(t, f)
	var h history
	work(t, f, "d", 4, h.note)
	ids := []string{"top", "left", "right", "bottom"}
	enqueue(t, f, job.Spec{ID: "top", Stage: "d", InputRef: "data:,x"})
	enqueue(t, f, job.Spec{ID: "left", Stage: "d", InputRef: "data:,x", Dependencies: []string{"top"}})
	enqueue(t, f, job.Spec{ID: "right", Stage: "d", InputRef: "data:,x", Dependencies: []string{"top"}})
	enqueue(t, f, job.Spec{ID: "bottom", Stage: "d", InputRef: "data:,x", Dependencies: []string{"left", "right"}})
	awaitAll(t, f, patience, ids...)
	h.check(t, ids)
}

func TestChainOfAThousandRunsInOrder(t *testing.T) {
	t.Parallel()
	const length = 1000
	f := open(t, natstest.Conn(t), quiet)
	keep(t, f)
	var h history
	work(t, f, "chain", 2, h.note)
	var ids []string
	for i := range length {
		spec := job.Spec{ID: fmt.Sprintf("link%d", i), Stage: "chain", InputRef: "data:,x"}
		if i > 0 {
			spec.Dependencies = []string{ids[i-1]}
		}
		ids = append(ids, enqueue(t, f, spec).ID)
	}
	awaitAll(t, f, 6*patience, ids[length-1]) // eight thousand round trips, one after the other
	h.check(t, ids)
	if order := h.all(); !slices.Equal(order, ids) {
		t.Error("the links did not run in their order")
	}
}

func TestDependentWaitsForAFailedDependencyToBeRetried(t *testing.T) {
	t.Parallel()
	f := open(t, natstest.Conn(t))
	keep(t, f)
	r := runner(t, f, "")
	enqueue(t, f, job.Spec{ID: "first", Stage: "a", InputRef: "data:,x"})
	enqueue(t, f, job.Spec{ID: "then", Stage: "b", InputRef: "data:,x", Dependencies: []string{"first"}})
	c := claim(t, r, "a")
	if err := r.Settle(t.Context(), c, job.Discarded("broken")); err != nil {
		t.Fatal(err)
	}
	// A job enqueued after shows that the keeper has seen the failure.
	enqueue(t, f, job.Spec{ID: "witness", Stage: "b", InputRef: "data:,x", Dependencies: []string{"first"}, OnDependencyFailure: job.CancelOnFailure})
	awaitState(t, f, "witness", job.StateCancelled)
	if j, err := f.Get(t.Context(), "then"); err != nil || j.State != job.StateWaiting || !slices.Equal(j.WaitingOn, []string{"first"}) {
		t.Fatalf("%s, waiting on %v: %v", j.State, j.WaitingOn, err)
	}
	if _, err := f.Retry(t.Context(), "first", "mended"); err != nil {
		t.Fatal(err)
	}
	finish(t, r, "a")
	if got := finish(t, r, "b"); got.ID != "then" {
		t.Fatalf("claimed %s", got.ID)
	}
}

func TestFailedDependencyCancelsTheWholeTail(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(t *testing.T, f *fabric.Fabric, r *fabric.Runner){
		"failed": func(t *testing.T, f *fabric.Fabric, r *fabric.Runner) {
			if err := r.Settle(t.Context(), claim(t, r, "a"), job.Discarded("broken")); err != nil {
				t.Fatal(err)
			}
		},
		"cancelled": func(t *testing.T, f *fabric.Fabric, _ *fabric.Runner) {
			if _, err := f.Cancel(t.Context(), "job0", "not needed"); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := open(t, natstest.Conn(t))
			keep(t, f)
			r := runner(t, f, "")
			enqueue(t, f, job.Spec{ID: "job0", Stage: "a", InputRef: "data:,x"})
			for i := 1; i <= 10; i++ {
				enqueue(t, f, job.Spec{
					ID: fmt.Sprintf("job%d", i), Stage: "a", InputRef: "data:,x",
					Dependencies: []string{fmt.Sprintf("job%d", i-1)}, OnDependencyFailure: job.CancelOnFailure,
				})
			}
			end(t, f, r)
			for i := 1; i <= 10; i++ {
				j := awaitState(t, f, fmt.Sprintf("job%d", i), job.StateCancelled)
				if j.Reason == "" {
					t.Errorf("%s does not say why", j.ID)
				}
			}
		})
	}
}

// What fails while a dependent is released is done once it can be: first its
// record cannot be written, then its item.
func TestReleaseThatFailedIsDoneLater(t *testing.T) {
	t.Parallel()
	nc := natstest.Conn(t)
	log := &listening{text: "keeper failed", heard: make(chan struct{}, 1)}
	f := open(t, nc, func(o *fabric.Options) { o.Logger = slog.New(slog.NewTextHandler(log, nil)) })
	r := runner(t, f, "")
	enqueue(t, f, job.Spec{ID: "first", Stage: "a", InputRef: "data:,x"})
	enqueue(t, f, job.Spec{ID: "then", Stage: "b", InputRef: "data:,x", Dependencies: []string{"first"}})
	finish(t, r, "a")

	openBucket := seal(t, nc, "KV_weft")
	openQueue := seal(t, nc, "WEFT_b")
	lead(t, f)
	await(t, log.heard, "the failure is logged")
	if j, err := f.Get(t.Context(), "then"); err != nil || len(j.WaitingOn) != 1 {
		t.Fatalf("waiting on %v: %v", j.WaitingOn, err)
	}
	openBucket()
	await(t, log.heard, "the failure is logged")
	if j, err := f.Get(t.Context(), "then"); err != nil || len(j.WaitingOn) != 0 {
		t.Fatalf("waiting on %v: %v", j.WaitingOn, err)
	}
	openQueue()
	ctx, cancel := context.WithTimeout(t.Context(), fabric.Grace+patience)
	defer cancel()
	claims, err := r.Claim(ctx, "b", 1)
	if err != nil || claims[0].Job.ID != "then" {
		t.Fatalf("%v, %v", claims, err)
	}
}

// seal has a stream refuse everything until the returned function is called.
func seal(t *testing.T, nc *nats.Conn, stream string) (unseal func()) {
	t.Helper()
	config := serverStream(t, nc, stream).CachedInfo().Config
	limit := func(size int32) {
		config.MaxMsgSize = size
		if _, err := serverJetStream(t, nc).UpdateStream(t.Context(), config); err != nil {
			t.Fatal(err)
		}
	}
	limit(1)
	return func() { limit(-1) }
}

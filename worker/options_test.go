package worker_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/weft-fabric/weft/job"
	"github.com/weft-fabric/weft/worker"
)

var noop = worker.HandlerFunc(func(context.Context, *worker.Task) job.Outcome { return done() })

func TestBadOptionsAreRefusedByName(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*worker.Options){
		"ID \"a b\" must be 1 to 64":             func(o *worker.Options) { o.ID = "a b" },
		"Concurrency 0 must be 1 to 65536":       func(o *worker.Options) { o.Concurrency = 0 },
		"Concurrency 65537 must be 1 to 65536":   func(o *worker.Options) { o.Concurrency = 65537 },
		"Drain -1s must not be negative; use 0":  func(o *worker.Options) { o.Drain = -time.Second },
		"StopGrace 0s must be positive; start f": func(o *worker.Options) { o.StopGrace = 0 },
	} {
		o := worker.DefaultOptions()
		change(&o)
		err := o.Validate()
		if err == nil || !strings.HasPrefix(err.Error(), "worker option "+want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("got %v, want one line: worker option %s...", err, want)
		}
		if _, err := worker.New(newMemory(lease), o); err == nil {
			t.Errorf("New took the options that break %q", want)
		}
	}
}

func TestAllBadOptionsAreNamedAtOnce(t *testing.T) {
	t.Parallel()
	err := worker.Options{ID: "?", Drain: -1}.Validate()
	if lines := strings.Split(err.Error(), "\n"); len(lines) != 4 {
		t.Errorf("got %q, want four lines", lines)
	}
	if err := worker.DefaultOptions().Validate(); err != nil {
		t.Errorf("the defaults are refused: %v", err)
	}
	if _, err := worker.New(nil, worker.DefaultOptions()); err == nil {
		t.Error("New took no fabric")
	}
}

func TestHandleRefusesWhatCannotRun(t *testing.T) {
	t.Parallel()
	w, err := worker.New(newMemory(lease), worker.DefaultOptions())
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "no stage has a handler") {
		t.Errorf("Run without a stage gave %v", err)
	}
	if err := w.Handle("build", noop); err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{
		"handler already":  w.Handle("build", noop),
		"handler is nil":   w.Handle("test", nil),
		"is nil":           w.Handle("test", worker.HandlerFunc(nil)),
		"Concurrency 0":    w.Handle("test", noop, worker.WithConcurrency(0)),
		"stage must not":   w.Handle("", noop),
		"invalid_job: sta": w.Handle("Bad Stage", noop),
	} {
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("got %v, want an error with %q", err, name)
		}
	}
	if err := w.Handle("no/stage", noop); !errors.Is(err, job.ErrInvalidJob) {
		t.Errorf("a bad stage name gave %v", err)
	}
}

func TestWorkerRunsOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := setup(t, noop)
		b.run()
		b.pass(time.Second)
		if err := b.worker.Run(t.Context()); !errors.Is(err, worker.ErrStarted) {
			t.Errorf("a second Run gave %v", err)
		}
		if err := b.worker.Handle("test", noop); !errors.Is(err, worker.ErrStarted) {
			t.Errorf("Handle after Run gave %v", err)
		}
	})
}

func TestCauses(t *testing.T) {
	t.Parallel()
	err := error(&worker.CancelledError{Reason: "superseded by b"})
	if !errors.Is(err, worker.ErrCancelled) || err.Error() != "job was cancelled: superseded by b" {
		t.Errorf("got %v", err)
	}
	if got := (&worker.CancelledError{}).Error(); got != worker.ErrCancelled.Error() {
		t.Errorf("without a reason: %s", got)
	}
	for _, other := range []error{worker.ErrTimeout, worker.ErrLeaseLost, worker.ErrDraining} {
		if errors.Is(err, other) {
			t.Errorf("a cancellation matches %v", other)
		}
	}
}

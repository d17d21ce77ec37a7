package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"time"

	"github.com/weft-fabric/weft/job"
)

// maxConcurrency is far above what one process can hold leases for.
const maxConcurrency = 1 << 16

// Options are the settings of a worker. Start from DefaultOptions.
type Options struct {
	// ID names the worker in its logs. It may be empty; the id in records is the
	// fabric's.
	ID string
	// Concurrency is the number of slots of each stage unless its Handle says
	// otherwise: 1 to 65536. The default is the number of processors that the
	// process may use, which suits handlers that compute; handlers that wait for
	// others may have many more.
	Concurrency int
	// Drain is how long running jobs may go on after Run's context ended, before
	// their contexts are cancelled. 0 cancels them at once; the default is 30 s.
	Drain time.Duration
	// StopGrace is how long a handler whose context was cancelled may take to
	// return before its slot, and its lease, are taken from it. It is positive;
	// the default is 5 s.
	StopGrace time.Duration
	// Inputs open what input_ref names for Task.Input and Task.InputLink: the fabric,
	// which is a *fabric.Fabric. nil opens none.
	Inputs Inputs
	// MaxInput is the most bytes that Task.Input gives; a job with a larger input
	// fails for good. 0 is the default, job.DefaultMaxInput.
	MaxInput int64
	// Logger takes what the worker and its tasks log. The default, nil, is
	// slog.Default().
	Logger *slog.Logger
	// Hooks are told of what happens to jobs.
	Hooks Hooks
	// Tracer puts a span around each attempt; nil is none. Package tracing has one
	// for OpenTelemetry.
	Tracer Tracer
}

// Tracer puts a span around each attempt.
type Tracer interface {
	// Attempt begins the span in the trace that the record carries. The context it
	// returns is the handler's. end is called once, when the attempt is over for this
	// worker: with its outcome, or with why it was not recorded.
	Attempt(ctx context.Context, j job.Job) (_ context.Context, end func(job.Outcome, error))
}

// Hooks are functions for metrics; each may be nil. They are called from many
// goroutines at once, delay the job they are told of, and must not panic. After
// each JobStarted comes exactly one JobSettled or LeaseLost.
type Hooks struct {
	// JobStarted is called before the handler.
	JobStarted func(j job.Job)
	// JobSettled is called after the outcome was written. If err is not nil it
	// was not, and the job will be offered again once its lease has run out. took
	// is from the start of the handler until it returned or was given up.
	JobSettled func(j job.Job, o job.Outcome, err error, took time.Duration)
	// LeaseLost is called when the slot is free again after a lost lease or a
	// cancelled job. cause matches ErrLeaseLost or ErrCancelled.
	LeaseLost func(j job.Job, cause error, took time.Duration)
}

// DefaultOptions are the settings that suit most workers.
func DefaultOptions() Options {
	return Options{
		Concurrency: runtime.GOMAXPROCS(0),
		Drain:       30 * time.Second,
		StopGrace:   5 * time.Second,
	}
}

// Validate refuses settings that cannot work, all of them at once, one line each.
func (o Options) Validate() error {
	var errs []error
	if o.ID != "" && job.CheckWorker(o.ID) != nil {
		errs = append(errs, fmt.Errorf("worker option ID %.80q must be 1 to %d of A-Z a-z 0-9 _ -; leave it empty to log no id", o.ID, job.MaxWorkerLength))
	}
	if err := checkConcurrency(o.Concurrency); err != nil {
		errs = append(errs, err)
	}
	if o.Drain < 0 {
		errs = append(errs, fmt.Errorf("worker option Drain %s must not be negative; use 0 to cancel running jobs at once", o.Drain))
	}
	if o.MaxInput < 0 {
		errs = append(errs, fmt.Errorf("worker option MaxInput %d must not be negative; use 0 for the default, %d", o.MaxInput, job.DefaultMaxInput))
	}
	if o.StopGrace <= 0 {
		errs = append(errs, fmt.Errorf("worker option StopGrace %s must be positive; start from DefaultOptions, which has 5s", o.StopGrace))
	}
	return errors.Join(errs...)
}

func checkConcurrency(n int) error {
	if n < 1 || n > maxConcurrency {
		return fmt.Errorf("worker option Concurrency %d must be 1 to %d; start from DefaultOptions, which has one slot a processor", n, maxConcurrency)
	}
	return nil
}

func (o Options) inputs() *inputs {
	limit := o.MaxInput
	if limit == 0 {
		limit = job.DefaultMaxInput
	}
	return &inputs{o.Inputs, limit}
}

func (o Options) logger() *slog.Logger {
	if o.Logger == nil {
		return slog.Default()
	}
	return o.Logger
}

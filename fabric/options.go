package fabric

import (
	"fmt"
	"log/slog"
	"regexp"
	"time"

	"github.com/weft-fabric/weft/internal/fault"
	"github.com/weft-fabric/weft/job"
)

// Options says which fabric, and what jobs and stages get that do not say for
// themselves.
type Options struct {
	Namespace   string        // names every stream, bucket and subject
	Replicas    int           // of what is created here: 1, 3 or 5
	Domain      string        // JetStream domain; empty is the connection's own
	MaxAttempts int64         // of a job that does not say
	Backoff     job.Backoff   // between attempts
	Stage       StageSettings // of a stage that is created here
	Retention   Retention     // of jobs that have ended
	Logger      *slog.Logger  // nil discards
	Observer    Observer      // is told of what happens; nil is nobody
	Tracer      Tracer        // traces enqueues; nil is none

	// Resolvers open references of further schemes, by scheme in lower case, such as
	// "s3". data: and nats-obj: are the fabric's own.
	Resolvers map[string]Resolver
	// Outputs, if not nil, takes the outputs that are too large for a record, in place
	// of the object store.
	Outputs OutputStore
	// MaxInput is the most bytes that PutInput takes. 0 is the default,
	// job.DefaultMaxInput.
	MaxInput int64

	// OfferBySchedule offers every job by a schedule, also one that is due, which the
	// server then turns into its item. It is for a process that has not the
	// permission to publish items, as the role of a runner; it costs a message and up
	// to 250 ms for a job that is given back.
	OfferBySchedule bool
	// LeavePauses leaves it to others to have a consumer follow its stage's pause,
	// where a command that changed the pause was interrupted. It is for a process that
	// has not the permission to pause consumers.
	LeavePauses bool

	// Clock is the local clock. Deadlines are on the server's; the difference
	// between the two is measured.
	Clock func() time.Time

	// Faults are mistakes that the history test plants to prove that it would
	// notice them; nil is none. Users of the module cannot make one.
	Faults *fault.Plan
}

// StageSettings are what every worker of a stage shares.
type StageSettings struct {
	Lease       time.Duration // how long a claim lasts without renewal
	Concurrency int           // jobs of the stage that run at once, on all workers; 0 is no limit
}

// Retention is how long the record of a job stays after it ended.
type Retention struct {
	Succeeded time.Duration
	Cancelled time.Duration
	Failed    time.Duration
}

// Bounds of the options.
const (
	MinLease     = time.Second
	MinRetention = time.Hour
	// retentionLeases is how many leases a record must outlive its job, so that
	// a late worker still finds that it is late.
	retentionLeases = 10
)

var namespaceForm = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,31}$`)

// DefaultOptions gives every option its default.
func DefaultOptions() Options {
	const day = 24 * time.Hour
	return Options{
		Namespace:   "weft",
		Replicas:    1,
		MaxAttempts: job.DefaultMaxAttempts,
		Backoff:     job.DefaultBackoff(),
		Stage:       StageSettings{Lease: 30 * time.Second},
		Retention:   Retention{Succeeded: 7 * day, Cancelled: 7 * day, Failed: 30 * day},
		Clock:       time.Now,
	}
}

// withDefaults fills in what is zero.
func (o Options) withDefaults() Options {
	d := DefaultOptions()
	fill(&o.Namespace, d.Namespace)
	fill(&o.Replicas, d.Replicas)
	fill(&o.MaxAttempts, d.MaxAttempts)
	fill(&o.Backoff, d.Backoff)
	fill(&o.Stage.Lease, d.Stage.Lease)
	fill(&o.Retention.Succeeded, d.Retention.Succeeded)
	fill(&o.Retention.Cancelled, d.Retention.Cancelled)
	fill(&o.Retention.Failed, d.Retention.Failed)
	fill(&o.MaxInput, job.DefaultMaxInput)
	if o.Clock == nil {
		o.Clock = d.Clock
	}
	if o.Faults == nil {
		o.Faults = &fault.Plan{}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Observer == nil {
		o.Observer = nobody{}
	}
	return o
}

func fill[T comparable](value *T, fallback T) {
	var zero T
	if *value == zero {
		*value = fallback
	}
}

// Validate refuses options that could not keep the fabric's promises, each with
// the option, its value, the rule and the way out.
func (o Options) Validate() error {
	shortest := max(MinRetention, retentionLeases*o.Stage.Lease)
	switch {
	case !namespaceForm.MatchString(o.Namespace):
		return fmt.Errorf("namespace %q must be a lower-case letter and up to 31 of a-z 0-9 _ -", o.Namespace)
	case o.Replicas != 1 && o.Replicas != 3 && o.Replicas != 5:
		return fmt.Errorf("replicas %d must be 1, 3 or 5", o.Replicas)
	case o.MaxAttempts < 1:
		return fmt.Errorf("max_attempts %d must be at least 1", o.MaxAttempts)
	case o.Stage.Lease < MinLease:
		return fmt.Errorf("lease %s must be at least %s", o.Stage.Lease, MinLease)
	case o.MaxInput < 0:
		return fmt.Errorf("max_input %d must not be negative; 0 is the default, %d", o.MaxInput, job.DefaultMaxInput)
	case o.Stage.Concurrency < 0:
		return fmt.Errorf("concurrency %d must not be negative; 0 is no limit", o.Stage.Concurrency)
	}
	for name, kept := range map[string]time.Duration{"succeeded": o.Retention.Succeeded, "cancelled": o.Retention.Cancelled, "failed": o.Retention.Failed} {
		if kept < shortest {
			return fmt.Errorf("retention.%s %s must be at least %s: 1 h and 10 leases", name, kept, shortest)
		}
	}
	if err := o.Backoff.Validate(); err != nil {
		return err
	}
	return nil
}

// of gives the time that a job's record is kept: none while it has not ended.
func (r Retention) of(state job.State) time.Duration {
	switch state {
	case job.StateSucceeded:
		return r.Succeeded
	case job.StateCancelled:
		return r.Cancelled
	case job.StateFailed:
		return r.Failed
	}
	return 0
}

// shortest is the shortest time any record is kept.
func (r Retention) shortest() time.Duration {
	return min(r.Succeeded, r.Cancelled, r.Failed)
}

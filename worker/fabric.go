package worker

import (
	"context"
	"encoding/json"

	"github.com/weft-fabric/weft/job"
)

// Fabric is what a worker needs of the job fabric. Its methods may be called
// from many goroutines at once, though never for one claim: a claim has at most
// one call under way. All of them return when ctx ends.
type Fabric interface {
	// Claim blocks until at least one job of the stage is leased to this worker,
	// and returns at most n. When ctx ends it gives back what it took but did not
	// hand out, at no charge, and returns ctx's error. An error that matches
	// job.ErrInvalidJob means that asking again is of no use.
	Claim(ctx context.Context, stage string, n int) ([]job.Claim, error)

	// Renew extends the lease to now+lease and stores progress if it is not nil.
	// The worker goes on with the Job, Token and Lease of the returned claim. On
	// job.ErrStaleLease the returned claim's Job is the record as it now stands,
	// if it could be read. A lease that ran out is renewed if nobody took it over.
	Renew(ctx context.Context, c job.Claim, progress json.RawMessage) (job.Claim, error)

	// SettleThen ends the claim and calls then, once, with what became of that: from
	// a goroutine that must not wait, or before it returns. ctx carries values alone;
	// undecided writes are repeated for what is left of the lease, though not for
	// less than some seconds, and while an output is being stored the lease is kept.
	// On job.ErrStaleLease somebody else owns the job and the outcome is dropped;
	// on job.ErrLeaseExpired the worker renews and settles once more.
	SettleThen(ctx context.Context, c job.Claim, o job.Outcome, then func(error))
}

// Wanter is a fabric that can be told that n jobs are wanted now, fewer than the last
// call of Claim asked for, or not so few any more, while that call may be under way.
// It holds until the next call. Want must not block.
type Wanter interface {
	Want(stage string, n int)
}

// Leaver is a fabric that wants to know when the handler of a claim that was lost, to
// a cancel or to another worker, has returned. Until then it may count as running.
type Leaver interface {
	Leave(c job.Claim)
}

// Handler does the work of a stage's jobs. Work is called once for each attempt,
// from many goroutines at once, and at least once for each job: what it writes
// elsewhere should carry the task's fence.
//
// When ctx ends, Work should return within Options.StopGrace; context.Cause(ctx)
// says why it ended. The outcome is made by job.Completed, job.Failed and the
// other constructors of package job.
type Handler interface {
	Work(ctx context.Context, t *Task) job.Outcome
}

// HandlerFunc lets a function be a Handler.
type HandlerFunc func(ctx context.Context, t *Task) job.Outcome

// Work calls f.
func (f HandlerFunc) Work(ctx context.Context, t *Task) job.Outcome { return f(ctx, t) }

package fabric

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weft-fabric/weft/internal/natserr"
	"github.com/weft-fabric/weft/job"
)

// leastLeft is the least time that a claim without much of its lease left gets for
// a write: a late one counts as long as nobody took the job over.
const leastLeft = 10 * time.Second

// left is how long a holder may try to write something for its claim.
func (h *holding) left() time.Duration {
	return max(time.Until(time.Unix(0, h.until.Load())), leastLeft)
}

// within bounds a context that has no end of its own.
func within(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	if _, bounded := ctx.Deadline(); bounded {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, d)
}

// outputToStore reports whether an outcome comes with an output that is not yet
// anywhere.
func outputToStore(o job.Outcome) bool {
	return o.Kind() == job.KindCompleted && o.OutputRef() == "" && o.Open() != nil
}

// stored puts the output of a success where the record can name it, and keeps the
// lease for as long as that takes. For an output that cannot be read the outcome
// is refused with job.ErrInvalidJob, and its worker fails the attempt instead; one
// that cannot be written may be tried again.
func (r *Runner) stored(ctx context.Context, h *holding, c job.Claim, o job.Outcome) (job.Outcome, error) {
	storing, stop := context.WithCancelCause(ctx)
	var renewing sync.WaitGroup
	renewing.Go(func() { r.keepLease(storing, stop, h, c) })
	ref, err := r.storeAgain(storing, h, c.Token, o)
	lost := context.Cause(storing) // nil unless the lease could not be kept, or ctx has ended
	stop(nil)
	renewing.Wait()
	switch {
	case err == nil:
		return job.Completed(ref), nil
	case ctx.Err() != nil: // what else it says is only that
		return o, fmt.Errorf("job %s: output: %w", c.Token.JobID, ctx.Err())
	case lost != nil:
		return o, lost
	}
	return o, fmt.Errorf("job %s: %w", c.Token.JobID, explain(r.f.nc, err))
}

// storeAgain stores an output, and again from its beginning when the server went
// away meanwhile, for as long as ctx lasts.
func (r *Runner) storeAgain(ctx context.Context, h *holding, token job.Token, o job.Outcome) (ref string, err error) {
	wait := job.Backoff{Initial: 100 * time.Millisecond, Max: 2 * time.Second, Factor: 2, Jitter: 0.2}
	for try := int64(1); ; try++ {
		if ref, err = r.f.store(ctx, token, o.Open()); err == nil || ctx.Err() != nil || !passing(err) {
			return ref, err
		}
		r.log.Warn("output not stored, trying again", h.attempt(), "try", try, "error", err)
		pause(ctx, wait.Delay(try, rand.Float64()))
	}
}

// passing reports whether an error of storing an output passes by itself: the
// output can be read, and the server did not say that it will not have it.
func passing(err error) bool {
	if errors.Is(err, job.ErrInvalidJob) || errors.Is(err, nats.ErrConnectionClosed) || errors.Is(err, nats.ErrPermissionViolation) {
		return false
	}
	_, refused := errors.AsType[*jetstream.APIError](err)
	return !refused || natserr.Unknown(err)
}

// keepLease renews a claim until ctx ends, and stops what goes on under it when
// the job is lost, or when the lease has run out for so long that the server
// cannot be reached.
func (r *Runner) keepLease(ctx context.Context, stop context.CancelCauseFunc, h *holding, c job.Claim) {
	tick := time.NewTicker(max(h.stage.Lease/renewalsPerLease, time.Millisecond))
	defer tick.Stop()
	end := time.Now().Add(h.left())
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		renewal, cancel := context.WithTimeout(ctx, time.Until(end))
		_, err := r.Renew(renewal, c, nil)
		cancel()
		switch {
		case err == nil:
			end = time.Now().Add(h.left())
		case errors.Is(err, job.ErrStaleLease), errors.Is(err, job.ErrMissingJob), time.Now().After(end):
			stop(err)
			return
		}
	}
}

// renewalsPerLease is how often a lease is renewed before it would run out.
const renewalsPerLease = 3

package worker

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/weft-fabric/weft/job"
)

// Typed makes a handler of a function that takes the job's payload as a P. A
// payload that does not decode ends the job, for no attempt could succeed; a job
// without one gives the zero P. The function's results become an outcome by
// OutcomeOf. If fn is nil, so is the handler.
func Typed[P any](fn func(ctx context.Context, t *Task, payload P) ([]byte, error)) Handler {
	if fn == nil {
		return nil
	}
	return HandlerFunc(func(ctx context.Context, t *Task) job.Outcome {
		var payload P
		if raw := t.job.Payload; len(raw) > 0 {
			if err := json.Unmarshal(raw, &payload); err != nil {
				return job.Discarded("payload does not decode: " + err.Error())
			}
		}
		return OutcomeOf(fn(ctx, t, payload))
	})
}

// OutcomeOf is the outcome that a function's results stand for. Without an error
// the job has completed with output, which may be empty. With one, the outermost
// of Permanent, RetryAfter and Snooze in its tree decides, and any other error
// is a failed attempt. The whole error's text is the reason.
func OutcomeOf(output []byte, err error) job.Outcome {
	if err == nil {
		return job.CompletedWith(output)
	}
	if wish, ok := errors.AsType[*wishError](err); ok {
		return wish.outcome(err.Error())
	}
	return job.Failed(err.Error())
}

// wishError is an error that says what should become of its job.
type wishError struct {
	err     error
	outcome func(reason string) job.Outcome
}

func (e *wishError) Error() string { return e.err.Error() }
func (e *wishError) Unwrap() error { return e.err }

// Permanent marks an error that no further attempt could mend: the job fails,
// whatever attempts are left. It is nil if err is.
func Permanent(err error) error { return wish(err, job.Discarded) }

// RetryAfter marks an error after which the next attempt should wait d in place
// of the stage's backoff. The attempt counts. It is nil if err is.
func RetryAfter(err error, d time.Duration) error {
	return wish(err, func(reason string) job.Outcome { return job.FailedAfter(reason, d) })
}

// Snooze is an error that gives the job back for d, at no charge, because it
// cannot be done yet. After job.FreeReturns in a row the next is charged as an
// attempt. why is the reason.
func Snooze(d time.Duration, why string) error {
	return wish(errors.New(why), func(reason string) job.Outcome { return job.Snoozed(reason, d) })
}

func wish(err error, outcome func(reason string) job.Outcome) error {
	if err == nil {
		return nil
	}
	return &wishError{err: err, outcome: outcome}
}

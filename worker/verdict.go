package worker

import (
	"errors"
	"fmt"

	"github.com/weft-fabric/weft/job"
)

// verdict is the outcome to settle. A handler whose context was cancelled has
// not ended by its own doing, so what it says counts only where the cancellation
// cannot have caused it.
func (a *attempt) verdict(end ending) job.Outcome {
	outcome := sound(end.outcome)
	kind := outcome.Kind()
	switch {
	case errors.Is(end.cause, ErrTimeout) && end.stray:
		return job.Failed(fmt.Sprintf("attempt timed out after %s and its handler did not stop", a.task.job.Timeout))
	case errors.Is(end.cause, ErrTimeout) && kind != job.KindCompleted:
		return job.Failed(fmt.Sprintf("attempt timed out after %s", a.task.job.Timeout))
	case errors.Is(end.cause, ErrDraining) && kind != job.KindCompleted && kind != job.KindDiscarded:
		return job.Released()
	}
	return outcome
}

// sound replaces an outcome that no record could take, or that would let a job
// loop for ever, by the nearest that one can.
func sound(o job.Outcome) job.Outcome {
	delay, timed := o.Delay()
	switch o.Kind() {
	case job.KindCompleted:
		if o.OutputRef() == "" && o.Open() == nil {
			return job.Failed("handler completed without an output")
		}
	case job.KindFailed:
		if timed && delay < 0 {
			return job.FailedAfter(o.Reason(), 0)
		}
	case job.KindDiscarded:
		if o.Reason() == "" {
			return job.Discarded("handler gave no reason")
		}
	case job.KindReturned:
		if timed && delay < 0 {
			return job.Snoozed(o.Reason(), 0)
		}
	case job.KindReleased:
		// Released is free and immediate, which only a worker that stops may ask
		// for.
		return job.Returned("handler released the job")
	default:
		return job.Failed("handler gave no outcome")
	}
	return o
}

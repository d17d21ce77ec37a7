package history

import (
	"fmt"
	"strings"

	"github.com/weft-fabric/weft/job"
)

// Every settlement of a client carries a mark of its own: in its output's
// reference, or in its reason. outputMark makes the former.
const markedOutput = "data:,"

func outputMark(mark string) string { return markedOutput + mark }

// ended is one end of an attempt, as a record tells it.
type ended struct {
	fence   int64
	worker  string
	outcome job.AttemptOutcome
	mark    string
}

// recorded collects what a job's changes tell of claims and of ends of attempts.
type recorded struct {
	claims map[int64]string // worker by fence
	ends   map[int64]ended  // by fence
}

func readRecords(changes []change) (recorded, error) {
	r := recorded{claims: map[int64]string{}, ends: map[int64]ended{}}
	for _, c := range changes {
		for _, a := range c.job.AttemptsLog {
			if w, ok := r.claims[a.Fence]; ok && w != a.Worker {
				return r, fmt.Errorf("fence %d was given to %s and to %s", a.Fence, w, a.Worker)
			}
			r.claims[a.Fence] = a.Worker
			if a.Outcome == "" {
				continue
			}
			end := ended{a.Fence, a.Worker, a.Outcome, a.Reason}
			if a.Outcome == job.AttemptSucceeded && c.job.State == job.StateSucceeded && a.Fence == c.job.Fence {
				end.mark = strings.TrimPrefix(c.job.OutputRef, markedOutput)
			}
			if known, ok := r.ends[a.Fence]; ok && known != end {
				return r, fmt.Errorf("attempt of fence %d has two outcomes: %+v and %+v", a.Fence, known, end)
			}
			r.ends[a.Fence] = end
		}
	}
	return r, nil
}

// judgeOutcomes holds what settlers and claimers were told against what the
// records tell. complete means that no event of the job is missing.
func judgeOutcomes(ops []Op, changes []change, complete bool) error {
	r, err := readRecords(changes)
	if err != nil {
		return err
	}
	for _, op := range ops {
		switch {
		case op.Kind == Claim && op.Result == OK && complete && r.claims[op.Told.Fence] != op.Told.Worker:
			return fmt.Errorf("a claim was handed out that no record shows: %s", op)
		case op.Kind.Settles() && op.Result == OK && complete && !r.has(op):
			return fmt.Errorf("a settlement was acknowledged that no record shows: %s", op)
		case op.Kind.Settles() && op.Result != OK && op.Result != Unknown && r.has(op):
			return fmt.Errorf("a settlement was refused, and its outcome recorded: %s", op)
		}
	}
	return nil
}

// outcomeOf is how a record names the end that an operation asked for.
var outcomeOf = map[Kind]job.AttemptOutcome{
	Complete: job.AttemptSucceeded, Fail: job.AttemptFailed, Discard: job.AttemptFailed,
	Return: job.AttemptReturned, Release: job.AttemptReleased,
}

// has reports whether the settlement is in the records. A return that was charged
// is recorded as a failure.
func (r recorded) has(op Op) bool {
	end, ok := r.ends[op.Fence]
	if !ok || end.worker != op.Worker || op.Kind != Release && end.mark != op.Mark {
		return false
	}
	return end.outcome == outcomeOf[op.Kind] || op.Kind == Return && end.outcome == job.AttemptFailed
}

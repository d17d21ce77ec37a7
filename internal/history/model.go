package history

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/weft-fabric/weft/job"
)

// clockSlack is how far the clients' measurements of the server's clock may be
// apart, on a machine that is busy.
const clockSlack = 250 * time.Millisecond

// anyone holds a job whose claim no client was told of.
const anyone = "?"

// hiddenFences bounds how many claims in a row nobody was told of.
const hiddenFences = 4

// state is a job as the model has it; the zero state is a job that nobody has
// enqueued. now is the latest call among what has happened, changed that of what
// changed the job, and free the earliest moment at which the lease can have run
// out.
type state struct {
	in                  job.State
	fence, attempt, max int64
	holder              string
	now, changed, free  time.Duration
}

// input is an operation with what the model needs to know beside it.
type input struct {
	Op
	spec  Spec
	lease time.Duration
}

// model is a job as one object. The operations it is given are those of one job.
func model() porcupine.Model {
	m := porcupine.NondeterministicModel{
		Init: func() []any { return []any{state{}} },
		Step: func(s, in, _ any) []any {
			return anys(step(s.(state), in.(input)))
		},
		DescribeOperation: func(in, _ any) string { return in.(input).Op.String() },
		DescribeState:     func(s any) string { return fmt.Sprintf("%+v", s) },
	}
	return m.ToModel()
}

func anys(states []state) []any {
	out := make([]any, len(states))
	for i, s := range states {
		out[i] = s
	}
	return out
}

// step gives every state that the job can be in after the operation.
func step(s state, in input) []state {
	var after []state
	for _, before := range hidden(s, in) {
		before.now = max(before.now, in.Call)
		for _, next := range answer(before, in) {
			if next != before {
				next.changed = max(before.changed, in.Call)
			}
			if !slices.Contains(after, next) {
				after = append(after, next)
			}
		}
	}
	return after
}

// hidden gives the states that the job may have reached, before the operation
// took place, by steps that no client was told of.
func hidden(s state, in input) []state {
	most := s.fence + hiddenFences
	if in.Told != nil {
		most = in.Told.Fence
	} else if in.Fence != 0 {
		most = max(in.Fence, s.fence+1)
	}
	if in.Kind == Claim {
		most--
	}
	reached := []state{s}
	if in.Result == Unknown && in.Kind != Cancel && in.Kind != Retry {
		return reached // what they do needs no hidden step before it
	}
	for i := 0; i < len(reached); i++ {
		for _, next := range hiddenSteps(reached[i], in) {
			if next.fence <= most && !slices.Contains(reached, next) {
				reached = append(reached, next)
			}
		}
	}
	return reached
}

func hiddenSteps(s state, in input) (next []state) {
	switch {
	case s.in == "" || s.in.Terminal():
		return nil
	case s.in.Idle() && s.attempt < s.max:
		// Whoever claims may be kept waiting between the reading of its clock and its
		// write: its lease counts from any time after the job was as it is.
		next = append(next, s.claimed(anyone, s.changed+in.lease))
	case s.in == job.StateLeased && in.deadline() >= s.free-clockSlack:
		next = append(next, s.failedOnce())
	}
	if s.in == job.StateLeased && s.holder == anyone { // taken, and given back at once
		next = append(next, s.idle(job.StateWaiting, s.attempt-1))
	}
	if in.spec.Loose {
		next = append(next, s.ended(job.StateCancelled))
	}
	return next
}

// deadline is the latest moment at which the operation can have taken place.
func (in input) deadline() time.Duration {
	if in.Result == Unknown {
		return math.MaxInt64
	}
	return in.Return
}

func (s state) claimed(holder string, free time.Duration) state {
	s.in, s.holder, s.free = job.StateLeased, holder, free
	s.fence++
	s.attempt++
	return s
}

func (s state) idle(in job.State, attempt int64) state {
	s.in, s.attempt, s.holder, s.free = in, max(0, attempt), "", 0
	return s
}

func (s state) ended(in job.State) state {
	s.in, s.holder, s.free = in, "", 0
	return s
}

// failedOnce is the end of an attempt: another one, if any is left.
func (s state) failedOnce() state {
	if s.attempt >= s.max {
		return s.ended(job.StateFailed)
	}
	return s.idle(job.StateRetryWaiting, s.attempt)
}

// shows reports whether the record that a client was shown is this state.
func (s state) shows(t *Told) bool {
	if t == nil {
		return true
	}
	return s.in == t.State && s.fence == t.Fence && s.attempt == t.Attempt && s.max == t.Max &&
		(s.in != job.StateLeased || s.holder == t.Worker || s.holder == anyone)
}

// lostAnswer is after what time a call may have been answered only at its second
// try.
const lostAnswer = 1500 * time.Millisecond

func operation(op Op, spec Spec, lease time.Duration) porcupine.Operation {
	if op.Kind == Retry && op.Result != OK && op.Return-op.Call > lostAnswer {
		// Its first try may have succeeded unheard, and its second found a job that
		// somebody has claimed since.
		op.Result, op.Told = Unknown, nil
	}
	in := input{Op: op, spec: spec, lease: lease}
	return porcupine.Operation{Input: in, Call: int64(op.Call), Return: int64(in.deadline())}
}

// judgeOps looks for a legal order of one job's operations.
func judgeOps(ops []Op, spec Spec, lease, limit time.Duration) porcupine.CheckResult {
	history := make([]porcupine.Operation, 0, len(ops))
	for _, op := range ops {
		if op.Result == Unknown && op.Kind == Get {
			continue
		}
		if op.Kind == Enqueue && op.Told != nil {
			// The job may have been made, and have moved on, before it was read: what
			// was told is an operation of its own.
			read := op
			read.Kind, op.Told = Get, nil
			history = append(history, operation(read, spec, lease))
		}
		history = append(history, operation(op, spec, lease))
	}
	return porcupine.CheckOperationsTimeout(model(), history, limit)
}

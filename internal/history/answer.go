package history

import "github.com/weft-fabric/weft/job"

// answer gives the states after the operation, if it can have been answered as
// it was in the state s. None means that the answer was wrong.
func answer(s state, in input) []state {
	switch {
	case in.Result == Unknown:
		return append(effect(s, in), s)
	case in.Result != OK:
		if refusable(s, in) {
			return []state{s}
		}
		return nil
	}
	return effect(s, in)
}

// effect is what an operation does that was granted.
func effect(s state, in input) []state {
	switch in.Kind {
	case Enqueue:
		return enqueued(s, in)
	case Claim:
		return claimed(s, in)
	case Renew, Complete, Fail, Discard, Return, Release:
		if s.in != job.StateLeased || s.fence != in.Fence || s.holder != in.Worker {
			return nil
		}
		return held(s, in)
	case Cancel:
		if s.in == "" || s.in.Terminal() {
			return nil
		}
		return showing(s.ended(job.StateCancelled), in.Told)
	case Retry:
		if s.in != job.StateFailed {
			return nil
		}
		s.max++
		return showing(s.idle(job.StateRetryWaiting, s.attempt), in.Told)
	case Get:
		return showing(s, in.Told)
	}
	return nil // another spec under the same id is never accepted
}

func showing(s state, t *Told) []state {
	if !s.shows(t) {
		return nil
	}
	return []state{s}
}

// enqueued makes the job, or finds it.
func enqueued(s state, in input) []state {
	if s.in == "" {
		s.in, s.max = job.StateWaiting, in.spec.Max
	}
	return []state{s}
}

func claimed(s state, in input) []state {
	if !s.in.Idle() || s.attempt >= s.max {
		return nil
	}
	next := s.claimed(in.Worker, s.now+in.lease)
	if in.Told != nil {
		next.free = in.Told.Until
	}
	return showing(next, in.Told)
}

// held is what the holder of a claim does to its job.
func held(s state, in input) []state {
	switch in.Kind {
	case Renew:
		s.free = max(s.free, s.now+in.lease)
		return []state{s}
	case Complete:
		return []state{s.ended(job.StateSucceeded)}
	case Discard:
		return []state{s.ended(job.StateFailed)}
	case Fail:
		return []state{s.failedOnce()}
	case Return: // after many in a row it is charged
		return []state{s.idle(job.StateWaiting, s.attempt-1), s.failedOnce()}
	}
	return []state{s.idle(job.StateWaiting, s.attempt-1)}
}

// refusable reports whether the refusal is right in the state s.
func refusable(s state, in input) bool {
	if in.Result == string(job.CodeMissingJob) {
		return s.in == ""
	}
	if !s.shows(in.Told) {
		return false
	}
	switch job.Code(in.Result) {
	case Coalesced:
		return s.in == ""
	case job.CodeDuplicateJob: // of the id, or of the key
		return in.Kind == Conflict && s.in != "" || in.Kind == Enqueue && in.spec.Loose && s.in == ""
	case job.CodeTerminalJob:
		return s.in.Terminal()
	case job.CodeNotFailed:
		return s.in != "" && s.in != job.StateFailed
	case job.CodeLeaseExpired:
		return s.in == job.StateLeased && s.fence == in.Fence && s.holder == in.Worker
	case job.CodeStaleLease:
		return s.in != job.StateLeased || s.fence != in.Fence || s.holder != in.Worker
	}
	return false
}

package main

import (
	"slices"

	"github.com/weft-fabric/weft/job"
)

// tracker follows the jobs of one file until none of them can move any more. It
// is fed by one goroutine.
type tracker struct {
	order  []string             // ids of the file, each once
	wanted map[string]*job.Job  // by id; nil while nothing was seen of it
	others map[string]job.State // jobs that are not of the file, for dependencies

	counts map[job.State]int // of the file's jobs
	ended  int               // of those, the terminal ones
	ready  int               // of those, the idle ones that wait on no other
}

func newTracker() *tracker {
	return &tracker{wanted: map[string]*job.Job{}, others: map[string]job.State{}, counts: map[job.State]int{}}
}

// want adds a job to those that are waited for.
func (t *tracker) want(id string) {
	if _, known := t.wanted[id]; !known {
		t.wanted[id] = nil
		t.order = append(t.order, id)
	}
}

// forget takes back a job that could not be enqueued. There may be another of
// its id.
func (t *tracker) forget(id string) {
	if seen := t.wanted[id]; seen != nil {
		t.count(*seen, -1)
		t.others[id] = seen.State
	}
	delete(t.wanted, id)
}

// see takes in what became of a job.
func (t *tracker) see(j job.Job) {
	before, wanted := t.wanted[j.ID]
	if !wanted {
		t.others[j.ID] = j.State
		return
	}
	if before != nil {
		t.count(*before, -1)
	}
	t.count(j, 1)
	t.wanted[j.ID] = &j
}

func (t *tracker) count(j job.Job, n int) {
	t.counts[j.State] += n
	switch {
	case j.State.Terminal():
		t.ended += n
	case j.State.Idle() && len(j.WaitingOn) == 0:
		t.ready += n
	}
}

// total is how many jobs are waited for.
func (t *tracker) total() int { return len(t.wanted) }

// done reports whether every job has ended, or what has not never will by
// itself: it depends on a job that failed, was cancelled or is not there.
func (t *tracker) done() bool {
	if t.ended == t.total() {
		return true
	}
	if t.counts[job.StateLeased] > 0 || t.ready > 0 || t.unseen() > 0 {
		return false
	}
	return t.blockedOnly()
}

// unseen is how many jobs nothing was seen of.
func (t *tracker) unseen() int {
	seen := 0
	for _, n := range t.counts {
		seen += n
	}
	return t.total() - seen
}

// blockedOnly reports whether every job that has not ended waits on a dead end.
// Going through them all is dear, so done does it only when none runs or could.
func (t *tracker) blockedOnly() bool {
	verdicts := map[string]bool{}
	for _, j := range t.wanted {
		if !j.State.Terminal() && (t.toBeCancelled(j) || !t.blocked(j.ID, verdicts)) {
			return false
		}
	}
	return true
}

// toBeCancelled reports whether the keeper is about to cancel the job, because a
// dependency did not succeed.
func (t *tracker) toBeCancelled(j *job.Job) bool {
	return j.OnDependencyFailure == job.CancelOnFailure && slices.ContainsFunc(j.WaitingOn, func(id string) bool {
		state := t.others[id]
		if dependency := t.wanted[id]; dependency != nil {
			state = dependency.State
		}
		return state == job.StateFailed || state == job.StateCancelled
	})
}

// blocked reports whether the job waits on one that will not succeed by itself.
// verdicts remembers answers; a job that is being looked at counts as blocked,
// since jobs that wait for each other are.
func (t *tracker) blocked(id string, verdicts map[string]bool) bool {
	if verdict, known := verdicts[id]; known {
		return verdict
	}
	j := t.wanted[id]
	if j == nil {
		state, known := t.others[id]
		return !known || state == job.StateFailed || state == job.StateCancelled
	}
	if j.State.Terminal() {
		return j.State != job.StateSucceeded
	}
	verdicts[id] = true
	verdict := false
	for _, dependency := range j.WaitingOn {
		verdict = verdict || t.blocked(dependency, verdicts)
	}
	verdicts[id] = verdict
	return verdict
}

// succeeded reports whether every job has succeeded.
func (t *tracker) succeeded() bool { return t.counts[job.StateSucceeded] == t.total() }

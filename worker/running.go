package worker

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/weft-fabric/weft/job"
)

// Running is one handler that runs.
type Running struct {
	JobID   string    `json:"job_id"`
	Stage   string    `json:"stage"`
	Attempt int64     `json:"attempt"`
	Fence   int64     `json:"fence"`
	Since   time.Time `json:"since"` // when the handler was started, by this process's clock
	// Stray is true for a handler that did not stop when its context was
	// cancelled. Its slot is free and its job has been given up.
	Stray bool `json:"stray,omitempty"`
}

// Running is a snapshot of the handlers that run, the longest first.
func (w *Worker) Running() []Running {
	w.mu.Lock()
	defer w.mu.Unlock()
	list := make([]Running, 0, len(w.held))
	for a := range w.held {
		j := a.task.job
		list = append(list, Running{JobID: j.ID, Stage: j.Stage, Attempt: j.Attempt, Fence: j.Fence, Since: a.since, Stray: !a.keepsSlot()})
	}
	slices.SortFunc(list, func(a, b Running) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.JobID, b.JobID), cmp.Compare(a.Fence, b.Fence))
	})
	return list
}

// add notes a handler that is started. It reports whether the time for running
// jobs is over.
func (w *Worker) add(a *attempt) (over bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.held[a] = struct{}{}
	return w.cut
}

func (w *Worker) forget(a *attempt) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.held, a)
}

// cutShort cancels all handlers that run.
func (w *Worker) cutShort() {
	w.mu.Lock()
	w.cut = true
	held := slices.Collect(maps.Keys(w.held))
	w.mu.Unlock()
	for _, a := range held {
		a.stop(ErrDraining)
	}
}

// strays is ErrStrayHandlers with the jobs whose handlers still run, or nil.
func (w *Worker) strays() error {
	var ids []string
	for _, r := range w.Running() {
		if r.Stray {
			ids = append(ids, r.JobID)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	return fmt.Errorf("run worker: %w: %s", ErrStrayHandlers, strings.Join(ids, ", "))
}

func (h Hooks) started(j *job.Job) {
	if h.JobStarted != nil {
		h.JobStarted(*j)
	}
}

func (h Hooks) settled(j *job.Job, o job.Outcome, err error, took time.Duration) {
	if h.JobSettled != nil {
		h.JobSettled(*j, o, err, took)
	}
}

func (h Hooks) lost(j *job.Job, cause error, took time.Duration) {
	if h.LeaseLost != nil {
		h.LeaseLost(*j, cause, took)
	}
}

package worker

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"

	"github.com/weft-fabric/weft/job"
)

// Task is one attempt at a job, as its handler sees it. Its methods may be
// called from several goroutines.
type Task struct {
	job    *job.Job // as it was claimed; never written
	inputs *inputs  // shared by all tasks of the worker; nil opens none

	base    *slog.Logger
	logOnce sync.Once
	log     *slog.Logger // made by the first Log, since most jobs log nothing

	onProgress func() // called when there is something new; nil outside a worker

	mu     sync.Mutex
	latest json.RawMessage // guarded by mu: set by Progress, taken by a renewal
}

// NewTask makes a task outside a worker, for the tests of a handler. log may be
// nil for none; it opens no input, see WithInputs.
func NewTask(j job.Job, log *slog.Logger) *Task {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Task{job: &j, base: log}
}

// WithInputs has a task of NewTask open its input, of at most limit bytes, before
// it is given to a handler.
func (t *Task) WithInputs(from Inputs, limit int64) *Task {
	t.inputs = &inputs{from, limit}
	return t
}

// Job is the record as it was when the job was claimed.
func (t *Task) Job() job.Job { return *t.job }

// Fence is the number of this claim. It only grows while the job's record lives:
// whoever stores the handler's results elsewhere can refuse a smaller one.
func (t *Task) Fence() int64 { return t.job.Fence }

// Log is a logger whose lines carry the job, stage, attempt, fence and worker.
func (t *Task) Log() *slog.Logger {
	t.logOnce.Do(func() {
		t.log = t.base.With("job", t.job.ID, "stage", t.job.Stage,
			"attempt", t.job.Attempt, "fence", t.job.Fence)
		if t.job.WorkerID != "" {
			t.log = t.log.With("worker", t.job.WorkerID)
		}
	})
	return t.log
}

// Progress reports how far the handler has come, as JSON of at most
// job.MaxProgressSize bytes. It does not wait: the value is stored in the record
// with the next renewal, which comes soon but not more than once a second, and
// only the latest is kept. It fails if v cannot be encoded or is too large, and
// then the value before stays.
func (t *Task) Progress(v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("progress: %w", err)
	}
	if len(text) > job.MaxProgressSize {
		return fmt.Errorf("progress of %d bytes is larger than %d", len(text), job.MaxProgressSize)
	}
	t.mu.Lock()
	t.latest = text
	t.mu.Unlock()
	if t.onProgress != nil {
		t.onProgress()
	}
	return nil
}

// takeProgress gives what was reported and not yet taken, or nil.
func (t *Task) takeProgress() json.RawMessage {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := t.latest
	t.latest = nil
	return text
}

// putBackProgress undoes takeProgress after a renewal that failed, unless the
// handler has reported something newer.
func (t *Task) putBackProgress(text json.RawMessage) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.latest == nil {
		t.latest = text
	}
}

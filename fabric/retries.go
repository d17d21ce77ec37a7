package fabric

import (
	"context"
	"slices"
	"time"

	"github.com/weft-fabric/weft/job"
)

// A retry's item goes to the tail of its lane, where a long backlog may lie before
// it. But an item is only a hint: whoever knows of the job may claim it out of its
// turn. A worker therefore remembers the retries of the jobs that failed in its
// hands, and looks at those that are due before it asks for items. If it ends
// before, or has too many to remember, they are served in their turn.

const (
	// retryLag is how long after its time a retry's schedule has fired.
	retryLag = 300 * time.Millisecond
	// retriesKept is how many retries a worker remembers for a stage.
	retriesKept = 4096
)

// retry is a job that this worker failed and that is to be tried again.
type retry struct {
	id   string
	lane int
	at   time.Time
}

// remember notes a retry. A stage with a limit counts items that were handed out,
// so there each job has to wait for its turn.
func (r *Runner) remember(st Stage, j job.Job) {
	if j.State != job.StateRetryWaiting || st.Concurrency > 0 {
		return
	}
	r.mu.Lock()
	t := r.takers[j.Stage]
	r.mu.Unlock()
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.due) < retriesKept {
		t.due = append(t.due, retry{j.ID, j.Lane(), j.AvailableAt.Add(retryLag)})
	}
}

// retry begins to claim the retries of the lane that are due, as far as there is
// room for them.
func (t *taker) retry(lane int) {
	if !t.anyDue() || t.r.f.stages.paused(t.stage) {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.r.f.Now()
	t.due = slices.DeleteFunc(t.due, func(due retry) bool {
		if due.lane != lane || now.Before(due.at) || t.missing() <= 0 {
			return false
		}
		t.inWork++
		t.claiming.Add(1)
		t.charge(lane)
		go t.r.takeRetry(t.stage, due, t.finish)
		return true
	})
}

func (t *taker) anyDue() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.r.f.Now()
	return slices.ContainsFunc(t.due, func(due retry) bool { return !now.Before(due.at) })
}

// takeRetry claims the job of a retry, unless somebody else has it already, and
// calls done as take does.
func (r *Runner) takeRetry(stage string, due retry, done func(*holding)) {
	ctx, cancel := context.WithTimeout(context.Background(), giveBackWait)
	defer cancel()
	item, there, err := r.f.queue.Pick(ctx, stage, due.lane, due.id)
	if err != nil {
		r.log.Debug("retry left to its turn", "job", due.id, "error", err)
	}
	if err != nil || !there {
		done(nil)
		return
	}
	r.take(item, done)
}

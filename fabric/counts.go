package fabric

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/weft-fabric/weft/job"
	"github.com/weft-fabric/weft/kv"
)

// The keeper counts the jobs of each stage that have ended, and those that wait
// for others, since no stream knows of them. It counts all records once, at the
// beginning of its term, and from then on what it sees change. It keeps no job's
// name for that: a record that has ended is noted in the hour in which the server
// removes it, and taken off when that hour is over. What is changed past the
// fabric, such as a record removed by hand, is counted right in the next term.

const (
	// countsEvery is how often counts that have changed are published.
	countsEvery = 3 * time.Second
	// countGrain is how exactly the end of a record's time is noted.
	countGrain = time.Hour
)

// Counts are how many records of a stage there are that no stream knows of.
type Counts struct {
	Blocked   int `json:"blocked"` // wait for jobs that have not succeeded
	Succeeded int `json:"succeeded"`
	Failed    int `json:"failed"`
	Cancelled int `json:"cancelled"`
}

// countRecord is the stored form, under count.<stage>.
type countRecord struct {
	Stage string `json:"stage"`
	Counts
	At     time.Time `json:"at"`
	Keeper string    `json:"keeper"`
}

// tallies are the counts of all stages. The goroutine of the keeper's follower notes
// records, and another publishes.
type tallies struct {
	retention Retention

	mu      sync.Mutex
	ended   map[string]map[ending]int // guarded by mu: by stage
	blocked map[string]string         // guarded by mu: the stage of a blocked job
}

// ending is a state and the hour in which a record of it is removed.
type ending struct {
	state job.State
	hour  int64
}

func newTallies(r Retention) *tallies {
	return &tallies{retention: r, ended: map[string]map[ending]int{}, blocked: map[string]string{}}
}

// note counts a record as it now is. changed is when it was written.
func (t *tallies) note(j job.Job, changed, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.blocked, j.ID)
	switch {
	case j.State.Terminal():
		t.add(j.Stage, t.ending(j.State, changed, now), 1)
	case len(j.WaitingOn) > 0:
		t.blocked[j.ID] = j.Stage
	}
}

// ending is where a record that ended at a time is counted. One that is there past
// its time is about to go.
func (t *tallies) ending(state job.State, ended, now time.Time) ending {
	gone := ended.Add(t.retention.of(state)).Unix()
	return ending{state, max(gone, now.Unix())/int64(countGrain/time.Second) + 1}
}

// add changes one count; mu is held.
func (t *tallies) add(stage string, e ending, n int) {
	if t.ended[stage] == nil {
		t.ended[stage] = map[ending]int{}
	}
	if t.ended[stage][e] += n; t.ended[stage][e] <= 0 {
		delete(t.ended[stage], e)
	}
}

// retried takes a failed record off that an operator has given another attempt.
func (t *tallies) retried(stage string, failed, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.add(stage, t.ending(job.StateFailed, failed, now), -1)
}

// gone notes that there is no such record any more. If it had ended, its hour
// takes it off.
func (t *tallies) gone(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.blocked, id)
}

// now gives the counts of every stage that ever had one, without those whose time
// is over.
func (t *tallies) now(now time.Time) map[string]Counts {
	t.mu.Lock()
	defer t.mu.Unlock()
	hour := now.Unix() / int64(countGrain/time.Second)
	all := map[string]Counts{}
	for stage, ended := range t.ended {
		var c Counts
		for e, n := range ended {
			if e.hour <= hour {
				delete(ended, e)
				continue
			}
			switch e.state {
			case job.StateSucceeded:
				c.Succeeded += n
			case job.StateFailed:
				c.Failed += n
			case job.StateCancelled:
				c.Cancelled += n
			}
		}
		all[stage] = c
	}
	for _, stage := range t.blocked {
		c := all[stage]
		c.Blocked++
		all[stage] = c
	}
	return all
}

// failedBefore tells whether a record that waits for its next attempt had failed
// before that, and when: an operator's retry makes it available at once, some time
// after its last attempt ended, where a failure does both in one step.
func failedBefore(raw []byte) (at time.Time, ok bool) {
	j, err := job.Decode(raw)
	if err != nil || j.State != job.StateRetryWaiting || len(j.AttemptsLog) == 0 {
		return at, false
	}
	at = j.AttemptsLog[len(j.AttemptsLog)-1].Ended
	return at, !at.IsZero() && at.Before(j.UpdatedAt) && j.AvailableAt.Equal(j.UpdatedAt)
}

// count notes a record for the counts.
func (k *keeper) count(e kv.Entry, j job.Job) {
	k.tallies.note(j, e.Created, k.f.Now())
	if !k.synced || j.State != job.StateRetryWaiting {
		return // before that, what is counted is what there is
	}
	if failed, ok := failedBefore(e.Value); ok {
		k.tallies.retried(j.Stage, failed, k.f.Now())
	}
}

// publishCounts publishes the counts of every stage at the beginning of a term,
// and then those that change.
func (k *keeper) publishCounts(ctx context.Context) {
	published, err := k.published(ctx)
	for ; err != nil && ctx.Err() == nil; published, err = k.published(ctx) {
		k.f.log.Warn("counts not published", "error", err)
		pause(ctx, keeperGrace)
	}
	for ; ctx.Err() == nil; pause(ctx, countsEvery) {
		counts := k.tallies.now(k.f.Now())
		for stage := range published { // whose last record is gone
			if _, ok := counts[stage]; !ok {
				counts[stage] = Counts{}
			}
		}
		for _, stage := range slices.Sorted(maps.Keys(counts)) {
			p := published[stage]
			if p == nil {
				p = &publishedCount{}
				published[stage] = p
			}
			if !p.mine || p.counts != counts[stage] {
				k.publishCount(ctx, stage, counts[stage], p)
			}
		}
	}
}

// publishedCount is what stands under a stage's key.
type publishedCount struct {
	counts   Counts
	revision uint64
	mine     bool // this term has written it
}

// published finds the counts that earlier terms have left.
func (k *keeper) published(ctx context.Context) (map[string]*publishedCount, error) {
	found := map[string]*publishedCount{}
	entries, err := k.f.bucket.Few(ctx, kv.AllCounts)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		stage, _ := kv.CountedStage(e.Key)
		found[stage] = &publishedCount{revision: e.Revision}
	}
	return found, nil
}

// publishCount writes one stage's counts. What does not succeed is tried again
// with the next ones.
func (k *keeper) publishCount(ctx context.Context, stage string, c Counts, p *publishedCount) {
	value, err := json.Marshal(countRecord{Stage: stage, Counts: c, At: k.f.Now(), Keeper: k.id})
	if err != nil {
		k.f.log.Warn("counts not published", "stage", stage, "error", err)
		return
	}
	revision, err := k.f.bucket.Swap(ctx, kv.Write{Key: kv.CountKey(stage), Value: value, Revision: p.revision})
	if conflict, moved := errors.AsType[*kv.Conflict](err); moved {
		p.revision = conflict.Current.Revision
		return
	}
	if err != nil {
		if ctx.Err() == nil {
			k.f.log.Warn("counts not published", "stage", stage, "error", err)
		}
		return
	}
	p.counts, p.revision, p.mine = c, revision, true
}

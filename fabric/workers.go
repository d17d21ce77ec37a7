package fabric

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/weft-fabric/weft/kv"
)

const (
	// AnnounceEvery is how often a worker should make itself known.
	AnnounceEvery = 10 * time.Second
	// presenceTTL is how long a worker stays known that says nothing more.
	presenceTTL = 3 * AnnounceEvery
)

// Presence is what a worker makes known of itself, for people. Nothing is decided
// by it: whether a job is held says its record alone.
type Presence struct {
	ID      string       `json:"id"`
	Host    string       `json:"host"`
	PID     int          `json:"pid"`
	Stages  []string     `json:"stages"`
	Slots   int          `json:"slots"` // of each stage
	Running []RunningJob `json:"running"`
	Started time.Time    `json:"started"`
	Seen    time.Time    `json:"seen"` // set by Announce
}

// RunningJob is one job in a worker's hands.
type RunningJob struct {
	ID      string    `json:"job_id"`
	Stage   string    `json:"stage"`
	Attempt int64     `json:"attempt"`
	Fence   int64     `json:"fence"`
	Since   time.Time `json:"since"`
	// Stray is a handler that did not stop when its context ended; its slot and
	// its lease have been taken from it.
	Stray bool `json:"stray,omitempty"`
}

// TwinError is another worker that makes itself known under the same id. Both are
// safe, since a claim is named by its fence too, but what is shown of them mixes.
type TwinError struct{ Other Presence }

// Error names the other one.
func (e *TwinError) Error() string {
	return fmt.Sprintf("worker %s is also process %d on %s, seen %s; give each worker an id of its own",
		e.Other.ID, e.Other.PID, e.Other.Host, e.Other.Seen.Format(time.RFC3339))
}

// Announce makes the worker known until presenceTTL from now. It fails with a
// *TwinError when another process did so under the same id since this one's last
// call; the worker is known all the same.
func (r *Runner) Announce(ctx context.Context, p Presence) error {
	p.ID, p.Seen = r.id, r.f.Now()
	value, err := json.Marshal(p)
	if err != nil {
		return err
	}
	e, err := r.f.bucket.Get(ctx, kv.WorkerKey(r.id))
	if err != nil {
		return explain(r.f.nc, err)
	}
	_, err = r.f.bucket.Swap(ctx, kv.Write{Key: kv.WorkerKey(r.id), Value: value, Revision: e.Revision, TTL: presenceTTL})
	if conflict, moved := errors.AsType[*kv.Conflict](err); moved {
		e, err = conflict.Current, nil
	}
	if err != nil {
		return explain(r.f.nc, err)
	}
	var other Presence
	if e.Exists() && json.Unmarshal(e.Value, &other) == nil && (other.Host != p.Host || other.PID != p.PID) {
		return &TwinError{Other: other}
	}
	return nil
}

// Withdraw makes the worker unknown, when it has ended.
func (r *Runner) Withdraw(ctx context.Context) error {
	e, err := r.f.bucket.Get(ctx, kv.WorkerKey(r.id))
	if err != nil || !e.Exists() {
		return err
	}
	return r.f.bucket.Delete(ctx, e.Key, e.Revision)
}

// Workers gives what workers make known of themselves. One that fell silent stays
// for half a minute.
func (f *Fabric) Workers(ctx context.Context) iter.Seq2[Presence, error] {
	return func(yield func(Presence, error) bool) {
		entries, err := f.bucket.Few(ctx, kv.AllWorkers)
		if err != nil {
			yield(Presence{}, explain(f.nc, err))
			return
		}
		for _, e := range entries {
			var p Presence
			if err := json.Unmarshal(e.Value, &p); err != nil {
				err = fmt.Errorf("key %s: %w: %w", e.Key, kv.ErrUnreadable, err)
				if !yield(p, err) {
					return
				}
				continue
			}
			if !yield(p, nil) {
				return
			}
		}
	}
}

package fabric

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/weft-fabric/weft/job"
	"github.com/weft-fabric/weft/kv"
)

// pointer names the current job of a key. Its order only grows; of two equal
// orders the greater id is ahead.
type pointer struct {
	ID    string `json:"id"`
	Order int64  `json:"key_order"`
}

func pointerTo(j job.Job) pointer { return pointer{j.ID, j.KeyOrder} }

func (p pointer) json() []byte {
	text, _ := json.Marshal(p) // a text and a number always marshal
	return text
}

// ahead reports whether p supersedes q.
func (p pointer) ahead(q pointer) bool {
	return p.Order > q.Order || p.Order == q.Order && p.ID > q.ID
}

// supersededBy is the reason of a job that a newer one of its key has replaced.
func supersededBy(p pointer) string { return "superseded by " + p.ID }

// pointer reads the pointer of a key and its revision; both are zero when the
// key never had a job, or none for longer than any record is kept.
func (f *Fabric) pointer(ctx context.Context, key string) (pointer, uint64, error) {
	e, err := f.bucket.Get(ctx, kv.CurrentKey(key))
	if err != nil || !e.Exists() {
		return pointer{}, 0, err
	}
	var p pointer
	if err := json.Unmarshal(e.Value, &p); err != nil {
		return pointer{}, 0, fmt.Errorf("pointer of key %q: %w: %w", key, kv.ErrUnreadable, err)
	}
	return p, e.Revision, nil
}

// nextOrder is the order of a new job of the key: the server's time, and in any
// case ahead of the pointer.
func (f *Fabric) nextOrder(p pointer) int64 { return max(f.Now().UnixNano(), p.Order+1) }

// recordUnlessLive creates record and pointer in one atomic step, unless the
// key's current job is live: then the new job is refused or that one returned.
func (f *Fabric) recordUnlessLive(ctx context.Context, spec job.Spec, fresh job.Job, policy Conflict) (kv.Record, error) {
	fresh, missing, err := f.withoutMet(ctx, fresh)
	if err != nil {
		return kv.Record{}, err
	}
	if missing != nil {
		return f.despite(ctx, missing, spec)
	}
	for range maxRounds {
		p, revision, err := f.pointer(ctx, fresh.Key)
		if err != nil {
			return kv.Record{}, err
		}
		live, err := f.liveJob(ctx, p.ID)
		switch {
		case err != nil:
			return kv.Record{}, err
		case live != nil && (policy == Coalesce || p.ID == spec.ID && spec.Same(live.Job)):
			return *live, nil
		case live != nil:
			return *live, &job.Error{Code: job.CodeDuplicateJob, JobID: p.ID, Reason: "it is the live job of the key"}
		}
		fresh.KeyOrder = f.nextOrder(p)
		rec, err := f.bucket.SaveWith(ctx, fresh, kv.Write{
			Key: kv.CurrentKey(fresh.Key), Value: pointerTo(fresh).json(), Revision: revision, TTL: f.opts.Retention.pointer(),
		})
		conflict, moved := errors.AsType[*kv.Conflict](err)
		if !moved {
			return rec, err
		}
		if conflict.Key == kv.JobKey(spec.ID) {
			rec, err := kv.RecordOf(spec.ID, conflict.Current)
			return sameJob(spec, rec, err)
		}
	}
	return kv.Record{}, errRestless
}

// liveJob reads a job that has not ended; nil if it has, or if there is none.
func (f *Fabric) liveJob(ctx context.Context, id string) (*kv.Record, error) {
	if id == "" {
		return nil, nil
	}
	rec, err := f.bucket.Load(ctx, id)
	if errors.Is(err, job.ErrMissingJob) || err == nil && rec.Job.State.Terminal() {
		return nil, nil
	}
	return &rec, err
}

// makeCurrent moves the pointer of the job's key forward to it and cancels the
// job it named before. When the pointer is ahead already, the job itself is
// superseded, and cancelled.
func (f *Fabric) makeCurrent(ctx context.Context, rec kv.Record) (kv.Record, error) {
	if rec.Job.Key == "" || rec.Job.State.Terminal() {
		return rec, nil
	}
	before, err := f.advance(ctx, rec.Job)
	if err != nil {
		return rec, err
	}
	mine := pointerTo(rec.Job)
	switch {
	case before.ahead(mine):
		return f.cancel(ctx, rec, supersededBy(before))
	case before.ID != "" && before != mine:
		_, err = f.supersede(ctx, before.ID, mine)
		return rec, err
	}
	return rec, nil
}

// advance moves the pointer forward to the job and returns what it was. It
// leaves a pointer that is ahead.
func (f *Fabric) advance(ctx context.Context, j job.Job) (pointer, error) {
	mine := pointerTo(j)
	for {
		p, revision, err := f.pointer(ctx, j.Key)
		if err != nil || p == mine || p.ahead(mine) {
			return p, err
		}
		_, err = f.bucket.Swap(ctx, kv.Write{Key: kv.CurrentKey(j.Key), Value: mine.json(), Revision: revision, TTL: f.opts.Retention.pointer()})
		if _, moved := errors.AsType[*kv.Conflict](err); !moved {
			return p, err
		}
	}
}

// pointer is how long a pointer is kept after it moved: longer than any record,
// so that no record outlives what supersedes it.
func (r Retention) pointer() time.Duration { return 2 * max(r.Succeeded, r.Cancelled, r.Failed) }

// supersede cancels the job that the pointer named before, if it has not ended.
// Whoever dies before this is done leaves it to the claim, which looks at the
// pointer, and to the keeper.
func (f *Fabric) supersede(ctx context.Context, id string, by pointer) (cancelled bool, err error) {
	rec, err := f.bucket.Load(ctx, id)
	if errors.Is(err, job.ErrMissingJob) || errors.Is(err, kv.ErrUnreadable) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if rec.Job.State.Terminal() || !by.ahead(pointerTo(rec.Job)) {
		return false, nil
	}
	_, err = f.cancel(ctx, rec, supersededBy(by))
	if errors.Is(err, job.ErrTerminalJob) {
		return false, nil
	}
	return err == nil, err
}

// current tells whether the job is the current one of its key, moving a pointer
// that is behind, and by which job it is superseded if not.
func (f *Fabric) current(ctx context.Context, j job.Job) (by pointer, ok bool, err error) {
	if j.Key == "" {
		return pointer{}, true, nil
	}
	p, err := f.advance(ctx, j)
	if err != nil {
		return pointer{}, false, err
	}
	return p, !p.ahead(pointerTo(j)), nil
}

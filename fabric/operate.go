package fabric

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/weft-fabric/weft/job"
	"github.com/weft-fabric/weft/kv"
)

// maxRounds bounds how often one call runs its transition again after the record
// moved under it. Each round means that somebody else has changed the job.
const maxRounds = 32

// errRestless means that a record changed at every try of a call.
var errRestless = errors.New("the record changed at every try; try again")

// Cancel ends a job that has not ended, whoever holds it. A holder is told at
// once; whatever it still reports is dropped. It fails with job.ErrMissingJob or
// job.ErrTerminalJob.
func (f *Fabric) Cancel(ctx context.Context, id, reason string) (job.Job, error) {
	if err := job.CheckID(id); err != nil {
		return job.Job{}, err
	}
	rec, err := f.bucket.Load(ctx, id)
	if errors.Is(err, job.ErrMissingJob) {
		rec, err = f.recordBare(ctx, id, err)
	}
	if err == nil {
		rec, err = f.cancel(ctx, rec, reason)
	}
	if err != nil {
		return rec.Job, fmt.Errorf("cancel %s: %w", id, err)
	}
	return rec.Job, nil
}

// ErrOtherState means that a job is not, or no longer, in a state that was asked
// for.
var ErrOtherState = errors.New("the job is in another state")

// CancelIn is Cancel for a job that is in one of the states when it is cancelled,
// so that a job which was to be spared once it runs is. It fails with
// ErrOtherState too.
func (f *Fabric) CancelIn(ctx context.Context, id, reason string, states ...job.State) (job.Job, error) {
	rec, err := f.load(ctx, id)
	if err == nil {
		rec, err = f.cancelIf(ctx, rec, reason, func(j job.Job) error {
			if !j.State.Terminal() && !slices.Contains(states, j.State) {
				return fmt.Errorf("%w: %s", ErrOtherState, j.State)
			}
			return nil
		})
	}
	if err != nil {
		return rec.Job, fmt.Errorf("cancel %s: %w", id, err)
	}
	return rec.Job, nil
}

// recordBare makes the record of a job that is only an item yet: published
// without the fabric, and not taken.
func (f *Fabric) recordBare(ctx context.Context, id string, missing error) (kv.Record, error) {
	for e, err := range f.bucket.List(ctx, kv.AllStages) {
		if err != nil {
			return kv.Record{}, err
		}
		stage, _ := kv.StageOf(e.Key)
		item, found, err := f.queue.Find(ctx, stage, id)
		if err != nil {
			return kv.Record{}, err
		}
		if !found || item.Revision != 0 {
			continue
		}
		spec, err := f.bareSpec(item)
		if err != nil {
			return kv.Record{}, fmt.Errorf("its item is no spec; the next worker ends it as failed: %w", err)
		}
		j, err := job.New(spec, f.Now())
		if err != nil {
			return kv.Record{}, err
		}
		rec, err := f.bucket.Save(ctx, j, 0, 0)
		if conflict, taken := errors.AsType[*kv.Conflict](err); taken {
			return kv.RecordOf(id, conflict.Current)
		}
		return rec, err
	}
	return kv.Record{}, missing
}

// cancel cancels the job, first as the caller saw it and then as it stands.
func (f *Fabric) cancel(ctx context.Context, rec kv.Record, reason string) (kv.Record, error) {
	return f.cancelIf(ctx, rec, reason, func(job.Job) error { return nil })
}

// cancelIf is cancel as long as allowed gives no error.
func (f *Fabric) cancelIf(ctx context.Context, rec kv.Record, reason string, allowed func(job.Job) error) (kv.Record, error) {
	holder := ""
	rec, err := f.transition(ctx, rec, func(j job.Job) (job.Job, error) {
		if err := allowed(j); err != nil {
			return j, err
		}
		holder = j.WorkerID
		return j.Cancel(j.Fence, reason, f.Now())
	})
	if err != nil {
		return rec, err
	}
	if holder != "" {
		f.signal(holder, rec.Job.ID)
	}
	// The record has ended; an item that stays is void, and the next taker
	// removes it.
	if err := f.queue.Withdraw(ctx, rec.Job.Stage, rec.Job.Lane(), rec.Job.ID); err != nil {
		f.log.Warn("item of a cancelled job not withdrawn", "job", rec.Job.ID, "error", err)
	}
	return rec, nil
}

// Retry gives a failed job one more attempt. It fails with job.ErrMissingJob or
// job.ErrNotFailed.
func (f *Fabric) Retry(ctx context.Context, id, reason string) (job.Job, error) {
	if err := job.CheckID(id); err != nil {
		return job.Job{}, err
	}
	rec, err := f.bucket.Load(ctx, id)
	if err == nil {
		rec, err = f.transition(ctx, rec, func(j job.Job) (job.Job, error) {
			if j.State == job.StateFailed && j.InputRef == "" {
				return j, job.Invalid("the job was rejected, it has nothing to run; enqueue it with another id")
			}
			return j.Retry(j.Fence, reason, f.Now())
		})
	}
	if err == nil {
		err = f.offer(ctx, rec)
	}
	if err != nil {
		return rec.Job, fmt.Errorf("retry %s: %w", id, err)
	}
	return rec.Job, nil
}

// transition runs a pure transition on the record and saves the result, and runs
// it again on what it finds when the record has moved meanwhile.
func (f *Fabric) transition(ctx context.Context, rec kv.Record, change func(job.Job) (job.Job, error)) (kv.Record, error) {
	for range maxRounds {
		next, err := change(rec.Job)
		if err != nil {
			return rec, err
		}
		saved, err := f.bucket.Save(ctx, next, rec.Revision, f.opts.Retention.of(next.State))
		conflict, moved := errors.AsType[*kv.Conflict](err)
		if !moved {
			if err != nil {
				return rec, explain(f.nc, err)
			}
			f.observe(&rec.Job, &saved.Job)
			return saved, nil
		}
		if rec, err = kv.RecordOf(rec.Job.ID, conflict.Current); err != nil {
			return rec, err
		}
	}
	return rec, errRestless
}

// signal hints to a worker that a job it holds has changed.
func (f *Fabric) signal(worker, id string) {
	if err := f.nc.Publish(f.signalSubject(worker), []byte(id)); err != nil {
		f.log.Debug("worker not signalled", "worker", worker, "job", id, "error", err)
	}
}

func (f *Fabric) signalSubject(worker string) string {
	return f.opts.Namespace + ".signal." + worker
}

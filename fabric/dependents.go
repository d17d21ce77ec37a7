package fabric

import (
	"context"
	"errors"
	"fmt"

	"github.com/weft-fabric/weft/job"
	"github.com/weft-fabric/weft/kv"
)

// lookAtDependencies reads what a blocked job waits for from the leader, takes
// off its list what has succeeded, and offers it once the list is empty. If one
// has failed for good and the job's policy says so, the job is cancelled.
func (k *keeper) lookAtDependencies(ctx context.Context, id string) error {
	rec, err := k.f.bucket.Load(ctx, id)
	if err != nil || !rec.Job.State.Idle() || len(rec.Job.WaitingOn) == 0 {
		return err
	}
	met, broken, err := k.f.dependencies(ctx, rec.Job.WaitingOn)
	if err != nil {
		return err
	}
	if broken != nil && rec.Job.OnDependencyFailure == job.CancelOnFailure {
		_, err := k.f.cancel(ctx, rec, fmt.Sprintf("dependency %s %s", broken.ID, broken.State))
		if err == nil {
			k.f.opts.Observer.Kept(CancelledDependent)
		}
		return err
	}
	if len(met) == 0 {
		return nil
	}
	rec, err = k.f.transition(ctx, rec, func(j job.Job) (job.Job, error) { return without(j, met, k.f) })
	if err != nil {
		return err
	}
	if err := k.f.offer(ctx, rec); err != nil {
		return err
	}
	if ready(rec.Job) {
		k.f.opts.Observer.Kept(ReleasedDependent)
	}
	return nil
}

// without takes the met dependencies off a job's list. If none of them is on it
// any more, whoever took them off offers the job too.
func without(j job.Job, met []string, f *Fabric) (job.Job, error) {
	changed := false
	for _, id := range met {
		var listed bool
		j, listed = j.DependencyMet(id, f.Now())
		changed = changed || listed
	}
	if !changed {
		return j, errDone
	}
	return j, nil
}

// dependencies reads jobs and tells which have succeeded, and one that failed or
// was cancelled, if any.
func (f *Fabric) dependencies(ctx context.Context, ids []string) (met []string, broken *job.Job, err error) {
	for _, id := range ids {
		rec, err := f.bucket.Load(ctx, id)
		if errors.Is(err, job.ErrMissingJob) || errors.Is(err, kv.ErrUnreadable) {
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		switch {
		case job.DependencyError(id, &rec.Job) == nil:
			met = append(met, id)
		case rec.Job.State.Terminal():
			broken = &rec.Job
		}
	}
	return met, broken, nil
}

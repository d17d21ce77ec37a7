package fabric

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/weft-fabric/weft/internal/natserr"
	"github.com/weft-fabric/weft/job"
	"github.com/weft-fabric/weft/kv"
	"github.com/weft-fabric/weft/stream"
)

// idPrefix marks the ids that the fabric makes.
const idPrefix = "jb_"

// Conflict is what an enqueue does when its key has a live job already.
type Conflict string

// The conflict policies; the empty one means Supersede.
const (
	Supersede Conflict = "supersede" // the new job takes the place of the live one
	Reject    Conflict = "reject"    // the new job is refused with duplicate_job, naming the live one
	Coalesce  Conflict = "coalesce"  // the live job is returned in place of the new one
)

// EnqueueOption is one wish of one call of Enqueue.
type EnqueueOption func(*enqueueing)

// OnConflict says what to do when the spec's key has a live job.
func OnConflict(policy Conflict) EnqueueOption {
	return func(e *enqueueing) { e.policy = policy }
}

type enqueueing struct{ policy Conflict }

// Enqueue accepts a job: first its record is written, then the pointer of its
// key is moved to it, then its item is published. Once the record is there the
// job is accepted, whatever happens to the rest.
//
// A spec without id gets a fresh one, a spec without max_attempts the fabric's
// default. The same id with the same spec once more gives the job as it stands,
// and makes good what an earlier call did not get done; with another spec it is
// refused with job.ErrDuplicateJob. Other errors: job.ErrInvalidJob,
// job.ErrMissingDependency for a dependency that no job has the id of, and
// kv.ErrUndecided when the server did not answer in time; the returned job then
// has the id with which to repeat the call.
func (f *Fabric) Enqueue(ctx context.Context, spec job.Spec, opts ...EnqueueOption) (job.Job, error) {
	var e enqueueing
	for _, opt := range opts {
		opt(&e)
	}
	spec = f.complete(spec)
	end := f.traced(ctx, &spec)
	j, err := f.enqueue(ctx, spec, e)
	end(j, err)
	return j, err
}

func (f *Fabric) enqueue(ctx context.Context, spec job.Spec, e enqueueing) (job.Job, error) {
	fresh, err := f.fresh(spec)
	if err != nil {
		return job.Job{}, err
	}
	if _, err := f.stages.get(ctx, spec.Stage, spec.Lane()); err != nil {
		return fresh, err
	}
	rec, err := f.accept(ctx, spec, fresh, e.policy)
	if err != nil {
		return fresh, fmt.Errorf("enqueue %s: %w", spec.ID, explain(f.nc, err))
	}
	if err := f.offerFirst(ctx, rec); err != nil {
		return rec.Job, fmt.Errorf("enqueue %s: its record is written, its item is not; repeat the call with this id: %w", spec.ID, explain(f.nc, err))
	}
	return rec.Job, nil
}

// accept writes the record and moves its key's pointer, by the policy.
func (f *Fabric) accept(ctx context.Context, spec job.Spec, fresh job.Job, policy Conflict) (kv.Record, error) {
	switch policy {
	case "", Supersede:
		rec, err := f.record(ctx, spec, fresh)
		if err != nil {
			return rec, err
		}
		return f.makeCurrent(ctx, rec)
	case Reject, Coalesce:
		if fresh.Key == "" {
			return kv.Record{}, job.Invalid("on_conflict %s needs a key", policy)
		}
		return f.recordUnlessLive(ctx, spec, fresh, policy)
	}
	return kv.Record{}, job.Invalid("on_conflict %q is not supersede, reject or coalesce", policy)
}

// complete fills in what a caller may leave to the fabric.
func (f *Fabric) complete(spec job.Spec) job.Spec {
	if spec.ID == "" {
		spec.ID = idPrefix + ulid.Make().String()
	}
	if spec.MaxAttempts == 0 {
		spec.MaxAttempts = f.opts.MaxAttempts
	}
	return spec
}

// fresh makes the record of a new job and refuses one that could outgrow the
// server's messages.
func (f *Fabric) fresh(spec job.Spec) (job.Job, error) {
	j, err := job.New(spec, f.Now())
	if err != nil {
		return job.Job{}, err
	}
	limit := f.nc.MaxPayload() / 2
	if size := int64(len(j.AppendJSON(nil))) + job.Growth; size > limit {
		return job.Job{}, job.Invalid("a record that may grow to %d bytes is above half the server's max_payload, %d; make the spec smaller or raise max_payload", size, limit)
	}
	return j, nil
}

// record creates the job's record, or finds the one that an equal spec made.
func (f *Fabric) record(ctx context.Context, spec job.Spec, fresh job.Job) (kv.Record, error) {
	fresh, missing, err := f.withoutMet(ctx, fresh)
	if err != nil {
		return kv.Record{}, err
	}
	if missing != nil {
		return f.despite(ctx, missing, spec)
	}
	if fresh.Key != "" {
		p, _, err := f.pointer(ctx, fresh.Key)
		if err != nil {
			return kv.Record{}, err
		}
		fresh.KeyOrder = f.nextOrder(p)
	}
	rec, err := f.bucket.Save(ctx, fresh, 0, 0)
	if conflict, taken := errors.AsType[*kv.Conflict](err); taken {
		rec, err := kv.RecordOf(spec.ID, conflict.Current)
		return sameJob(spec, rec, err)
	}
	return rec, err
}

// despite gives the job that an equal spec made before, although a dependency is
// missing: only a job that is there already may wait for one that is not.
func (f *Fabric) despite(ctx context.Context, missing error, spec job.Spec) (kv.Record, error) {
	rec, err := f.bucket.Load(ctx, spec.ID)
	if errors.Is(err, job.ErrMissingJob) {
		return rec, missing
	}
	return sameJob(spec, rec, err)
}

// sameJob gives the record that an enqueue found under its id, if an equal spec
// made it.
func sameJob(spec job.Spec, rec kv.Record, err error) (kv.Record, error) {
	if err != nil {
		return rec, err
	}
	if !spec.Same(rec.Job) {
		return rec, &job.Error{Code: job.CodeDuplicateJob, JobID: spec.ID, Reason: "the id has another spec; that job is " + string(rec.Job.State)}
	}
	return rec, nil
}

// withoutMet takes off a job's list what has succeeded already. Whatever else it
// waits for must exist: that is what keeps a circle of jobs from waiting for
// itself.
func (f *Fabric) withoutMet(ctx context.Context, j job.Job) (_ job.Job, missing, err error) {
	for _, id := range j.WaitingOn {
		rec, err := f.bucket.Load(ctx, id)
		switch {
		case errors.Is(err, job.ErrMissingJob):
			return j, job.DependencyError(id, nil), nil
		case errors.Is(err, kv.ErrUnreadable): // there, and not known to have succeeded
		case err != nil:
			return j, nil, err
		case job.DependencyError(id, &rec.Job) == nil:
			j, _ = j.DependencyMet(id, j.CreatedAt)
		}
	}
	return j, nil, nil
}

// offerFirst publishes the item or the schedule of a job that waits for nothing
// else. An item that is there stays.
func (f *Fabric) offerFirst(ctx context.Context, rec kv.Record) error {
	return f.offerBy(ctx, rec, f.queue.OfferNew)
}

// offer publishes the item of a waiting job in place of the one that is there,
// or its schedule when it is not due.
func (f *Fabric) offer(ctx context.Context, rec kv.Record) error {
	return f.offerBy(ctx, rec, f.queue.Offer)
}

// offerBy publishes what a waiting job needs to come to a worker: nothing while
// it waits for others, a schedule before its time, and then its item.
func (f *Fabric) offerBy(ctx context.Context, rec kv.Record, now func(context.Context, stream.Item) error) error {
	if !ready(rec.Job) {
		return nil
	}
	return f.withStage(ctx, rec.Job, func() error {
		if at := rec.Job.AvailableAt; f.byScheduleAt(at) {
			return f.queue.OfferLater(ctx, itemOf(rec), at)
		}
		return now(ctx, itemOf(rec))
	})
}

// byScheduleAt reports whether a job that is due at a time is offered by a schedule.
func (f *Fabric) byScheduleAt(at time.Time) bool {
	return f.opts.OfferBySchedule || at.After(f.Now())
}

// withStage publishes, and again after making a stream that turned out to be
// gone. Nobody answers for a stream without leader either; that passes.
func (f *Fabric) withStage(ctx context.Context, j job.Job, publish func() error) error {
	var err error
	for range maxRounds {
		if err = publish(); !errors.Is(err, stream.ErrNoStream) {
			return err
		}
		f.stages.forget(j.Stage)
		_, err := f.stages.get(ctx, j.Stage, j.Lane())
		if err != nil && (ctx.Err() != nil || !natserr.Unknown(err)) {
			return err
		}
	}
	return err
}

// ready reports whether the job waits for nothing but its time and a worker.
func ready(j job.Job) bool { return j.State.Idle() && len(j.WaitingOn) == 0 }

func itemOf(rec kv.Record) stream.Item {
	return stream.Item{
		Stage: rec.Job.Stage, Lane: rec.Job.Lane(), JobID: rec.Job.ID,
		Body: rec.Raw, Revision: rec.Revision, Trace: rec.Job.Trace,
	}
}

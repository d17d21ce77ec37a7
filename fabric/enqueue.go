package fabric

import (
	"context"
	"errors"
	"fmt"

	"github.com/oklog/ulid/v2"

	"github.com/weft-fabric/weft/job"
	"github.com/weft-fabric/weft/kv"
	"github.com/weft-fabric/weft/stream"
)

// idPrefix marks the ids that the fabric makes.
const idPrefix = "jb_"

// Enqueue accepts a job: first its record is written, then the pointer of its
// key is moved to it, then its item is published. Once the record is there the
// job is accepted, whatever happens to the rest.
//
// A spec without id gets a fresh one, a spec without max_attempts the fabric's
// default. The same id with the same spec once more gives the job as it stands,
// and makes good what an earlier call did not get done; with another spec it is
// refused with job.ErrDuplicateJob. Other errors: job.ErrInvalidJob, and
// kv.ErrUndecided when the server did not answer in time; the returned job then
// has the id with which to repeat the call.
func (f *Fabric) Enqueue(ctx context.Context, spec job.Spec) (job.Job, error) {
	spec = f.complete(spec)
	fresh, err := f.fresh(spec)
	if err != nil {
		return job.Job{}, err
	}
	if _, err := f.stages.get(ctx, spec.Stage, spec.Lane()); err != nil {
		return fresh, err
	}
	rec, err := f.record(ctx, spec, fresh)
	if err != nil {
		return fresh, fmt.Errorf("enqueue %s: %w", spec.ID, explain(f.nc, err))
	}
	rec, err = f.makeCurrent(ctx, rec)
	if err != nil {
		return rec.Job, fmt.Errorf("enqueue %s: %w", spec.ID, err)
	}
	if err := f.offerFirst(ctx, rec); err != nil {
		return rec.Job, fmt.Errorf("enqueue %s: its record is written, its item is not; repeat the call with this id: %w", spec.ID, explain(f.nc, err))
	}
	return rec.Job, nil
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
	if fresh.Key != "" {
		pointer, _, err := f.pointer(ctx, fresh.Key)
		if err != nil {
			return kv.Record{}, err
		}
		fresh.KeyOrder = max(f.Now().UnixNano(), pointer.Order+1)
	}
	rec, err := f.bucket.Save(ctx, fresh, 0, 0)
	conflict, taken := errors.AsType[*kv.Conflict](err)
	if !taken {
		return rec, err
	}
	rec, err = kv.RecordOf(spec.ID, conflict.Current)
	if err != nil {
		return rec, err
	}
	if !spec.Same(rec.Job) {
		return rec, &job.Error{Code: job.CodeDuplicateJob, JobID: spec.ID, Reason: "the id has another spec; that job is " + string(rec.Job.State)}
	}
	return rec, nil
}

// offerFirst publishes the item or the schedule of a job that waits for nothing
// else. An item that is there stays.
func (f *Fabric) offerFirst(ctx context.Context, rec kv.Record) error {
	if !ready(rec.Job) {
		return nil
	}
	if rec.Job.AvailableAt.After(f.Now()) {
		return f.withStage(ctx, rec.Job, func() error { return f.queue.OfferLater(ctx, itemOf(rec), rec.Job.AvailableAt) })
	}
	return f.withStage(ctx, rec.Job, func() error { return f.queue.OfferNew(ctx, itemOf(rec)) })
}

// offer publishes the item of a waiting job in place of the one that is there,
// or its schedule when it is not due.
func (f *Fabric) offer(ctx context.Context, rec kv.Record) error {
	if !ready(rec.Job) {
		return nil
	}
	if rec.Job.AvailableAt.After(f.Now()) {
		return f.withStage(ctx, rec.Job, func() error { return f.queue.OfferLater(ctx, itemOf(rec), rec.Job.AvailableAt) })
	}
	return f.withStage(ctx, rec.Job, func() error { return f.queue.Offer(ctx, itemOf(rec)) })
}

// withStage publishes, and once more after making a stream that turned out to be
// gone.
func (f *Fabric) withStage(ctx context.Context, j job.Job, publish func() error) error {
	err := publish()
	if !errors.Is(err, stream.ErrNoStream) {
		return err
	}
	f.stages.forget(j.Stage)
	if _, err := f.stages.get(ctx, j.Stage, j.Lane()); err != nil {
		return err
	}
	return publish()
}

// ready reports whether the job waits for nothing but its time and a worker.
func ready(j job.Job) bool { return j.State.Idle() && len(j.WaitingOn) == 0 }

func itemOf(rec kv.Record) stream.Item {
	return stream.Item{
		Stage: rec.Job.Stage, Lane: rec.Job.Lane(), JobID: rec.Job.ID,
		Body: rec.Raw, Revision: rec.Revision,
	}
}

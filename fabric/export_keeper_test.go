package fabric

import (
	"context"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/weft-fabric/weft/job"
	"github.com/weft-fabric/weft/kv"
)

// Grace is how long the keeper leaves to others what they began.
const Grace = keeperGrace

// Lead runs a keeper that believes it leads, whoever else may.
func Lead(ctx context.Context, f *Fabric) error { return newKeeper(f).lead(ctx) }

// Audit runs one audit now. Records younger than the grace are not its business.
func Audit(ctx context.Context, f *Fabric) error {
	_, err := newKeeper(f).audit(ctx)
	return err
}

// Bucket is where the fabric keeps its records.
func Bucket(f *Fabric) *kv.Bucket { return f.bucket }

// SetServerClock puts a change between the server's clock and the fabric, which
// sees it when it measures next.
func SetServerClock(f *Fabric, change func(time.Time) time.Time) {
	server := f.clock.server
	f.clock.server = func(ctx context.Context) (time.Time, error) {
		at, err := server(ctx)
		return change(at), err
	}
}

// MeasureClock measures the server's clock now.
func MeasureClock(ctx context.Context, f *Fabric) error { return f.clock.measure(ctx) }

// The steps of an enqueue, after any of which its caller may die.
const (
	StepRecord  = iota + 1 // the record is there
	StepPointer            // the key's pointer names it
	StepCancel             // the job that the pointer named is cancelled
	StepItem               // the item is there
)

// EnqueueUpTo does the steps of an enqueue up to the last one given.
func EnqueueUpTo(ctx context.Context, f *Fabric, spec job.Spec, last int) (job.Job, error) {
	spec = f.complete(spec)
	fresh, err := f.fresh(spec)
	if err != nil {
		return fresh, err
	}
	if _, err := f.stages.get(ctx, spec.Stage, spec.Lane()); err != nil {
		return fresh, err
	}
	rec, err := f.record(ctx, spec, fresh)
	if err != nil || last < StepPointer {
		return rec.Job, err
	}
	if last < StepCancel && rec.Job.Key != "" {
		_, err = f.advance(ctx, rec.Job)
		return rec.Job, err
	}
	if rec, err = f.makeCurrent(ctx, rec); err != nil || last < StepItem {
		return rec.Job, err
	}
	return rec.Job, f.offerFirst(ctx, rec)
}

// OfferFirst does the last step of an enqueue alone.
func OfferFirst(ctx context.Context, f *Fabric, id string) error {
	rec, err := f.bucket.Load(ctx, id)
	if err != nil {
		return err
	}
	return f.offerFirst(ctx, rec)
}

// CheckCronVersion is what cron demands of a server's version.
func CheckCronVersion(version string) error {
	return checkVersion("nats://here", version, minCronServer, "cron")
}

// Latest is the last time of a schedule that is not after t.
func Latest(s Schedule, t time.Time) time.Time { return s.latest(t) }

// UnwriteCron takes back what AddCron has written of an entry whose schedule the
// server has refused.
func UnwriteCron(ctx context.Context, f *Fabric, e, before CronEntry) error {
	return f.unwriteCron(ctx, e, before)
}

// Sweep looks through the inputs as a keeper would at a time, after which it would
// come again.
func Sweep(ctx context.Context, f *Fabric, at time.Time) error { return f.sweep(ctx, at) }

// RemoveInput removes an object as it was listed.
func RemoveInput(ctx context.Context, f *Fabric, info *jetstream.ObjectInfo) (bool, error) {
	stream, err := f.js.Stream(ctx, "OBJ_"+f.inputBucket())
	if err != nil {
		return false, err
	}
	return f.removeInput(ctx, stream, info)
}

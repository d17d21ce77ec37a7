package fabric

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/weft-fabric/weft/job"
	"github.com/weft-fabric/weft/kv"
)

// Get reads a job from the bucket's leader: what it returns is never older than
// the call. It fails with job.ErrMissingJob or kv.ErrUnreadable.
func (f *Fabric) Get(ctx context.Context, id string) (job.Job, error) {
	rec, err := f.load(ctx, id)
	return rec.Job, err
}

// Raw reads a job's record as it is stored, also one that cannot be decoded. It
// fails with job.ErrMissingJob.
func (f *Fabric) Raw(ctx context.Context, id string) ([]byte, error) {
	rec, err := f.load(ctx, id)
	if errors.Is(err, kv.ErrUnreadable) {
		err = nil
	}
	return rec.Raw, err
}

func (f *Fabric) load(ctx context.Context, id string) (kv.Record, error) {
	if err := job.CheckID(id); err != nil {
		return kv.Record{}, err
	}
	rec, err := f.bucket.Load(ctx, id)
	return rec, explain(f.nc, err)
}

// Watch gives the named jobs as they are, and then every change of theirs, until
// ctx ends or the caller stops; without ids it is every job. It is the source of
// Outcomes without a name, so that nothing of it stays on the server. Of changes that
// follow each other fast only the last may be seen. A record that cannot be read
// comes as an error with kv.ErrUnreadable, and the watch goes on.
func (f *Fabric) Watch(ctx context.Context, ids ...string) iter.Seq2[job.Job, error] {
	return func(yield func(job.Job, error) bool) {
		patterns, wanted := watchPatterns(ids)
		for change, err := range f.bucket.Changes(ctx, patterns...) {
			if err != nil {
				yield(job.Job{}, explain(f.nc, err))
				return
			}
			id, isJob := kv.JobID(change.Key)
			if change.Marker || !isJob || wanted != nil && !wanted[id] {
				continue
			}
			if !yield(decode(change)) {
				return
			}
		}
	}
}

// fewWatched is up to how many ids a watch names its keys; for more it watches
// all and picks.
const fewWatched = 16

func watchPatterns(ids []string) (patterns []string, wanted map[string]bool) {
	if len(ids) == 0 {
		return []string{kv.AllJobs}, nil
	}
	wanted = make(map[string]bool, len(ids))
	for _, id := range ids {
		if !wanted[id] {
			wanted[id] = true
			patterns = append(patterns, kv.JobKey(id))
		}
	}
	if len(patterns) > fewWatched {
		patterns = []string{kv.AllJobs}
	}
	return patterns, wanted
}

// waitCheck is how often Wait reads the record although no event came: events
// are not kept, and one may be lost while the connection is away.
const waitCheck = 5 * time.Second

// Wait returns the job once it has ended: succeeded, failed or cancelled. It
// fails with job.ErrMissingJob when there is none, and with ctx's error.
func (f *Fabric) Wait(ctx context.Context, id string) (job.Job, error) {
	if err := job.CheckID(id); err != nil {
		return job.Job{}, err
	}
	events := make(chan *nats.Msg, 64)
	sub, err := f.nc.ChanSubscribe(f.opts.Namespace+".event."+kv.JobKey(id), events)
	if err != nil {
		return job.Job{}, fmt.Errorf("wait for %s: %w", id, err)
	}
	defer sub.Unsubscribe()
	check := time.NewTicker(waitCheck)
	defer check.Stop()
	j, err := f.Get(ctx, id)
	for {
		if err != nil || j.State.Terminal() {
			return j, err
		}
		select {
		case <-ctx.Done():
			return j, fmt.Errorf("wait for %s: %w", id, ctx.Err())
		case msg := <-events:
			// The event is the record as it was written; one that is not
			// readable as such is looked at in the bucket.
			var next job.Job
			if json.Unmarshal(msg.Data, &next) == nil {
				j = next
				continue
			}
		case <-check.C:
		}
		j, err = f.Get(ctx, id)
	}
}

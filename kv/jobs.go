package kv

import (
	"context"
	"fmt"
	"time"

	"github.com/weft-fabric/weft/job"
)

// Record is a job as the bucket has it.
type Record struct {
	Job      job.Job
	Revision uint64
	Raw      []byte // the stored JSON
}

// Load reads a job's record from the leader. It fails with job.ErrMissingJob,
// or with ErrUnreadable and the reason; the Record then has Raw and Revision.
func (b *Bucket) Load(ctx context.Context, id string) (Record, error) {
	e, err := b.Get(ctx, JobKey(id))
	if err != nil {
		return Record{}, err
	}
	return RecordOf(id, e)
}

// RecordOf decodes an entry of the job id, with the errors of Load.
func RecordOf(id string, e Entry) (Record, error) {
	if !e.Exists() {
		return Record{Revision: e.Revision}, missing(id)
	}
	r := Record{Revision: e.Revision, Raw: e.Value}
	var err error
	if r.Job, err = job.Decode(e.Value); err != nil {
		return r, fmt.Errorf("job %s: %w: %w", id, ErrUnreadable, err)
	}
	if r.Job.ID != id {
		return r, fmt.Errorf("job %s: %w: it names itself %q", id, ErrUnreadable, r.Job.ID)
	}
	return r, nil
}

// Save writes a job's record at the revision it was read at, 0 for a new one.
// ttl is its retention, 0 for a job that has not ended. The errors are those of
// Swap.
func (b *Bucket) Save(ctx context.Context, j job.Job, revision uint64, ttl time.Duration) (Record, error) {
	w := b.jobWrite(&j, revision, ttl)
	saved, err := b.Swap(ctx, w)
	if err != nil {
		return Record{}, err
	}
	return Record{Job: j, Revision: saved, Raw: w.Value}, nil
}

// usualSize is room for a record of the usual size, which then is written without
// being moved.
const usualSize = 640

func encode(j *job.Job) []byte {
	return j.AppendJSON(make([]byte, 0, usualSize+len(j.Payload)))
}

package fabric

import (
	"context"
	"iter"
	"slices"

	"github.com/weft-fabric/weft/job"
	"github.com/weft-fabric/weft/kv"
)

// Filter says which jobs; a zero field does not filter.
type Filter struct {
	Stage  string
	States []job.State
	Key    string
	Labels map[string]string // all of them must be there
	Limit  int               // at most so many; 0 is no limit
	After  uint64            // only those that come after this cursor of a Listed
}

// Match reports whether the job passes, the limit and the cursor aside.
func (filter Filter) Match(j job.Job) bool {
	for name, value := range filter.Labels {
		if got, ok := j.Labels[name]; !ok || got != value {
			return false
		}
	}
	return filter.matchesPeeked(j)
}

// matchesPeeked looks at what is known of a record that was only peeked into.
func (filter Filter) matchesPeeked(j job.Job) bool {
	return (filter.Stage == "" || filter.Stage == j.Stage) &&
		(len(filter.States) == 0 || slices.Contains(filter.States, j.State)) &&
		(filter.Key == "" || filter.Key == j.Key)
}

// Listed is a job of a list and its place there, from which another list can go
// on. A job that changes moves to the end.
type Listed struct {
	Job    job.Job
	Cursor uint64
}

// List streams the matching jobs in the order of their last change. A record
// that cannot be read comes as an error with kv.ErrUnreadable, and the list goes
// on; after any other error it ends. It begins at once and needs no more memory
// for many jobs than for few; in return a job that changes meanwhile may come
// twice, as it was and as it is.
func (f *Fabric) List(ctx context.Context, filter Filter) iter.Seq2[job.Job, error] {
	return func(yield func(job.Job, error) bool) {
		for listed, err := range f.Page(ctx, filter) {
			if !yield(listed.Job, err) {
				return
			}
		}
	}
}

// Page is List with cursors: with the last one as the filter's After, the next
// page begins where this one ended.
func (f *Fabric) Page(ctx context.Context, filter Filter) iter.Seq2[Listed, error] {
	return func(yield func(Listed, error) bool) {
		given := 0
		for e, err := range f.bucket.Scan(ctx, filter.After) {
			if err != nil {
				yield(Listed{}, explain(f.nc, err))
				return
			}
			if peeked, err := job.Peek(e.Value); err == nil && !filter.matchesPeeked(peeked) {
				continue
			}
			j, err := decode(e)
			if err == nil && !filter.Match(j) {
				continue
			}
			if !yield(Listed{j, e.Revision}, err) {
				return
			}
			if given++; given == filter.Limit {
				return
			}
		}
	}
}

// Records streams the records that were last changed after a revision, 0 for all,
// in the order of their last change. Whoever reads them in parts, each after the
// last revision that came, misses no job; one that changes meanwhile comes again.
// A record that cannot be read comes with an error of kv.ErrUnreadable, its id
// and its revision, and the list goes on; after any other error it ends.
func (f *Fabric) Records(ctx context.Context, after uint64) iter.Seq2[kv.Record, error] {
	return func(yield func(kv.Record, error) bool) {
		for e, err := range f.bucket.Scan(ctx, after) {
			if err != nil {
				yield(kv.Record{}, explain(f.nc, err))
				return
			}
			id, _ := kv.JobID(e.Key)
			rec, err := kv.RecordOf(id, e)
			rec.Job.ID = id
			if !yield(rec, err) {
				return
			}
		}
	}
}

func decode(e kv.Entry) (job.Job, error) {
	id, _ := kv.JobID(e.Key)
	rec, err := kv.RecordOf(id, e)
	return rec.Job, err
}

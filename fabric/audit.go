package fabric

import (
	"context"
	"hash/maphash"
	"time"

	"github.com/weft-fabric/weft/job"
	"github.com/weft-fabric/weft/kv"
)

// audits holds all records against all items at the beginning of a term, then
// every auditEvery, and sooner after a burst. It is what makes the first promise
// true whatever was lost: an item, a schedule, a purged stream, a change that
// was not followed.
func (k *keeper) audits(ctx context.Context) {
	for ctx.Err() == nil {
		began := time.Now()
		next := auditEvery
		found, err := k.audit(ctx)
		found.Took, found.Err = time.Since(began), err
		if ctx.Err() == nil {
			k.f.opts.Observer.Audited(found)
		}
		if err != nil && ctx.Err() == nil {
			k.f.log.Warn("audit broken off", "error", err)
			next = keeperGrace
		}
		k.rest(ctx, max(auditRest, next-found.Took), max(auditRest, found.Took))
	}
}

// rest waits until the next audit is due: after the whole time, or after the
// least once a burst has asked for one.
func (k *keeper) rest(ctx context.Context, whole, least time.Duration) {
	due, soonest := time.NewTimer(whole), time.After(least)
	defer due.Stop()
	var burst chan struct{} // nil, and never ready, before the least time is over
	for {
		select {
		case <-ctx.Done():
			return
		case <-due.C:
			return
		case <-soonest:
			burst = k.burst
		case <-burst:
			return
		}
	}
}

// audit lists the items in bulk, then reads through the records at leisure. A ready
// one without item is looked at alone, since it may have moved while the lists were
// read; what was written after the keeper's grace before them is left to the next
// audit. One that is due and still has a schedule is offered in its place.
func (k *keeper) audit(ctx context.Context) (found AuditResult, err error) {
	began := time.Now()
	if err := k.openLanes(ctx); err != nil {
		return found, err
	}
	settled := k.f.Now().Add(-keeperGrace)
	offered, err := k.offered(ctx)
	if err != nil {
		return found, err
	}
	later, err := k.unstick(ctx)
	if err != nil {
		return found, err
	}
	var missing, stuck []string
	for e, err := range k.f.bucket.Browse(ctx, kv.AllJobs, k.busy) {
		if err != nil {
			return found, err
		}
		found.Records++
		if id, ok := kv.JobID(e.Key); !ok || offered.has(id) && !later.has(id) {
			continue
		}
		j, err := decode(e)
		switch {
		case err != nil: // reported when it was written
			found.Unreadable++
		case j.State.Terminal():
			k.index.remind(j.ID)
		case ready(j) && offered.has(j.ID):
			if k.overdue(j) {
				stuck = append(stuck, j.ID)
			}
		case ready(j) && e.Created.Before(settled):
			missing = append(missing, j.ID)
		}
	}
	k.each(ctx, missing, k.complete)
	k.each(ctx, stuck, k.replaceSchedule)
	found.Missing, found.Stuck = len(missing), len(stuck)
	k.f.log.Debug("audit done", "records", found.Records, "without_item", len(missing), "stuck", len(stuck), "took", time.Since(began))
	return found, nil
}

// busyFor is how long after the last change that was followed somebody is taken to
// be at work.
const busyFor = time.Second

// busy reports whether anybody is at work.
func (k *keeper) busy() bool { return time.Since(time.Unix(0, k.changed.Load())) < busyFor }

// openLanes brings lanes into use that somebody has published to without the
// fabric. Nobody would look there otherwise.
func (k *keeper) openLanes(ctx context.Context) error {
	for e, err := range k.f.bucket.List(ctx, kv.AllStages) {
		if err != nil {
			return err
		}
		name, _ := kv.StageOf(e.Key)
		st, _, err := k.f.stages.read(ctx, name)
		if err != nil {
			k.f.log.Error("stage left as it is", "stage", name, "error", err)
			continue
		}
		for lane := job.HighestPriority; lane <= job.LowestPriority; lane++ {
			if st.uses(lane) {
				continue
			}
			used, err := k.f.queue.HasItems(ctx, name, lane)
			if err != nil {
				return err
			}
			if used {
				if _, err := k.f.stages.get(ctx, name, lane); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// idSet is a set of many ids in little memory. Two ids of one hash would hide a
// lost item from this audit; the next has another seed.
type idSet struct {
	seed   maphash.Seed
	hashes map[uint64]struct{}
}

func newIDSet() *idSet { return &idSet{maphash.MakeSeed(), map[uint64]struct{}{}} }

func (s *idSet) add(id string) { s.hashes[maphash.String(s.seed, id)] = struct{}{} }

func (s *idSet) has(id string) bool {
	_, ok := s.hashes[maphash.String(s.seed, id)]
	return ok
}

// offered collects the ids that have an item or a schedule in any stage.
func (k *keeper) offered(ctx context.Context) (*idSet, error) {
	ids := newIDSet()
	for e, err := range k.f.bucket.List(ctx, kv.AllStages) {
		if err != nil {
			return nil, err
		}
		stage, _ := kv.StageOf(e.Key)
		if err := k.f.queue.EachOffer(ctx, stage, ids.add); err != nil {
			return nil, err
		}
	}
	return ids, nil
}

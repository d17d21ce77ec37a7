package fabric

import (
	"context"

	"github.com/weft-fabric/weft/job"
	"github.com/weft-fabric/weft/kv"
)

// An item or a schedule can be there and never come: a server that was killed
// may have forgotten that it removed the one, or fired the other. What is only
// looked for in the work queue would then seem offered for ever.

// unstick makes the items move that will not be delivered, and collects the ids
// that have a schedule.
func (k *keeper) unstick(ctx context.Context) (*idSet, error) {
	later := newIDSet()
	for e, err := range k.f.bucket.List(ctx, kv.AllStages) {
		if err != nil {
			return nil, err
		}
		name, _ := kv.StageOf(e.Key)
		st, _, err := k.f.stages.read(ctx, name)
		if err != nil {
			return nil, err
		}
		revived, err := k.f.queue.Revive(ctx, name, st.Lanes)
		if err != nil {
			return nil, err
		}
		for range revived {
			k.f.opts.Observer.Kept(RevivedItem)
		}
		if revived > 0 {
			k.f.log.Warn("items that would not have been delivered are offered again", "stage", name, "items", revived)
		}
		if err := k.f.queue.EachLater(ctx, name, later.add); err != nil {
			return nil, err
		}
	}
	return later, nil
}

// overdue reports whether a job's schedule should have fired a while ago.
func (k *keeper) overdue(j job.Job) bool {
	return k.f.Now().Sub(j.AvailableAt) > keeperGrace
}

// replaceSchedule offers a job whose schedule did not fire.
func (k *keeper) replaceSchedule(ctx context.Context, id string) error {
	rec, err := k.f.bucket.Load(ctx, id)
	if err != nil || !ready(rec.Job) || !k.overdue(rec.Job) {
		return err
	}
	due, there, err := k.f.queue.Scheduled(ctx, rec.Job.Stage, id)
	if ahead := due.Sub(k.f.Now()); err != nil || there && -keeperGrace < ahead && ahead < 2*putOffMost {
		return err // put off, as a limit was reached
	}
	k.f.log.Warn("job offered in place of a schedule that did not fire", "job", id, "stage", rec.Job.Stage)
	if err := k.f.queue.Withdraw(ctx, rec.Job.Stage, rec.Job.Lane(), id); err != nil {
		return err
	}
	if err := k.f.offer(ctx, rec); err != nil {
		return err
	}
	k.f.opts.Observer.Kept(ReplacedSchedule)
	return nil
}

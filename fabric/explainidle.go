package fabric

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/weft-fabric/weft/internal/topology"
	"github.com/weft-fabric/weft/job"
	"github.com/weft-fabric/weft/kv"
)

// idle looks at a job that waits: for others, for its time, for its stage, for its
// turn.
func (x *explaining) idle(ctx context.Context) error {
	j := x.job
	x.verdict = "does not run"
	if err := x.dependencies(ctx); err != nil {
		return err
	}
	due := !x.now.Before(j.AvailableAt)
	if !due {
		x.add(CauseNotDue, map[string]any{"available_at": j.AvailableAt, "in": j.AvailableAt.Sub(x.now).String()},
			"it is not due before %s, %s from now", at(j.AvailableAt), about(j.AvailableAt.Sub(x.now))).
			move("time alone")
	}
	if j.Attempt >= j.MaxAttempts {
		x.add(CauseUsedUp, map[string]any{"attempt": j.Attempt, "max_attempts": j.MaxAttempts},
			"it waits with no attempt left, which no transition of the fabric makes; nobody claims it").
			move("end it", x.command("cancel", x.id))
	}
	open, err := x.lookAtStage(ctx)
	if err != nil || !open || len(j.WaitingOn) > 0 {
		return err
	}
	x.offer(due)
	return nil
}

// dependencies says of each job that is waited for how it stands, and first of
// those that will not succeed by themselves.
func (x *explaining) dependencies(ctx context.Context) error {
	keys := make([]string, len(x.job.WaitingOn))
	for i, id := range x.job.WaitingOn {
		keys[i] = kv.JobKey(id)
	}
	entries, err := x.f.bucket.Few(ctx, keys...)
	if err != nil {
		return err
	}
	found := map[string]kv.Entry{}
	for _, e := range entries {
		found[e.Key] = e
	}
	var byItself []func()
	for _, id := range x.job.WaitingOn {
		rec, err := kv.RecordOf(id, found[kv.JobKey(id)])
		if err == nil && (!rec.Job.State.Terminal() || rec.Job.State == job.StateSucceeded) {
			byItself = append(byItself, func() { x.dependency(id, rec.Job, nil) })
			continue
		}
		x.dependency(id, rec.Job, err)
	}
	for _, tell := range byItself {
		tell()
	}
	return nil
}

func (x *explaining) dependency(id string, dep job.Job, err error) {
	fields := map[string]any{"job": id, "state": string(dep.State), "on_dependency_failure": string(x.job.OnDependencyFailure)}
	switch {
	case errors.Is(err, kv.ErrUnreadable):
		fields["state"] = StateUnreadable
		x.add(CauseWaitsOn, fields, "it waits for %s, whose record cannot be read", id).move("look what is the matter with that one", x.command("explain", id))
	case err != nil:
		fields["state"] = "missing"
		x.add(CauseWaitsOn, fields, "it waits for %s, which has no record: it was never enqueued, or has expired unseen", id).
			move(fmt.Sprintf("a job of the id %s that succeeds", id)).
			move("give up", x.command("cancel", x.id))
	case dep.State == job.StateSucceeded:
		x.add(CauseWaitsOn, fields, "it waits for %s, which has succeeded, and the keeper has not taken it off the list yet", id).
			move("the keeper does so within seconds of seeing it, or when it next takes the lead")
	case !dep.State.Terminal():
		x.add(CauseWaitsOn, fields, "it waits for %s, which is %s", id, dep.State).
			move("that one's success", x.command("explain", id))
	case x.job.OnDependencyFailure == job.CancelOnFailure:
		x.add(CauseWaitsOn, fields, "it waits for %s, which is %s, so the keeper cancels it", id, dep.State).move("nothing moves it")
	case dep.State == job.StateFailed:
		x.add(CauseWaitsOn, fields, "it waits for %s, which has failed: %s", id, brief(dep.Reason)).
			move("one more attempt of that one", x.command("retry", id))
	default:
		x.add(CauseWaitsOn, fields, "it waits for %s, which was cancelled and never succeeds: %s", id, brief(dep.Reason)).
			move("give up", x.command("cancel", x.id))
	}
}

// lookAtStage reads the stage's settings and the job's place in its queue, and
// tells what keeps all jobs of the stage. It reports false when there is no stage
// to look at.
func (x *explaining) lookAtStage(ctx context.Context) (open bool, err error) {
	name := x.job.Stage
	if job.CheckStage(name) != nil {
		x.add(CauseNoStage, map[string]any{"stage": name}, "no stage can have the name %q", name)
		return false, nil
	}
	e, err := x.f.bucket.Get(ctx, kv.StageKey(name))
	if err != nil {
		return false, err
	}
	if !e.Exists() {
		x.add(CauseNoStage, map[string]any{"stage": name}, "there is no stage %s: nobody works for it", name).
			move("a worker makes it", workCommand(name))
		return false, nil
	}
	err = json.Unmarshal(e.Value, &x.stage)
	x.stage.Name = name
	if err != nil {
		x.add(CauseStageUnreadable, map[string]any{"stage": name, "error": err.Error()}, "the settings of stage %s cannot be read: %s", name, err).
			move("put readable ones there, or delete the key so that the stage gets the default ones: " + e.Key)
		return false, nil
	}
	if x.place, err = x.f.queue.Place(ctx, name, x.job.Lane(), x.id, x.stage.settings()); err != nil {
		return false, err
	}
	if err := x.drift(ctx); err != nil {
		return false, err
	}
	x.pauses()
	x.noWorker()
	if err := x.limits(ctx); err != nil {
		return false, err
	}
	return true, x.tooFast(ctx)
}

// drift compares the stage's stream and consumers with its settings.
func (x *explaining) drift(ctx context.Context) error {
	err := x.f.queue.Check(ctx, x.stage.Name, x.stage.settings())
	if drifted, ok := errors.AsType[*topology.DriftError](err); ok {
		for _, d := range drifted.Drifts {
			x.add(CauseDrift, map[string]any{"asset": d.Asset, "setting": d.Setting, "have": d.Have, "want": d.Want}, "%s", d).
				move("set it right", "weft doctor --repair")
		}
		err = nil
	}
	if errors.Is(err, topology.ErrForeign) {
		x.add(CauseDrift, map[string]any{"asset": "stream", "setting": "subjects", "have": err.Error(), "want": "the stage's"}, "%s", err)
		err = nil
	}
	if err == nil && !x.stage.uses(x.job.Lane()) {
		lane := x.job.Lane()
		x.add(CauseDrift, map[string]any{"asset": "stage " + x.stage.Name, "setting": "lanes", "have": fmt.Sprint(x.stage.Lanes), "want": fmt.Sprint(lane)},
			"stage %s does not use the lane of priority %d, so nobody looks there", x.stage.Name, lane).
			move(fmt.Sprintf("the keeper brings it into use within %s, once the job has an item", auditEvery))
	}
	return err
}

// pauses tells of a pause of the stage, or else of one of the lane's consumer.
func (x *explaining) pauses() {
	st, resume := x.stage, "weft stage resume "+x.stage.Name
	if st.Paused {
		fields, text := map[string]any{"stage": st.Name}, "stage "+st.Name+" is paused"
		if !st.Pause.Since.IsZero() {
			fields["since"] = st.Pause.Since
			text += " since " + at(st.Pause.Since)
		}
		if st.Pause.By != "" {
			fields["by"] = st.Pause.By
			text += " by " + brief(st.Pause.By)
		}
		if st.Pause.Reason != "" {
			fields["reason"] = st.Pause.Reason
			text += ": " + brief(st.Pause.Reason)
		}
		x.add(CauseStagePaused, fields, "%s", text).move("begin its jobs again", resume)
		return
	}
	if l := x.place.Lane; l.Paused {
		x.add(CauseConsumerPaused, map[string]any{"consumer": l.Consumer, "stream": x.place.Depth.Stream, "until": l.PausedUntil.UTC()},
			"consumer %s of stream %s is paused until %s, and its stage is not", l.Consumer, x.place.Depth.Stream, at(l.PausedUntil)).
			move("end the pause of its consumers", resume)
	}
}

// serving are the workers that make themselves known for the stage.
func (x *explaining) serving() (serving []Presence) {
	for _, w := range x.workers {
		if slices.Contains(w.Stages, x.job.Stage) {
			serving = append(serving, w)
		}
	}
	return serving
}

// noWorker tells when no worker makes itself known. One that does not may ask for
// items all the same: making itself known is for people.
func (x *explaining) noWorker() {
	name := x.stage.Name
	if len(x.serving()) > 0 {
		return
	}
	text := "no worker makes itself known for stage " + name
	if pulls := x.place.Lane.Pulls; pulls > 0 {
		text += fmt.Sprintf(", though %d requests for items stand: of workers of another kind, or of one that has just died", pulls)
	}
	x.add(CauseNoWorker, map[string]any{"stage": name, "pull_requests": x.place.Lane.Pulls}, "%s", text).
		move("a worker of the stage", workCommand(name))
}

// offer looks at the item and the schedule of a job that is ready but for its
// time.
func (x *explaining) offer(due bool) {
	p := x.place
	switch {
	case p.Sequence != 0 && !due:
		// Who takes it puts it off.
	case p.Sequence != 0:
		x.queued()
	case p.Scheduled && x.now.Before(p.Due) && due: // a limit is told, or was reached a moment ago
		x.add(CauseQueued, map[string]any{"scheduled_for": p.Due}, "it was put off, as a limit was reached when its turn came, until %s", at(p.Due)).move("its schedule")
	case p.Scheduled && x.now.Sub(later(x.job.AvailableAt, p.Due)) > keeperGrace:
		x.add(CauseScheduleOverdue, map[string]any{"available_at": x.job.AvailableAt, "scheduled_for": p.Due},
			"it has been due since %s, and its schedule has not fired", at(x.job.AvailableAt)).
			move(fmt.Sprintf("the keeper offers it in the schedule's place within %s, and whoever takes the lead at once", auditEvery))
	case p.Scheduled && due:
		x.add(CauseQueued, map[string]any{"scheduled_for": p.Due}, "it has just become due, and its schedule fires within a moment").move("its schedule")
	case !p.Scheduled:
		x.itemMissing()
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func (x *explaining) itemMissing() {
	within, text := auditEvery, "it has neither item nor schedule, so no worker hears of it"
	if x.now.Sub(x.job.UpdatedAt) < keeperGrace+2*keeperTick {
		within = keeperGrace + 2*keeperTick // the keeper has it on its list of what has just changed
	}
	c := x.add(CauseItemMissing, nil, "%s", text)
	if x.keeper {
		c.Fields["offered_within"] = within.String()
		c.move(fmt.Sprintf("the keeper offers it within %s", within))
	}
	c.move("offer it now", "weft doctor --repair")
}

// queued looks at the item of a job that could run now.
func (x *explaining) queued() {
	p := x.place
	fields := map[string]any{"stream": p.Depth.Stream, "sequence": p.Sequence, "stored": p.Stored.UTC(), "priority": x.job.Lane()}
	switch {
	case p.Lane.Consumer == "":
		return // it is told already that the consumer is absent
	case p.Stranded:
		x.add(CauseItemStranded, fields, "its item is in the stream and consumer %s takes it for done, so it comes to nobody", p.Lane.Consumer).
			move(fmt.Sprintf("the keeper offers it anew within %s, and whoever takes the lead at once", auditEvery))
	case p.Taken:
		x.add(CauseItemTaken, fields, "its item was handed out: a worker claims it just now, or it comes again within the lease of %s", x.stage.Lease).
			move("the claim, or the end of that time")
	default:
		x.full()
		x.busy()
		x.turn(fields)
	}
}

// full tells when as many jobs of the stage run as may.
func (x *explaining) full() {
	limit, running := x.stage.Concurrency, x.place.Depth.Taken()
	if limit <= 0 || running < limit {
		return
	}
	x.add(CauseStageFull, map[string]any{"stage": x.stage.Name, "limit": limit, "running": running},
		"stage %s is full: %d of its jobs may run at once, and %d are with workers", x.stage.Name, limit, running).
		move("the end of one of them").
		move("a greater limit", fmt.Sprintf("weft stage set %s --concurrency %d", x.stage.Name, limit+1))
}

// busy tells when no worker has a slot that is free, as they said last.
func (x *explaining) busy() {
	workers, slots, taken := x.serving(), 0, 0
	for _, w := range workers {
		slots += w.Slots
		for _, r := range w.Running {
			if r.Stage == x.stage.Name && !r.Stray {
				taken++
			}
		}
	}
	if len(workers) == 0 || taken < slots {
		return
	}
	x.add(CauseWorkersBusy, map[string]any{"workers": len(workers), "slots": slots, "running": taken},
		"all %d slots of the %d workers of stage %s are taken, as these said at most %s ago", slots, len(workers), x.stage.Name, presenceTTL).
		move("the end of one of their jobs").
		move("another worker", workCommand(x.stage.Name))
}

// turn estimates what comes before the job's item.
func (x *explaining) turn(fields map[string]any) {
	p := x.place
	fields["ahead_at_least"], fields["ahead_at_most"], fields["ahead_in_higher_lanes"] = p.AtLeast, p.AtMost, p.Higher
	fields["pull_requests"] = p.Lane.Pulls
	text := "it is the next of its lane"
	switch {
	case p.AtMost == 0:
	case p.AtLeast == p.AtMost:
		text = fmt.Sprintf("%d items of its lane come before it", p.AtMost)
	default:
		text = fmt.Sprintf("between %d and %d items of its lane come before it", p.AtLeast, p.AtMost)
	}
	if p.Higher > 0 {
		text += fmt.Sprintf(", and %d of higher priority have a greater share", p.Higher)
	}
	text += fmt.Sprintf("; its item waits since %s, %s", at(p.Stored), about(max(0, x.now.Sub(p.Stored))))
	c := x.add(CauseQueued, fields, "%s", text).move("its turn")
	if p.AtMost > 0 || p.Higher > 0 {
		c.move("more workers bring it about sooner", workCommand(x.stage.Name))
	}
}

package fabric

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/weft-fabric/weft/job"
	"github.com/weft-fabric/weft/kv"
	"github.com/weft-fabric/weft/stream"
)

// The keeper turns ticks into jobs. A tick comes at least once. Its job's id is made
// of the tick's time, so that one that comes again, or to two keepers, finds its job
// there; and once the entry's `last` has reached the tick it is void, whether or not
// the job's record is still kept.
//
// The order is job, `last`, end of the tick: who dies in between leaves a tick that
// comes again. A tick that a later one of its entry has overtaken is gone: what was
// missed is made up for once.

const (
	// ticksWait is how long the keeper asks for ticks at a time.
	ticksWait = 5 * time.Second
	// cronPoll is how soon a keeper notices the first cron entry of a fabric.
	cronPoll = 2 * time.Second
	// tickPatience is how long the keeper works on one tick, which is below the
	// time after which the tick comes again.
	tickPatience = 10 * time.Second
	// tickAgain is when a tick is tried again that failed.
	tickAgain = 3 * time.Second
	// cronsEvery is how often entries are held against the server's schedules.
	cronsEvery = time.Minute
)

// ticks consumes the ticks of all entries until ctx ends. Ticks of different
// entries do not wait for each other.
func (k *keeper) ticks(ctx context.Context) {
	var acting sync.WaitGroup
	defer acting.Wait()
	hands := make(chan struct{}, keeperHands)
	for ctx.Err() == nil {
		err := k.f.queue.Ticks(ctx, ticksWait, func(t stream.Tick) {
			hands <- struct{}{}
			acting.Go(func() {
				defer func() { <-hands }()
				k.tick(ctx, t)
			})
		})
		if err != nil && ctx.Err() == nil {
			if !errors.Is(err, stream.ErrNoStream) { // nobody uses cron
				k.f.log.Warn("ticks not consumed, the keeper tries again", "error", err)
			}
			pause(ctx, cronPoll)
		}
	}
}

// tick deals with one tick. What fails in a way that may pass is tried again.
func (k *keeper) tick(ctx context.Context, t stream.Tick) {
	ctx, cancel := context.WithTimeout(ctx, tickPatience)
	defer cancel()
	err := k.fire(ctx, t)
	if err == nil {
		err = t.Done(ctx) // a tick that comes again finds that it was dealt with
	}
	if err == nil {
		return
	}
	delay := tickAgain
	if !errors.Is(ctx.Err(), context.Canceled) { // by which the term ends, and the next keeper goes on
		k.f.log.Warn("tick failed, the keeper tries again", "cron", t.Name, "error", err)
	}
	if errors.Is(err, kv.ErrUnreadable) { // a person has to do something first
		delay = cronsEvery
	}
	if err := t.Later(delay); err != nil {
		k.f.log.Debug("tick not given back; it comes again by itself", "cron", t.Name, "error", err)
	}
}

// fire enqueues the job of a tick, if the entry still wants it, and notes that in
// the entry. A refusal is noted instead: the next tick may have better luck, and
// this one would be refused again.
func (k *keeper) fire(ctx context.Context, t stream.Tick) error {
	e, _, err := k.f.readCron(ctx, t.Name)
	if errors.Is(err, ErrMissingCron) {
		return nil
	}
	if err != nil {
		return err
	}
	due := dueOf(t)
	if e.Paused || !due.After(e.Last) {
		return nil
	}
	spec := e.Spec
	spec.ID = e.jobID(due)
	j, err := k.f.Enqueue(ctx, spec, OnConflict(e.OnConflict))
	refused, isRefusal := errors.AsType[*job.Error](err)
	switch {
	case isRefusal && refused.Code == job.CodeDuplicateJob && refused.JobID == spec.ID:
		j.ID = spec.ID // the tick's job is there; the entry has changed since
	case isRefusal:
		k.f.opts.Observer.Kept(TickRefused)
		k.f.log.Error("tick refused, it becomes no job", "cron", e.Name, "tick", due, "error", err)
		return k.f.noteTick(ctx, e.Name, due, "", refused.Error())
	case err != nil:
		return err
	}
	k.f.opts.Observer.Kept(TickFired)
	k.f.log.Info("tick became a job", "cron", e.Name, "tick", due, "job", j.ID)
	return k.f.noteTick(ctx, e.Name, due, j.ID, "")
}

// noteTick notes in an entry that a tick was dealt with, unless a later one was.
func (f *Fabric) noteTick(ctx context.Context, name string, due time.Time, id, refused string) error {
	for {
		e, revision, err := f.readCron(ctx, name)
		if errors.Is(err, ErrMissingCron) {
			return nil
		}
		if err != nil || !due.After(e.Last) {
			return err
		}
		e.Last, e.Refused, e.RefusedAt = due, refused, time.Time{}
		if refused != "" {
			e.RefusedAt = due
		} else {
			e.LastJob = id
		}
		if err := f.swapCron(ctx, e, revision); err == nil || !movedOn(err) {
			return err
		}
	}
}

// dueOf is the time of a tick: when its schedule was due, which is the same for a
// tick that the server fires late, or, having died over it, a second time. It goes
// by the schedule that fired the tick, which the entry may have no longer.
func dueOf(t stream.Tick) time.Time {
	stored := t.Stored.UTC().Truncate(time.Second)
	s, err := ParseSchedule(t.Expression, t.Zone)
	if err != nil {
		return stored
	}
	var due time.Time
	switch {
	case s.fields != nil:
		due = s.latest(stored)
	case s.every > 0 && !t.Next.IsZero():
		due = t.Next.Add(-s.every)
	case s.every == 0:
		due = s.at
	}
	if due.IsZero() {
		return stored
	}
	return due.UTC()
}

// crons holds all entries against the server's schedules at the beginning of a
// term, and then again and again.
func (k *keeper) crons(ctx context.Context) {
	for ; ctx.Err() == nil; pause(ctx, cronsEvery) {
		err := k.f.eachCronDrift(ctx, func(name, problem string) error {
			k.f.log.Warn("cron entry and schedule differ, the keeper sets the schedule right", "cron", name, "problem", problem)
			if err := k.f.followCron(ctx, name); err != nil {
				k.f.log.Error("cron entry without its schedule", "cron", name, "error", err)
				return nil
			}
			k.f.opts.Observer.Kept(ScheduleRepaired)
			return nil
		})
		if err != nil && ctx.Err() == nil {
			k.f.log.Warn("cron entries not looked at", "error", err)
		}
	}
}

// eachCronDrift gives each entry whose schedule is not as its key says, and each
// schedule whose entry is gone. What changed within the grace may be on its way.
func (f *Fabric) eachCronDrift(ctx context.Context, give func(name, problem string) error) error {
	// Schedules first: a schedule that is there has, or had, its key before it.
	scheduled, err := f.queue.CronNames(ctx)
	if err != nil && !errors.Is(err, stream.ErrNoStream) {
		return err
	}
	stored, err := f.bucket.Few(ctx, kv.AllCrons)
	if err != nil {
		return err
	}
	for _, kept := range stored {
		name, _ := kv.CronOf(kept.Key)
		scheduled = slices.DeleteFunc(scheduled, func(s string) bool { return s == name })
		if f.Now().Sub(kept.Created) <= keeperGrace {
			continue
		}
		problem, err := f.lookAtCron(ctx, kept)
		if err == nil && problem != "" {
			err = give(name, problem)
		}
		if err != nil {
			return err
		}
	}
	for _, name := range scheduled {
		if err := give(name, "the server has a schedule, and there is no such entry"); err != nil {
			return err
		}
	}
	return nil
}

// lookAtCron says what is wrong with an entry; empty if nothing is.
func (f *Fabric) lookAtCron(ctx context.Context, kept kv.Entry) (string, error) {
	e, err := decodeCron(kept.Key, kept.Value)
	if err != nil {
		return err.Error(), nil
	}
	have, err := f.queue.Cron(ctx, e.Name)
	if err != nil {
		return "", err
	}
	return cronDrift(e, have), nil
}

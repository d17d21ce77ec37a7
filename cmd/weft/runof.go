package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/weft-fabric/weft/fabric"
	"github.com/weft-fabric/weft/internal/app"
	"github.com/weft-fabric/weft/job"
	"github.com/weft-fabric/weft/kv"
)

// runOf is one run of a file: who enqueues it, who works on it, and who watches
// it to its end.
type runOf struct {
	*program
	flags   runFlags
	batch   *specBatch
	log     *slog.Logger
	tracker *tracker // the watching goroutine's, from through until it returns
	refused int      // specs that the fabric refused; the enqueuing goroutine's, until through returns
	kept    int      // jobs that exist with other limits; likewise
}

// plan notes the ids of the file's jobs.
func (r *runOf) plan() error {
	for n, err := range r.batch.specs() {
		if err != nil {
			return err
		}
		r.tracker.want(n.spec.ID)
	}
	return nil
}

// through enqueues, works and watches until the jobs have ended, ctx ends, or
// something fails; then it drains the worker.
func (r *runOf) through(ctx context.Context, a *app.App, w app.Work) error {
	working, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var parts sync.WaitGroup
	errs := make(chan error, 3) // one for each part
	part := func(run func() error) {
		parts.Go(func() {
			err := run()
			if err != nil {
				stop(err)
			}
			errs <- err
		})
	}
	refused := make(chan string) // closed when the whole file has been enqueued
	part(func() error { return r.enqueue(working, a, refused) })
	part(func() error { return a.Work(working, w) })
	part(func() error {
		defer stop(errRunEnded)
		return r.watch(working, a, refused)
	})
	parts.Wait()
	return errors.Join(<-errs, <-errs, <-errs)
}

// errRunEnded is why the parts of a run stop that came to its end.
var errRunEnded = errors.New("the run has ended")

// enqueue enqueues the file, and tells refused of ids that will have no job.
func (r *runOf) enqueue(ctx context.Context, a *app.App, refused chan<- string) error {
	err := enqueueAll(ctx, a.Fabric().EnqueueMany, r.batch.specs(), func(e enqueued) error {
		switch {
		case e.err == nil || ctx.Err() != nil:
			return nil
		case r.sameLine(e):
			r.kept++
			return nil
		case !r.flags.keepGoing:
			return r.batch.at(e.line, e.err)
		}
		r.refused++
		r.complain(r.batch.at(e.line, e.err))
		select {
		case refused <- e.spec.ID:
		case <-ctx.Done():
		}
		return nil
	})
	if ctx.Err() != nil {
		return nil // whoever ended ctx says why
	}
	if err == nil {
		close(refused)
	}
	return err
}

// sameLine reports whether a job exists already that was made from this very
// line: its id says so. It differs then in what the command's flags gave it.
func (r *runOf) sameLine(e enqueued) bool {
	return errors.Is(e.err, job.ErrDuplicateJob) && e.derived
}

// watch follows the jobs to their end, through one subscription to all jobs of
// the fabric, of which the file's are most. The end counts only once the whole
// file is enqueued: an id of the file may be that of an older job, and whether
// that is the same job is for the fabric to say.
func (r *runOf) watch(ctx context.Context, a *app.App, refused <-chan string) error {
	progress := newProgress(r.Err, r.tracker.total())
	defer progress.finish()
	changes, stop := r.changes(ctx, a)
	defer stop()
	for refused != nil || !r.tracker.done() {
		select {
		case <-ctx.Done():
			return nil
		case id, more := <-refused:
			if !more {
				refused = nil
			}
			r.tracker.forget(id)
		case c := <-changes:
			if c.err != nil {
				return c.err
			}
			r.tracker.see(c.job)
		}
		progress.show(r.tracker)
	}
	return nil
}

// change is one change of a job, or the error that ended the watching.
type change struct {
	job job.Job
	err error
}

// changes runs the fabric's watch in a goroutine, until stop is called.
func (r *runOf) changes(ctx context.Context, a *app.App) (<-chan change, func()) {
	ctx, cancel := context.WithCancel(ctx)
	out := make(chan change)
	var watching sync.WaitGroup
	watching.Go(func() {
		for j, err := range a.Fabric().Watch(ctx) {
			if errors.Is(err, kv.ErrUnreadable) {
				r.log.Warn("a record cannot be read", "error", err)
				continue
			}
			select {
			case out <- change{j, err}:
			case <-ctx.Done():
				return
			}
		}
		select {
		case out <- change{err: errors.New("the watch of the jobs has ended")}:
		case <-ctx.Done():
		}
	})
	return out, func() {
		cancel()
		watching.Wait()
	}
}

// lookAgain sees what became of the jobs in a drain, after the watch has ended.
func (r *runOf) lookAgain(a *app.App, stage string) error {
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	for j, err := range a.Fabric().List(ctx, fabric.Filter{Stage: stage}) {
		if errors.Is(err, kv.ErrUnreadable) {
			continue
		}
		if err != nil {
			return err
		}
		r.tracker.see(j)
	}
	return nil
}

// report prints what became of the jobs. Its error is the exit code of a run in
// which something did not succeed.
func (r *runOf) report(stopped bool, data string) error {
	if err := r.outcomes(); err != nil {
		return err
	}
	if r.kept > 0 {
		r.note("%d jobs exist with another --timeout or --max-attempts, and keep it", r.kept)
	}
	t := r.tracker
	if t.succeeded() && r.refused+r.batch.broken == 0 {
		return nil
	}
	r.note("%s", summary(t))
	switch unfinished := t.total() - t.ended; {
	case unfinished == 0:
	case stopped && data != "":
		r.note("stopped with %d jobs to go; the same command goes on with them", unfinished)
	case stopped:
		r.note("stopped with %d jobs to go; with --data DIR the same command could go on", unfinished)
	default:
		r.note("%d jobs wait for others that did not succeed", unfinished)
	}
	return &app.QuietError{Code: app.ExitFailed}
}

// outcomes prints the jobs in the order of the file.
func (r *runOf) outcomes() error {
	if r.tracker.total() == 0 {
		return nil
	}
	t := newTable(r.Out, "ID", "STATE", "ATTEMPTS", "DURATION", "OUTPUT OR REASON")
	for _, id := range r.tracker.order {
		if err := r.outcome(t, id); err != nil {
			return err
		}
	}
	if r.flags.asJSON {
		return nil
	}
	return t.flush()
}

func (r *runOf) outcome(t *table, id string) error {
	j, wanted := r.tracker.wanted[id]
	switch {
	case !wanted: // refused, and reported as such
		return nil
	case j == nil && r.flags.asJSON:
		return nil
	case j == nil:
		return t.row(id, "not enqueued", "-", "-", "")
	case r.flags.asJSON:
		return printJob(r.Out, *j, true)
	}
	return t.row(j.ID, string(j.State), fmt.Sprintf("%d/%d", j.Attempt, j.MaxAttempts), took(*j), ending(*j))
}

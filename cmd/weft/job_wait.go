package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/weft-fabric/weft/fabric"
	"github.com/weft-fabric/weft/internal/app"
	"github.com/weft-fabric/weft/job"
)

// errWaitedEnough is the cause of a wait that took as long as it may.
var errWaitedEnough = errors.New("the time to wait is over")

func (p *program) newJobWait() *cobra.Command {
	var timeout time.Duration
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "wait ID...",
		Short: "Wait until jobs have ended",
		Long: `Wait prints the id and the state of each job when it has ended. Its exit code is
0 if all have succeeded, 1 if one has not or the time is over, 3 if one is not
there.`,
		Example: `  weft job wait jb_01J9ZK --timeout 5m
  weft job wait $(weft enqueue hash --jobs jobs.jsonl)`,
		Args: someIDs,
	}
	cmd.Flags().DurationVar(&timeout, "timeout", 0, "wait no longer than this (default for ever)")
	jsonFlag(cmd, &asJSON)
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		if cmd.Flags().Changed("timeout") && timeout <= 0 {
			return fmt.Errorf("--timeout %s is not above 0; leave it out to wait for ever", timeout)
		}
		return nil
	}
	return p.command(cmd, connecting(cmd), func(ctx context.Context, s settings, ids []string) error {
		return p.with(ctx, s, "job wait", func(ctx context.Context, a *app.App) error {
			w := &waiting{program: p, fabric: a.Fabric(), asJSON: asJSON, left: map[string]bool{}}
			return w.forAll(ctx, ids, timeout)
		})
	})
}

// waiting is one call of weft job wait.
type waiting struct {
	*program
	fabric *fabric.Fabric
	asJSON bool
	left   map[string]bool // ids of jobs that have not ended
	failed bool            // one has ended, but not succeeded
}

func (w *waiting) forAll(ctx context.Context, ids []string, timeout time.Duration) error {
	if err := w.present(ctx, w.fabric, ids); err != nil {
		return err
	}
	for _, id := range ids {
		w.left[id] = true
	}
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, timeout, errWaitedEnough)
		defer cancel()
	}
	err := w.watch(ctx)
	if errors.Is(context.Cause(ctx), errWaitedEnough) {
		err = w.lookAgain(context.WithoutCancel(ctx))
	}
	if errors.Is(context.Cause(ctx), errWaitedEnough) && len(w.left) > 0 {
		w.note("%d of %d jobs have not ended after %s", len(w.left), len(ids), timeout)
		return &app.QuietError{Code: app.ExitFailed}
	}
	if err == nil && w.failed {
		return &app.QuietError{Code: app.ExitFailed}
	}
	return err
}

// present refuses to wait for a job that is not there, and so may never be.
func (p *program) present(ctx context.Context, f *fabric.Fabric, ids []string) error {
	return p.each(ctx, ids, func(ctx context.Context, id string) error {
		if _, err := f.Raw(ctx, id); err != nil {
			return named(id, err)
		}
		return nil
	})
}

// lookAgain reads the jobs that are left once more when the time is over: the
// watch may lag behind after the server was away.
func (w *waiting) lookAgain(ctx context.Context) error {
	for id := range w.left {
		err := w.bounded(ctx, func(ctx context.Context) error {
			j, err := w.fabric.Get(ctx, id)
			if err != nil {
				return named(id, err)
			}
			return w.see(j)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// watch sees the jobs to their ends.
func (w *waiting) watch(ctx context.Context) error {
	ids := make([]string, 0, len(w.left))
	for id := range w.left {
		ids = append(ids, id)
	}
	for j, err := range w.fabric.Watch(ctx, ids...) {
		if err != nil {
			return err
		}
		if err := w.see(j); err != nil {
			return err
		}
		if len(w.left) == 0 {
			return nil
		}
	}
	return context.Cause(ctx)
}

func (w *waiting) see(j job.Job) error {
	if !j.State.Terminal() || !w.left[j.ID] {
		return nil
	}
	delete(w.left, j.ID)
	w.failed = w.failed || j.State != job.StateSucceeded
	return w.printState(j, w.asJSON)
}

// printState prints a job's id and state, and as JSON its record.
func (p *program) printState(j job.Job, asJSON bool) error {
	if asJSON {
		return printJob(p.Out, j, true)
	}
	_, err := fmt.Fprintf(p.Out, "%s %s\n", j.ID, j.State)
	return err
}

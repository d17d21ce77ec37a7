package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weft-fabric/weft/fabric"
	"github.com/weft-fabric/weft/internal/app"
	"github.com/weft-fabric/weft/kv"
)

func (p *program) newWorker() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "worker",
		Short:   "Look at workers",
		Example: `  weft worker ls`,
		Args:    noSuchCommand,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(p.newWorkerLs())
	return cmd
}

func (p *program) newWorkerLs() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List workers and what they run",
		Long: `Ls lists the workers that made themselves known in the last half minute. A job
marked with ! has a handler that did not stop when it was told to: its slot and
its lease have been taken from it, and it cannot change the job any more.`,
		Example: `  weft worker ls
  weft worker ls --json | jq -r .id`,
		Args: cobra.NoArgs,
	}
	jsonFlag(cmd, &asJSON)
	return p.command(cmd, connecting(cmd), func(ctx context.Context, s settings, _ []string) error {
		return p.with(ctx, s, "worker ls", func(ctx context.Context, a *app.App) error {
			return p.workers(ctx, a.Fabric(), asJSON)
		})
	})
}

// workers prints the workers as they come. One that cannot be read is reported,
// and the list goes on.
func (p *program) workers(ctx context.Context, fab *fabric.Fabric, asJSON bool) error {
	t := newTable(p.Out, "ID", "HOST", "PID", "STAGES", "RUNNING", "STARTED", "JOBS")
	var unreadable error
	for w, err := range fab.Workers(ctx) {
		switch {
		case errors.Is(err, kv.ErrUnreadable):
			p.complain(err)
			unreadable = &app.QuietError{Code: app.ExitFailed}
			continue
		case err == nil && asJSON:
			err = json.NewEncoder(p.Out).Encode(w)
		case err == nil:
			err = t.row(w.ID, w.Host, fmt.Sprint(w.PID), strings.Join(w.Stages, ","), busy(w), ago(fab.Now(), w.Started), runningJobs(w))
		}
		if err != nil {
			return err
		}
	}
	if asJSON {
		return unreadable
	}
	return errors.Join(t.flush(), unreadable)
}

// busy is how many slots of a worker are taken.
func busy(w fabric.Presence) string {
	taken := 0
	for _, r := range w.Running {
		if !r.Stray {
			taken++
		}
	}
	return fmt.Sprintf("%d/%d", taken, w.Slots*len(w.Stages))
}

func runningJobs(w fabric.Presence) string {
	var ids []string
	for _, r := range w.Running {
		if r.Stray {
			ids = append(ids, r.ID+"!")
			continue
		}
		ids = append(ids, r.ID)
	}
	return preview(strings.Join(ids, " "))
}

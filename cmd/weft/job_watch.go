package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/weft-fabric/weft/internal/app"
	"github.com/weft-fabric/weft/job"
	"github.com/weft-fabric/weft/kv"
)

func (p *program) newJobWatch() *cobra.Command {
	var stage string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "watch [ID...]",
		Short: "Print each change of jobs",
		Long: `Watch prints jobs as they are, and then each change, until SIGINT or SIGTERM.
Without an id it is all jobs. Of changes that follow each other fast only the
last may be seen. Nothing of it is kept; weft job outcomes is for whoever must not
miss how a job ended.`,
		Example: `  weft job watch jb_01J9ZK
  weft job watch --stage hash --json`,
	}
	cmd.Flags().StringVar(&stage, "stage", "", "jobs of this `STAGE`")
	jsonFlag(cmd, &asJSON)
	return p.command(cmd, connecting(cmd), func(ctx context.Context, s settings, ids []string) error {
		for _, id := range ids {
			if err := job.CheckID(id); err != nil {
				return err
			}
		}
		ctx, _, stop := app.Signals(ctx)
		defer stop()
		err := p.with(ctx, s, "job watch", func(ctx context.Context, a *app.App) error {
			if err := p.present(ctx, a.Fabric(), ids); err != nil {
				return err
			}
			return p.watch(ctx, a, stage, asJSON, ids)
		})
		return stoppedOr(ctx, err)
	})
}

func (p *program) watch(ctx context.Context, a *app.App, stage string, asJSON bool, ids []string) error {
	for j, err := range a.Fabric().Watch(ctx, ids...) {
		switch {
		case errors.Is(err, kv.ErrUnreadable):
			p.complain(err)
		case err != nil:
			return err
		case stage != "" && j.Stage != stage:
		default:
			if err := p.printChange(j, asJSON); err != nil {
				return err
			}
		}
	}
	return context.Cause(ctx)
}

// printChange prints one line of a watch.
func (p *program) printChange(j job.Job, asJSON bool) error {
	if asJSON {
		return printJob(p.Out, j, true)
	}
	line := fmt.Sprintf("%s %s %s %s", stamp(j.UpdatedAt), j.ID, j.Stage, j.State)
	if text := ending(j); text != "" {
		line += " " + text
	}
	_, err := fmt.Fprintln(p.Out, line)
	return err
}

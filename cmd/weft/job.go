package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/weft-fabric/weft/fabric"
	"github.com/weft-fabric/weft/internal/app"
	"github.com/weft-fabric/weft/internal/roles"
)

func (p *program) newJob() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "job",
		Short: "Look at jobs, wait for them, and change them",
		Example: `  weft job ls --stage hash --state failed
  weft job get jb_01J9ZK
  weft job explain jb_01J9ZK
  weft job wait jb_01J9ZK && weft job output jb_01J9ZK`,
		Args: noSuchCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(p.newJobGet(), p.newJobLs(), p.newJobWait(), p.newJobWatch(), p.newJobOutcomes(), p.newJobOutput(), p.newJobExplain(), p.newJobCancel(), p.newJobRetry())
	return cmd
}

func someIDs(_ *cobra.Command, args []string) error {
	if len(args) == 0 {
		return errors.New("give the id of a job, or several")
	}
	return nil
}

// eachJob connects and calls do for each id; see program.each.
func (p *program) eachJob(ctx context.Context, s settings, name string, ids []string, act roles.Act, do func(context.Context, *fabric.Fabric, string) error) error {
	return p.with(ctx, s, name, func(ctx context.Context, a *app.App) error {
		if err := a.Refusals().May(ctx, act); err != nil {
			return err
		}
		return p.each(ctx, ids, func(ctx context.Context, id string) error { return do(ctx, a.Fabric(), id) })
	})
}

package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/weft-fabric/weft/internal/app"
	"github.com/weft-fabric/weft/internal/roles"
)

func (p *program) newCronRm() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "rm NAME",
		Aliases: []string{"remove"},
		Short:   "Remove a cron entry; its jobs stay",
		Example: `  weft cron rm nightly`,
		Args:    oneCron,
	}
	return p.command(cmd, connecting(cmd), func(ctx context.Context, s settings, args []string) error {
		return p.with(ctx, s, "cron rm", func(ctx context.Context, a *app.App) error {
			if err := a.Refusals().May(ctx, roles.Operate); err != nil {
				return err
			}
			return p.bounded(ctx, func(ctx context.Context) error { return a.Fabric().RemoveCron(ctx, args[0]) })
		})
	})
}

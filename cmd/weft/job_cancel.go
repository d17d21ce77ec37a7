package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/weft-fabric/weft/fabric"
	"github.com/weft-fabric/weft/internal/roles"
)

func (p *program) newJobCancel() *cobra.Command {
	var reason string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "cancel ID...",
		Short: "Cancel jobs that have not ended",
		Long: `Cancel ends jobs, whether they wait or run; a running one is told to stop, and
what it still reports is dropped. A job that has ended is refused with
terminal_job.`,
		Example: "  weft job cancel jb_01J9ZK --reason 'wrong input'",
		Args:    someIDs,
	}
	cmd.Flags().StringVar(&reason, "reason", "cancelled by an operator", "why, for the record")
	jsonFlag(cmd, &asJSON)
	return p.command(cmd, connecting(cmd), func(ctx context.Context, s settings, ids []string) error {
		return p.eachJob(ctx, s, "job cancel", ids, roles.Cancel, func(ctx context.Context, f *fabric.Fabric, id string) error {
			j, err := f.Cancel(ctx, id, reason)
			if err != nil {
				return named(id, err)
			}
			return p.printState(j, asJSON)
		})
	})
}

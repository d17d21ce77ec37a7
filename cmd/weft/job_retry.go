package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/weft-fabric/weft/fabric"
	"github.com/weft-fabric/weft/internal/roles"
)

func (p *program) newJobRetry() *cobra.Command {
	var reason string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "retry ID...",
		Short: "Give failed jobs one more attempt",
		Long: `Retry gives failed jobs one more attempt, now. A job that has not failed is
refused with not_failed.`,
		Example: `  weft job retry jb_01J9ZK
  weft job retry $(weft job ls --state failed --json | jq -r .id)`,
		Args: someIDs,
	}
	cmd.Flags().StringVar(&reason, "reason", "retried by an operator", "why, for the record")
	jsonFlag(cmd, &asJSON)
	return p.command(cmd, connecting(cmd), func(ctx context.Context, s settings, ids []string) error {
		return p.eachJob(ctx, s, "job retry", ids, roles.Operate, func(ctx context.Context, f *fabric.Fabric, id string) error {
			j, err := f.Retry(ctx, id, reason)
			if err != nil {
				return named(id, err)
			}
			return p.printState(j, asJSON)
		})
	})
}

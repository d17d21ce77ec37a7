package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/weft-fabric/weft/fabric"
	"github.com/weft-fabric/weft/internal/roles"
	"github.com/weft-fabric/weft/job"
)

func (p *program) newJobCancel() *cobra.Command {
	verb := bulkVerb{
		asked: roles.Cancel,
		name:  "cancel", done: "cancelled", reason: "cancelled by an operator",
		states: []job.State{job.StateWaiting, job.StateRetryWaiting, job.StateLeased},
		since:  func(j job.Job) time.Time { return j.CreatedAt },
		act: func(ctx context.Context, f *fabric.Fabric, id, reason string) (job.Job, error) {
			return f.Cancel(ctx, id, reason)
		},
		actIn: func(ctx context.Context, f *fabric.Fabric, id, reason string, states []job.State) (job.Job, error) {
			return f.CancelIn(ctx, id, reason, states...)
		},
	}
	return p.newBulk(verb, &cobra.Command{
		Short: "Cancel jobs that have not ended",
		Long: `Cancel ends jobs, whether they wait or run; a running one is told to stop, and
what it still reports is dropped. A job that has ended is refused with
terminal_job.`,
		Example: `  weft job cancel jb_01J9ZK --reason 'wrong input'
  weft job cancel --stage hash --label tenant=acme`,
	})
}

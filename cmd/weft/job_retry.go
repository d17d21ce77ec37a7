package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/weft-fabric/weft/fabric"
	"github.com/weft-fabric/weft/internal/roles"
	"github.com/weft-fabric/weft/job"
)

func (p *program) newJobRetry() *cobra.Command {
	verb := bulkVerb{
		asked: roles.Operate,
		name:  "retry", done: "retried", reason: "retried by an operator",
		states: []job.State{job.StateFailed},
		since:  func(j job.Job) time.Time { return j.FinishedAt },
		act: func(ctx context.Context, f *fabric.Fabric, id, reason string) (job.Job, error) {
			return f.Retry(ctx, id, reason)
		},
		actIn: func(ctx context.Context, f *fabric.Fabric, id, reason string, _ []job.State) (job.Job, error) {
			return f.Retry(ctx, id, reason) // only what has failed can be
		},
	}
	return p.newBulk(verb, &cobra.Command{
		Short: "Give failed jobs one more attempt",
		Long: `Retry gives failed jobs one more attempt, now. A job that has not failed is
refused with not_failed.`,
		Example: `  weft job retry jb_01J9ZK
  weft job retry --stage hash --state failed --limit 100`,
	})
}

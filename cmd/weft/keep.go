package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/weft-fabric/weft/internal/app"
)

func (p *program) newKeep() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "keep",
		Short: "Run a keeper alone",
		Long: `Keep runs a keeper and nothing else until SIGINT or SIGTERM: for a fabric whose
runners have not the permissions for one, on a server that is not weft serve. Run
two, on different machines; one leads, and the other takes over when it dies.`,
		Example: `  weft keep --role operator --user weft-operator
  weft keep --metrics 127.0.0.1:9464`,
		Args: cobra.NoArgs,
	}
	loader := staying(cmd, "metrics")
	return p.command(cmd, loader, func(ctx context.Context, s settings, _ []string) (err error) {
		ctx, _, stop := app.Signals(ctx)
		defer stop()
		a, err := app.Start(ctx, app.Options{Config: s.Config, Logger: s.log, Name: "weft keep", Keep: true, Version: programVersion()})
		if err != nil {
			return stoppedOr(ctx, err)
		}
		defer func() { err = errors.Join(err, a.Stop()) }()
		bound, end := a.Refusals().Bound(ctx)
		defer end()
		<-bound.Done()
		return stoppedOr(ctx, app.Refused(bound, context.Cause(bound)))
	})
}

package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/weft-fabric/weft/config"
	"github.com/weft-fabric/weft/internal/app"
	"github.com/weft-fabric/weft/internal/embed"
)

// defaultDataDir is where weft serve keeps its data unless told otherwise, below
// the current directory.
const defaultDataDir = "weft-data"

func (p *program) newServe() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run a JetStream server, the keeper and the service API",
		Long: `Serve runs a nats-server with JetStream inside the process, the keeper, and the
service API, which answers requests on NAMESPACE.api.VERB; nats micro info shows
them. It prints the URL for clients to stdout and runs until SIGINT or SIGTERM.

The data is in ./weft-data unless --data names another directory. One process
uses a directory at a time; after a kill -9 it can be used again at once.

What a file of --nats-config says holds where no flag says otherwise. If neither
says how often to sync, it is every 10 s here too.`,
		Example: `  weft serve
  weft serve --data /var/lib/weft --listen 127.0.0.1:4333 --sync-interval always
  weft serve --nats-config nats.conf
  weft serve --metrics 127.0.0.1:9464`,
		Args: cobra.NoArgs,
	}
	loader := config.NewLoader()
	loader.Default.Data = defaultDataDir
	loader.Default.Log.Level = "info"
	loader.Bind(cmd.Flags(), config.Serving...)
	loader.Bind(cmd.Flags(), config.Identity...)
	loader.Bind(cmd.Flags(), "namespace", "lease", "log.level", "log.format", "metrics")
	return p.command(cmd, loader, func(ctx context.Context, s settings, _ []string) error { return p.serve(ctx, s) })
}

func (p *program) serve(ctx context.Context, s settings) (err error) {
	switch {
	case s.Data == "":
		return app.Usage("--data is empty; name a directory, or leave it out for ./%s", defaultDataDir)
	case s.Listen == "":
		return app.Usage("--listen is empty; name an address such as 127.0.0.1:4222, or leave it out")
	}
	ctx, _, stop := app.Signals(ctx)
	defer stop()
	server, err := embedOptions(s)
	if err != nil {
		return err
	}
	a, err := app.Start(ctx, app.Options{
		Config: s.Config, Logger: s.log, Name: "weft serve", Server: server, Keep: true, API: true, Version: programVersion(),
	})
	if err != nil {
		return stoppedOr(ctx, err)
	}
	defer func() { err = errors.Join(err, a.Stop()) }()
	if _, err := fmt.Fprintln(p.Out, a.Server().ClientURL()); err != nil {
		return err
	}
	p.note("serving %s from %s", a.Server().ClientURL(), a.Server().DataDir())
	p.note("%s", powerLoss(a.Server()))
	<-ctx.Done()
	p.note("stopping")
	return nil
}

// stoppedOr is nil for an error that only says that a signal ended the start.
func stoppedOr(ctx context.Context, err error) error {
	if errors.Is(context.Cause(ctx), app.ErrSignal) {
		return nil
	}
	return err
}

// powerLoss says what the server's sync interval means.
func powerLoss(server *embed.Server) string {
	every, always := server.Sync()
	if always {
		return "synced to disk before each answer: a power loss loses nothing that was accepted"
	}
	return fmt.Sprintf("synced to disk every %s: a power loss can lose the jobs accepted and the outcomes recorded in the last %s; "+
		"a crash or kill -9 of this process loses nothing; --sync-interval always loses nothing and is slower", every, every)
}

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"github.com/weft-fabric/weft/config"
	"github.com/weft-fabric/weft/internal/app"
)

// runFlags are the flags of weft run beside the settings.
type runFlags struct {
	jobs      string
	keepGoing bool
	asJSON    bool
	timeout   time.Duration
	command   commandFlags
}

func (p *program) newRun() *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "run STAGE --jobs FILE [flags] -- CMD...",
		Short: "Run a file of jobs here and now, server included",
		Long: `Run starts a server inside the process, enqueues the specs of a JSONL file, runs
a command for each, and prints what became of them. It ends when every job of
the file has ended, with exit code 1 if any has not succeeded.

With --data the state is kept, and the same command goes on where it stopped:
what has succeeded does not run again, what has failed stays failed (see weft
job retry). A line without an id gets one that is derived from its text and from
how many equal lines came before it. Without --data everything is forgotten.

` + commandContract,
		Example: `  weft run hash --jobs jobs.jsonl -- sha256sum
  weft run resize --jobs - --concurrency 8 --data ./resize-data -- ./resize.sh < jobs.jsonl`,
		Args: checkDash,
	}
	f.bind(cmd)
	loader := config.NewLoader()
	loader.Default.Listen = ""
	loader.Bind(cmd.Flags(), config.Serving...)
	loader.Bind(cmd.Flags(), config.Identity...)
	loader.Bind(cmd.Flags(), "namespace", "lease", "concurrency", "drain", "max_attempts", "log.level", "log.format", "metrics")
	loader.Bind(cmd.Flags(), config.Feeding...)
	return p.command(cmd, loader, func(ctx context.Context, s settings, args []string) error {
		stage, argv, err := oneCommandAfterDash(cmd, args)
		if err != nil {
			return err
		}
		return p.run(ctx, s, f, stage, argv)
	})
}

func (f *runFlags) bind(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.jobs, "jobs", "", "JSONL `FILE` of specs, or - for stdin")
	flags.BoolVar(&f.keepGoing, "keep-going", false, "run the other lines when some are broken or refused")
	flags.DurationVar(&f.timeout, "timeout", 0, "limit of one attempt, for specs that do not say (default none)")
	f.command.bind(cmd)
	jsonFlag(cmd, &f.asJSON)
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		switch {
		case f.jobs == "":
			return errors.New("give the jobs with --jobs FILE, or --jobs - for stdin")
		case cmd.Flags().Changed("timeout") && f.timeout <= 0:
			return fmt.Errorf("--timeout %s is not above 0; leave it out for no limit", f.timeout)
		}
		return nil
	}
}

// run checks everything that can be wrong with the call before it starts a
// server.
func (p *program) run(ctx context.Context, s settings, f runFlags, stage string, argv []string) (err error) {
	f.command.maxInput = s.MaxInput
	handler, err := newHandler(stage, argv, f.command, slog.LevelDebug)
	if err != nil {
		return err
	}
	file, err := openSpecs(f.jobs, p.In)
	if err != nil {
		return &app.UsageError{Err: err}
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	fresh := func() *specChecker {
		return &specChecker{stage: stage, maxAttempts: s.MaxAttempts, timeout: f.timeout, derive: true, trace: surroundingTrace()}
	}
	batch, err := checkBatch(file, fresh, f.keepGoing, p.complain)
	if err != nil {
		return err
	}
	p.noteEmpty(batch)
	r := &runOf{program: p, flags: f, batch: batch, tracker: newTracker(), log: s.log}
	if err := r.plan(); err != nil {
		return err
	}
	return p.runBatch(ctx, s, r, handler, app.Work{Stage: stage, Handler: handler, Grace: handler.Grace()})
}

// runBatch starts the process's parts, sees the run through, and reports.
func (p *program) runBatch(ctx context.Context, s settings, r *runOf, handler *commandHandler, w app.Work) (err error) {
	ctx, second, stop := app.Signals(ctx)
	defer stop()
	w.Abort = second
	server, err := embedOptions(s)
	if err != nil {
		return err
	}
	a, err := app.Start(ctx, app.Options{Config: s.Config, Logger: s.log, Name: "weft run " + w.Stage, Server: server, Keep: true, Version: programVersion()})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Stop()) }()
	if url := a.Server().ClientURL(); url != "" {
		p.note("the server of this run listens at %s", url)
	}
	if err := p.checkLease(ctx, s, a, w.Stage); err != nil {
		return err
	}
	handler.use(a)
	err = r.through(ctx, a, w)
	if err != nil || ctx.Err() != nil {
		err = errors.Join(err, r.lookAgain(a, w.Stage))
	}
	if err != nil {
		return errors.Join(err, r.outcomes())
	}
	return r.report(ctx.Err() != nil, s.Data)
}

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/weft-fabric/weft/config"
	"github.com/weft-fabric/weft/internal/app"
)

// Streams are where a command reads and writes. Results go to Out, everything
// else to Err.
type Streams struct {
	In  io.Reader
	Out io.Writer
	Err io.Writer
}

// program is what the commands of one run share.
type program struct {
	Streams
	// began is set once a command has begun; an error before that is a wrong
	// call, whatever it is.
	began bool
}

// Execute runs the program and gives its exit code.
func Execute(ctx context.Context, args []string, s Streams) int {
	p := &program{Streams: s}
	root := p.newRoot()
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return app.ExitDone
	}
	if !p.began {
		err = app.Usage("%w; see %s --help", err, cmd.CommandPath())
	}
	p.complain(err)
	return app.ExitCode(err)
}

// NewRootCommand gives the whole program as a command, for its documentation.
func NewRootCommand(s Streams) *cobra.Command { return (&program{Streams: s}).newRoot() }

func (p *program) newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "weft",
		Short: "A worker fabric on NATS JetStream",
		Long: `weft publishes jobs, runs them under leases, and shows what became of them.

Exit codes: 0 done, 1 failed, 2 wrong usage, 3 not found, 4 refused (the error
code is printed), 5 no server.`,
		Example: `  # run a file of jobs here and now, without any server
  weft run hash --jobs jobs.jsonl -- sha256sum

  # the same with a server that stays
  weft serve --data ./weft-data &
  weft enqueue hash --input-ref data:,hello
  weft work hash -- sha256sum`,
		Args:          noSuchCommand,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetFlagErrorFunc(plainFlagError)
	root.SetIn(p.In)
	root.SetOut(p.Out)
	root.SetErr(p.Err)
	root.AddCommand(
		p.newRun(), p.newServe(), p.newEnqueue(), p.newWork(), p.newJob(), p.newStage(), p.newCron(), p.newWorker(), p.newDoctor(), p.newKeep(), p.newAuth(), p.newBench(), p.newBenchWorker(), p.newVersion(), newConfigTopic(),
	)
	return root
}

// noSuchCommand refuses what a group of commands does not have.
func noSuchCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	cmd.SuggestionsMinimumDistance = 2
	text := fmt.Sprintf("%q is no command of %s", args[0], cmd.CommandPath())
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		text += fmt.Sprintf("; did you mean %q", near[0])
	}
	return errors.New(text)
}

// complain prints an error as one line, unless it was told already. Of joined
// errors one may have been and another not.
func (p *program) complain(err error) {
	if _, told := errors.AsType[*app.QuietError](err); !told {
		p.note("%s", app.Line(err))
		return
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, part := range joined.Unwrap() {
			p.complain(part)
		}
	}
}

// note prints one line for a person to stderr.
func (p *program) note(format string, args ...any) {
	_, _ = fmt.Fprintf(p.Err, "weft: "+format+"\n", args...) // there is nowhere to report that stderr is gone
}

// settings are the configuration of a command that has begun.
type settings struct {
	config.Config
	log   *slog.Logger
	given func(setting string) bool
}

// command makes cmd take its settings from the loader, which has been bound to
// its flags, before it does its work.
func (p *program) command(cmd *cobra.Command, loader *config.Loader, do func(context.Context, settings, []string) error) *cobra.Command {
	p.completes(cmd, loader)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := loader.Load(cmd.Flags())
		if err != nil {
			return err
		}
		log, err := app.NewLogger(p.Err, c.Log)
		if err != nil {
			return err
		}
		p.began = true
		return do(cmd.Context(), settings{Config: c, log: log, given: loader.Given}, args)
	}
	return cmd
}

// connecting binds the flags of a command that uses a server elsewhere.
func connecting(cmd *cobra.Command, more ...string) *config.Loader {
	return connectingBy(config.NewLoader(), cmd, more)
}

// staying is connecting for a command that runs until somebody stops it, and so
// says more of what it does.
func staying(cmd *cobra.Command, more ...string) *config.Loader {
	loader := config.NewLoader()
	loader.Default.Log.Level = "info" // before the flags are bound, which show it
	return connectingBy(loader, cmd, more)
}

func connectingBy(loader *config.Loader, cmd *cobra.Command, more []string) *config.Loader {
	loader.Bind(cmd.Flags(), config.Connecting...)
	loader.Bind(cmd.Flags(), "namespace", "log.level", "log.format")
	loader.Bind(cmd.Flags(), more...)
	return loader
}

// oneCommandAfterDash takes the arguments apart that are STAGE -- CMD...
func oneCommandAfterDash(cmd *cobra.Command, args []string) (stage string, argv []string, err error) {
	dash := cmd.ArgsLenAtDash()
	switch {
	case dash < 0:
		return "", nil, errors.New("give the command to run after --, as in weft " + cmd.Name() + " STAGE -- CMD")
	case dash != 1:
		return "", nil, fmt.Errorf("give one stage before --, not %d", dash)
	case len(args) == dash:
		return "", nil, errors.New("give a command after --")
	}
	return args[0], args[dash:], nil
}

func checkDash(cmd *cobra.Command, args []string) error {
	_, _, err := oneCommandAfterDash(cmd, args)
	return err
}

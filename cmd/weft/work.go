package main

import (
	"context"
	"errors"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/weft-fabric/weft/config"
	"github.com/weft-fabric/weft/internal/app"
	"github.com/weft-fabric/weft/internal/roles"
	"github.com/weft-fabric/weft/job"
)

// commandContract is the part of the help that says what a command has to do.
const commandContract = `The command gets the job's record as JSON on stdin, or with --stdin input what
input_ref names: a data: URI, a nats-obj:// object, and with their flags s3://
and http(s)://. With --input-file that comes as a temporary file, WEFT_INPUT_FILE.
An s3:// input has a link too, WEFT_INPUT_URL, which is a secret. The environment
has WEFT_JOB_ID WEFT_STAGE WEFT_ATTEMPT WEFT_FENCE WEFT_INPUT_REF WEFT_KEY and
WEFT_WORKER_ID, and TRACEPARENT if the job has a trace. Exit 0 is success, and
stdout is the output; 65 is a permanent failure; 75 gives the job back at no
charge; anything else is a failure that is tried again. The end of stderr is the
reason. To stop it, the whole process group gets SIGTERM, and SIGKILL 5 s later.`

func (p *program) newWork() *cobra.Command {
	var id string
	var keeper bool
	var command commandFlags
	cmd := &cobra.Command{
		Use:   "work STAGE [flags] -- CMD...",
		Short: "Run the jobs of a stage, one process an attempt",
		Long: `Work takes the jobs of a stage and runs a command for each attempt.

` + commandContract + `

The first SIGINT or SIGTERM drains: no new jobs are taken, and running ones have
the time of --drain before they are stopped and given back at no charge. The
second stops them at once.`,
		Example: `  weft work hash -- sha256sum
  weft work resize --concurrency 8 --lease 2m -- ./resize.sh --quality 80
  weft work hash --metrics 127.0.0.1:9464 --log-format json -- sha256sum`,
		Args: checkDash,
	}
	cmd.Flags().StringVar(&id, "id", "", "`WORKER` id; a fresh one by default")
	cmd.Flags().BoolVar(&keeper, "keeper", true, "run a keeper beside the work; by default not with --role runner")
	command.bind(cmd)
	loader := staying(cmd, append([]string{"lease", "concurrency", "drain", "metrics"}, config.Feeding...)...)
	return p.command(cmd, loader, func(ctx context.Context, s settings, args []string) error {
		stage, argv, err := oneCommandAfterDash(cmd, args)
		if err != nil {
			return err
		}
		command.maxInput = s.MaxInput
		handler, err := newHandler(stage, argv, command, slog.LevelInfo)
		if err != nil {
			return err
		}
		if s.Connection.Role == string(roles.Runner) && !cmd.Flags().Changed("keeper") {
			keeper = false // the role has not the permissions
		}
		return p.work(ctx, s, handler, keeper, app.Work{Stage: stage, Handler: handler, WorkerID: id, Grace: handler.Grace()})
	})
}

func (p *program) work(ctx context.Context, s settings, handler *commandHandler, keeper bool, w app.Work) (err error) {
	if w.WorkerID != "" {
		if err := job.CheckWorker(w.WorkerID); err != nil {
			return err
		}
	}
	ctx, second, stop := app.Signals(ctx)
	defer stop()
	w.Abort = second
	a, err := app.Start(ctx, app.Options{Config: s.Config, Logger: s.log, Name: "weft work " + w.Stage, Keep: keeper, Version: programVersion(), Stages: []string{w.Stage}})
	if err != nil {
		return stoppedOr(ctx, err)
	}
	defer func() { err = errors.Join(err, a.Stop()) }()
	if err := p.checkLease(ctx, s, a, w.Stage); err != nil {
		return stoppedOr(ctx, advised(err))
	}
	handler.use(a)
	return advised(a.Work(ctx, w))
}

// advised adds to the refusal of the keeper that the work does without one.
func advised(err error) error {
	refused, ok := errors.AsType[*app.RefusedError](err)
	if !ok || !refused.OfKeeper() {
		return err
	}
	copied := *refused // the log may have the same one
	copied.Advice = "leave the keeper to weft keep, or give --keeper=false"
	return &copied
}

// checkLease says so when a lease was given that the stage does not have.
func (p *program) checkLease(ctx context.Context, s settings, a *app.App, stage string) error {
	return p.bounded(ctx, func(ctx context.Context) error {
		ctx, end := a.Refusals().Bound(ctx)
		defer end()
		lease, err := a.StageLease(ctx, stage)
		err = app.Refused(ctx, err)
		if err == nil && s.given("lease") && lease != s.Lease {
			p.note("stage %s exists with lease %s and keeps it; lease %s is for a new stage", stage, lease, s.Lease)
		}
		return err
	})
}

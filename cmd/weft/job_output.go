package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/weft-fabric/weft/config"
	"github.com/weft-fabric/weft/fabric"
	"github.com/weft-fabric/weft/internal/app"
	"github.com/weft-fabric/weft/job"
)

func (p *program) newJobOutput() *cobra.Command {
	var wait bool
	cmd := &cobra.Command{
		Use:   "output ID",
		Short: "Print the output of a job that has succeeded",
		Long: `Output prints the output of a job, byte for byte. A job that has not ended is
refused with not_available, unless --wait waits for its end; one that failed or was
cancelled with terminal_job. An output_ref of a kind that Weft cannot open is
printed by weft job get. If what the output's reference names is gone, the exit
code is 3.`,
		Example: `  weft job output jb_01J9ZK > result
  weft job output $(weft enqueue hash --input-ref data:,hello) --wait`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("give the id of one job, not %d", len(args))
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&wait, "wait", false, "wait until the job has ended")
	return p.command(cmd, connecting(cmd, config.Opening...), func(ctx context.Context, s settings, ids []string) error {
		return p.with(ctx, s, "job output", func(ctx context.Context, a *app.App) error {
			return p.output(ctx, a.Fabric(), ids[0], wait)
		})
	})
}

func (p *program) output(ctx context.Context, f *fabric.Fabric, id string, wait bool) (err error) {
	var j job.Job
	err = p.bounded(ctx, func(ctx context.Context) (err error) {
		j, err = f.Get(ctx, id)
		return err
	})
	if err != nil {
		return named(id, err)
	}
	if wait && !j.State.Terminal() {
		if j, err = f.Wait(ctx, id); err != nil {
			return named(id, err)
		}
	}
	if err := hasOutput(j); err != nil {
		return err
	}
	output, err := f.Output(ctx, j)
	if err != nil {
		return fmt.Errorf("output of %s: %w", id, err)
	}
	defer func() { err = errors.Join(err, output.Close()) }()
	if _, err := io.Copy(p.Out, output); err != nil {
		return fmt.Errorf("output of %s: %w", id, err)
	}
	return nil
}

// hasOutput refuses a job that has no output, or none yet.
func hasOutput(j job.Job) error {
	switch {
	case j.State == job.StateSucceeded:
		return nil
	case !j.State.Terminal():
		return &job.Error{Code: job.CodeNotAvailable, JobID: j.ID, Reason: "the job is " + string(j.State) + " and has no output yet"}
	}
	return &job.Error{Code: job.CodeTerminalJob, JobID: j.ID, Reason: "the job is " + string(j.State) + " and has no output: " + oneLine(j.Reason)}
}

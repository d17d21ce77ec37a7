package main

import (
	"context"
	"fmt"
	"os"
	"os/user"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/weft-fabric/weft/fabric"
	"github.com/weft-fabric/weft/internal/app"
	"github.com/weft-fabric/weft/internal/roles"
)

func (p *program) newStage() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "stage",
		Short: "Look at stages, pause them, and change their settings",
		Example: `  weft stage ls
  weft stage pause hash --reason "disk is being replaced"
  weft stage set hash --lease 2m --concurrency 8`,
		Args: noSuchCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(p.newStageLs(), p.newStageInfo(), p.newStagePause(), p.newStageResume(), p.newStageSet())
	return cmd
}

// onStage connects and does something with the stage that the command names.
func (p *program) onStage(cmd *cobra.Command, name string, act roles.Act, do func(context.Context, *fabric.Fabric, string) error) *cobra.Command {
	cmd.Args = oneStage
	return p.command(cmd, connecting(cmd), func(ctx context.Context, s settings, args []string) error {
		return p.with(ctx, s, name, func(ctx context.Context, a *app.App) error {
			if err := a.Refusals().May(ctx, act); err != nil {
				return err
			}
			return p.bounded(ctx, func(ctx context.Context) error { return do(ctx, a.Fabric(), args[0]) })
		})
	})
}

func (p *program) newStagePause() *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use:   "pause STAGE",
		Short: "Begin no more jobs of a stage",
		Long: `Pause has no job of the stage begun any more, on any worker: within a second of
its end nothing is claimed. What runs goes on to its end. Enqueueing goes on. The
pause lasts until weft stage resume, also over restarts of workers and servers.`,
		Example: `  weft stage pause hash --reason "disk is being replaced"`,
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why, for whoever looks at the stage")
	return p.onStage(cmd, "stage pause", roles.Operate, func(ctx context.Context, f *fabric.Fabric, name string) error {
		_, err := f.PauseStage(ctx, name, whoami(), reason)
		return err
	})
}

// whoami is who calls, as far as the system says.
func whoami() string {
	name, host := os.Getenv("USER"), "unknown"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if h, err := os.Hostname(); err == nil {
		host = h
	}
	return name + "@" + host
}

func (p *program) newStageResume() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "resume STAGE",
		Short:   "Begin jobs of a stage again",
		Example: `  weft stage resume hash`,
	}
	return p.onStage(cmd, "stage resume", roles.Operate, func(ctx context.Context, f *fabric.Fabric, name string) error {
		_, err := f.ResumeStage(ctx, name)
		return err
	})
}

// limit is a stage's concurrency for people.
func limit(concurrency int) string {
	if concurrency == 0 {
		return "-"
	}
	return strconv.Itoa(concurrency)
}

func yesNo(is bool) string {
	if is {
		return "yes"
	}
	return "no"
}

// notCounted says of how long ago the counts are that nobody keeps.
func (p *program) notCounted(s fabric.StageStatus, f *fabric.Fabric) {
	hint := "weft work, weft serve or weft keep runs one"
	if s.Counted.IsZero() {
		p.note("no keeper runs, so nobody has counted blocked and ended jobs; %s", hint)
		return
	}
	p.note("no keeper runs; blocked and ended jobs of stage %s are as counted %s ago, at %s; %s", s.Name, short(f.Now().Sub(s.Counted)), stamp(s.Counted), hint)
}

// countOf is a count of the keeper's for people; there may be none.
func countOf(s fabric.StageStatus, n int) string {
	if s.Stale && s.Counted.IsZero() {
		return "?"
	}
	return fmt.Sprint(n)
}

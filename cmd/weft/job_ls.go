package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/weft-fabric/weft/fabric"
	"github.com/weft-fabric/weft/internal/app"
	"github.com/weft-fabric/weft/job"
	"github.com/weft-fabric/weft/kv"
)

// listFlags say which jobs.
type listFlags struct {
	filter fabric.Filter
	states []string
	labels []string
	given  bool // any of the filter's flags was
	asJSON bool
}

func (p *program) newJobLs() *cobra.Command {
	var f listFlags
	cmd := &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List jobs",
		Long: `Ls lists the jobs that match every given flag, in the order of their last
change. States are waiting, retry_waiting, leased, succeeded, failed, cancelled.

A list that --limit ended tells on stderr with which --after it goes on. A job
that changes while the list runs may be in it twice, as it was and as it is.`,
		Example: `  weft job ls --stage hash --state failed,cancelled
  weft job ls --label tenant=acme --limit 20
  weft job ls --json | jq -r .id`,
		Args: cobra.NoArgs,
	}
	flags := cmd.Flags()
	f.bind(flags)
	flags.Uint64Var(&f.filter.After, "after", 0, "go on after the `CURSOR` that a list with --limit has told")
	jsonFlag(cmd, &f.asJSON)
	cmd.PreRunE = f.check
	return p.command(cmd, connecting(cmd), func(ctx context.Context, s settings, _ []string) error {
		return p.with(ctx, s, "job ls", func(ctx context.Context, a *app.App) error {
			return p.list(ctx, a.Fabric(), s.Namespace, f)
		})
	})
}

// bind gives the flags to all commands that pick jobs of those that are there.
func (f *listFlags) bind(flags *pflag.FlagSet) {
	f.bindFilter(flags)
	flags.IntVar(&f.filter.Limit, "limit", 0, "at most so many (default all)")
}

// filterFlags are those that say which jobs.
var filterFlags = []string{"stage", "state", "key", "label"}

// bindFilter gives the flags that say which jobs.
func (f *listFlags) bindFilter(flags *pflag.FlagSet) {
	flags.StringVar(&f.filter.Stage, "stage", "", "jobs of this `STAGE`")
	flags.StringSliceVar(&f.states, "state", nil, "jobs in this `STATE`, or several with commas between them")
	flags.StringVar(&f.filter.Key, "key", "", "jobs for this `KEY`")
	flags.StringArrayVar(&f.labels, "label", nil, "jobs with this label, `NAME=VALUE`; may be given again")
}

func (f *listFlags) check(cmd *cobra.Command, _ []string) (err error) {
	f.given = slices.ContainsFunc(filterFlags, cmd.Flags().Changed)
	for _, text := range f.states {
		state := job.State(text)
		if !state.Known() {
			return fmt.Errorf("--state %q is none of %s", text, stateNames())
		}
		f.filter.States = append(f.filter.States, state)
	}
	if cmd.Flags().Changed("limit") && f.filter.Limit < 1 {
		return fmt.Errorf("--limit %d is below 1; leave it out for all", f.filter.Limit)
	}
	if cmd.Flags().Changed("stage") {
		if err := job.CheckStage(f.filter.Stage); err != nil {
			return err
		}
	}
	f.filter.Labels, err = parseLabels(f.labels)
	return err
}

func stateNames() string {
	var names []string
	for _, state := range job.States() {
		names = append(names, string(state))
	}
	return strings.Join(names, " ")
}

// list prints the jobs as they come. A record that cannot be read is reported,
// and the list goes on.
func (p *program) list(ctx context.Context, fab *fabric.Fabric, namespace string, f listFlags) error {
	t := newTable(p.Out, "ID", "STAGE", "STATE", "ATTEMPTS", "UPDATED", "OUTPUT OR REASON")
	given, cursor := 0, uint64(0)
	for listed, err := range fab.Page(ctx, f.filter) {
		j := listed.Job
		given++
		cursor = max(cursor, listed.Cursor)
		switch {
		case errors.Is(err, kv.ErrUnreadable):
			p.complain(err)
			continue
		case err == nil && f.asJSON:
			err = printJob(p.Out, j, true)
		case err == nil:
			err = t.row(j.ID, j.Stage, string(j.State), fmt.Sprintf("%d/%d", j.Attempt, j.MaxAttempts), ago(fab.Now(), j.UpdatedAt), ending(j))
		}
		if err != nil {
			return err
		}
	}
	if !f.asJSON {
		if err := t.flush(); err != nil {
			return err
		}
		if given == 0 {
			p.whyNone(ctx, fab, namespace, f.filter.Stage)
		}
	}
	if given == f.filter.Limit && cursor > 0 {
		p.note("there may be more: --after %d", cursor)
	}
	return nil
}

// whyNone says of an empty table what a misspelt name would be the cause of. If that
// cannot be found out, the table is as true without.
func (p *program) whyNone(ctx context.Context, f *fabric.Fabric, namespace, stage string) {
	var all []fabric.StageStatus
	err := p.bounded(ctx, func(ctx context.Context) (err error) {
		all, err = f.Stages(ctx)
		return err
	})
	named := func(s fabric.StageStatus) bool { return s.Name == stage }
	switch {
	case err != nil:
	case len(all) == 0:
		p.note("there is no stage in namespace %s", namespace)
	case stage != "" && !slices.ContainsFunc(all, named):
		p.note("there is no stage %q", stage)
	}
}

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/weft-fabric/weft/fabric"
	"github.com/weft-fabric/weft/internal/app"
	"github.com/weft-fabric/weft/internal/roles"
)

// dryTimes is how many times --dry-run shows.
const dryTimes = 5

// cronFlags are the flags of weft cron add beside the settings.
type cronFlags struct {
	jobFlags
	schedule string
	zone     string
	paused   bool
	dryRun   bool
	asJSON   bool
}

func (p *program) newCronAdd() *cobra.Command {
	var f cronFlags
	cmd := &cobra.Command{
		Use:   "add NAME STAGE --schedule SCHEDULE --input-ref REF",
		Short: "Add or replace a cron entry",
		Long: `Add has a job enqueued to a stage at each time of a schedule:

  '*/5 * * * *'                minute hour day month weekday (0 to 6, 0 is Sunday)
  '30 */5 * * * *'             the same with seconds first
  @hourly @daily @weekly @monthly @yearly
  '@every 10m'                 an interval of whole seconds, from now
  '@at 2026-12-01T10:00:00Z'   once

An expression is in UTC, or in the time zone of --tz. A time that the clock leaves
out in spring has no job, and one that it repeats in autumn has two.

An entry of the same name is replaced, and the same entry once more changes
nothing. Jobs of an entry run side by side if they overlap, unless --key is given:
then --on-conflict says what becomes of them.

With --dry-run nothing is changed and no server is asked; the next five times are
printed.`,
		Example: `  weft cron add nightly report --schedule '30 2 * * *' --tz Europe/Berlin --input-ref db:all
  weft cron add poll fetch --schedule '@every 10m' --input-ref feed:7 --key feed/7 --on-conflict reject
  weft cron add nightly report --schedule '30 2 * * *' --tz Europe/Berlin --input-ref db:all --dry-run`,
		Args: nameAndStage,
	}
	flags := cmd.Flags()
	f.jobFlags.bind(flags)
	flags.StringVar(&f.schedule, "schedule", "", "`SCHEDULE`: a cron expression, @daily and the like, @every or @at")
	flags.StringVar(&f.zone, "tz", "", "time `ZONE` of an expression, such as Europe/Berlin (default UTC)")
	flags.BoolVar(&f.paused, "paused", false, "make no jobs until the entry is added again without this")
	flags.BoolVar(&f.dryRun, "dry-run", false, "change nothing, print the next five times")
	jsonFlag(cmd, &f.asJSON)
	for _, name := range []string{"schedule", "input-ref"} {
		_ = cmd.MarkFlagRequired(name) // it is bound above
	}
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error { return f.checkJob(cmd.Flags().Changed) }
	return p.command(cmd, connecting(cmd, "max_attempts"), func(ctx context.Context, s settings, args []string) error {
		return p.addCron(ctx, s, args[0], args[1], f)
	})
}

func nameAndStage(_ *cobra.Command, args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("give a name and a stage, not %d arguments; an expression needs quotes, as in --schedule '*/5 * * * *'", len(args))
	}
	return nil
}

func (p *program) addCron(ctx context.Context, s settings, name, stage string, f cronFlags) error {
	e := fabric.CronEntry{Name: name, Schedule: f.schedule, TimeZone: f.zone, Spec: f.spec, OnConflict: f.conflict, Paused: f.paused}
	e.Spec.Stage, e.Spec.MaxAttempts = stage, s.MaxAttempts
	if err := e.Check(); err != nil {
		return err
	}
	if err := checkRef(e.Spec.InputRef); err != nil {
		return err
	}
	schedule, err := fabric.ParseSchedule(f.schedule, f.zone)
	if err != nil {
		return err
	}
	if day := schedule.SkipsMidnight(time.Now()); !day.IsZero() {
		p.note("in %s the day of %s has no midnight; nats-server may leave out the first time after it", f.zone, day.Format(time.DateOnly))
	}
	if f.dryRun {
		return p.upcoming(schedule, f)
	}
	return p.with(ctx, s, "cron add", func(ctx context.Context, a *app.App) error {
		if err := a.Refusals().May(ctx, roles.Operate); err != nil {
			return err
		}
		return p.bounded(ctx, func(ctx context.Context) error {
			change, err := a.Fabric().AddCron(ctx, e)
			if err != nil {
				return err
			}
			return p.changedCron(name, change, f.asJSON)
		})
	})
}

// changedCron says what has become of an entry.
func (p *program) changedCron(name string, change fabric.CronChange, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(p.Out).Encode(struct {
			Name   string            `json:"name"`
			Change fabric.CronChange `json:"change"`
		}{name, change})
	}
	_, err := fmt.Fprintf(p.Out, "%s %s\n", name, change)
	return err
}

// upcoming prints the next times of a schedule, in its zone.
func (p *program) upcoming(schedule fabric.Schedule, f cronFlags) error {
	times := schedule.Upcoming(time.Now(), dryTimes)
	if len(times) == 0 {
		return &fabric.ScheduleError{Expression: f.schedule, Rule: "is in the past; give a time to come"}
	}
	for _, at := range times {
		var err error
		if f.asJSON {
			err = json.NewEncoder(p.Out).Encode(struct {
				At time.Time `json:"at"`
			}{at})
		} else {
			_, err = fmt.Fprintln(p.Out, at.Format(time.RFC3339))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/weft-fabric/weft/fabric"
	"github.com/weft-fabric/weft/internal/app"
	"github.com/weft-fabric/weft/job"
)

func (p *program) newCronLs() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List cron entries, when they fire, and what became of their last tick",
		Example: `  weft cron ls
  weft cron ls --json | jq -r 'select(.refused).name'`,
		Args: cobra.NoArgs,
	}
	jsonFlag(cmd, &asJSON)
	return p.command(cmd, connecting(cmd), func(ctx context.Context, s settings, _ []string) error {
		return p.with(ctx, s, "cron ls", func(ctx context.Context, a *app.App) error {
			return p.bounded(ctx, func(ctx context.Context) error { return p.crons(ctx, a.Fabric(), asJSON) })
		})
	})
}

// crons prints the entries. One that cannot be read is reported, and the list goes
// on.
func (p *program) crons(ctx context.Context, f *fabric.Fabric, asJSON bool) error {
	all, err := f.Crons(ctx)
	if err != nil {
		return err
	}
	t := newTable(p.Out, "NAME", "STAGE", "SCHEDULE", "ZONE", "NEXT", "LAST", "LAST JOB", "STATE")
	var unread error
	for _, s := range all {
		switch {
		case s.Err != nil:
			p.complain(fmt.Errorf("cron entry %s: %w", s.Name, s.Err))
			unread = &app.QuietError{Code: app.ExitFailed}
			continue
		case asJSON:
			err = json.NewEncoder(p.Out).Encode(cronJSON(s))
		default:
			err = t.row(s.Name, s.Spec.Stage, preview(s.Schedule), zoneText(s.TimeZone), moment(f.Now(), s.Next), moment(f.Now(), s.Last), orDash(s.LastJob), cronState(s))
		}
		if err != nil {
			return err
		}
	}
	if !asJSON {
		if err := t.flush(); err != nil {
			return err
		}
	}
	if runs, err := f.KeeperRuns(ctx); len(all) > 0 && err == nil && !runs {
		p.note("no keeper runs, so no tick becomes a job; weft work or weft serve runs one")
	}
	return unread
}

func zoneText(zone string) string {
	if zone == "" {
		return "UTC"
	}
	return zone
}

// moment is a time in its own zone, which a schedule's are in.
func moment(now, t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.Format(time.RFC3339) + " (" + ago(now, t) + ")"
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// cronState is what a person has to know of an entry beside its times.
func cronState(s fabric.CronStatus) string {
	switch {
	case s.Drift != "":
		return preview("drift: " + s.Drift)
	case s.Paused:
		return "paused"
	case s.Refused != "":
		return preview("refused: " + s.Refused)
	case s.Next.IsZero():
		return "over"
	}
	return "ok"
}

// cronLine is an entry's line of --json.
type cronLine struct {
	Name       string          `json:"name"`
	Schedule   string          `json:"schedule"`
	TimeZone   string          `json:"time_zone,omitempty"`
	OnConflict fabric.Conflict `json:"on_conflict,omitempty"`
	Paused     bool            `json:"paused"`
	Next       time.Time       `json:"next,omitzero"`
	Last       time.Time       `json:"last,omitzero"`
	LastJob    string          `json:"last_job,omitempty"`
	Refused    string          `json:"refused,omitempty"`
	RefusedAt  time.Time       `json:"refused_at,omitzero"`
	Drift      string          `json:"drift,omitempty"`
	Spec       job.Spec        `json:"spec"`
}

func cronJSON(s fabric.CronStatus) cronLine {
	return cronLine{
		s.Name, s.Schedule, s.TimeZone, s.OnConflict, s.Paused, s.Next, s.Last, s.LastJob, s.Refused, s.RefusedAt, s.Drift, s.Spec,
	}
}

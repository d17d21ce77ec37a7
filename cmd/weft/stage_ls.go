package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/weft-fabric/weft/fabric"
	"github.com/weft-fabric/weft/internal/app"
)

func (p *program) newStageLs() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List stages and how many jobs they have",
		Long: `Ls lists the stages. Waiting, running and delayed are what the work streams say
now: of a job that its own worker tries again, the item counts as waiting until it
has ended. Blocked jobs, which wait for others, and those that have ended are
counted by the keeper; if none runs, ls says of how long ago the counts are.`,
		Example: `  weft stage ls
  weft stage ls --json | jq -r 'select(.failed > 0).stage'`,
		Args: cobra.NoArgs,
	}
	jsonFlag(cmd, &asJSON)
	return p.command(cmd, connecting(cmd), func(ctx context.Context, s settings, _ []string) error {
		return p.with(ctx, s, "stage ls", func(ctx context.Context, a *app.App) error {
			return p.stages(ctx, a.Fabric(), s.Namespace, asJSON)
		})
	})
}

// stages prints the stages. One that cannot be read is reported, and the list goes
// on.
func (p *program) stages(ctx context.Context, f *fabric.Fabric, namespace string, asJSON bool) error {
	all, err := f.Stages(ctx)
	if err != nil {
		return err
	}
	t := newTable(p.Out, "STAGE", "WAITING", "RUNNING", "DELAYED", "BLOCKED", "SUCCEEDED", "FAILED", "CANCELLED", "PAUSED", "LEASE", "CONCURRENCY", "RATE", "LIMITS")
	var unread error
	var latest fabric.StageStatus
	for _, s := range all {
		if s.Stale && !s.Counted.Before(latest.Counted) {
			latest = s
		}
		switch {
		case s.Err != nil:
			p.complain(fmt.Errorf("stage %s: %w", s.Name, s.Err))
			unread = &app.QuietError{Code: app.ExitFailed}
			continue
		case asJSON:
			err = json.NewEncoder(p.Out).Encode(statusJSON(s))
		default:
			err = t.row(s.Name, fmt.Sprint(s.Waiting), fmt.Sprint(s.Running), fmt.Sprint(s.Delayed),
				countOf(s, s.Blocked), countOf(s, s.Succeeded), countOf(s, s.Failed), countOf(s, s.Cancelled),
				yesNo(s.Paused), s.Lease.String(), limit(s.Concurrency), rateText(s.Rate), limitsText(s.Stage, "-"))
		}
		if err != nil {
			return err
		}
	}
	if !asJSON {
		if err := t.flush(); err != nil {
			return err
		}
		if len(all) == 0 {
			p.note("there is no stage in namespace %s", namespace)
		}
	}
	if latest.Name != "" {
		p.notCounted(latest, f)
	}
	return unread
}

// stageStatus is a stage's line of --json.
type stageStatus struct {
	Stage   string `json:"stage"`
	Waiting int    `json:"waiting"`
	Running int    `json:"running"`
	Delayed int    `json:"delayed"`
	fabric.Counts
	CountedAt   time.Time      `json:"counted_at,omitzero"`
	CountsStale bool           `json:"counts_stale"`
	Paused      bool           `json:"paused"`
	PausedAt    time.Time      `json:"paused_at,omitzero"`
	PausedBy    string         `json:"paused_by,omitempty"`
	PauseReason string         `json:"pause_reason,omitempty"`
	Lease       string         `json:"lease"`
	Concurrency int            `json:"concurrency"`
	Lanes       []int          `json:"lanes,omitempty"`
	Rate        string         `json:"rate,omitempty"`
	Burst       int            `json:"burst,omitempty"`
	PerKey      int            `json:"per_key,omitempty"`
	PerLabel    map[string]int `json:"per_label,omitempty"`
}

func statusJSON(s fabric.StageStatus) stageStatus {
	shown := stageStatus{
		Stage: s.Name, Waiting: s.Waiting, Running: s.Running, Delayed: s.Delayed,
		Counts: s.Counts, CountedAt: s.Counted, CountsStale: s.Stale,
		Paused: s.Paused, PausedAt: s.Pause.Since, PausedBy: s.Pause.By, PauseReason: s.Pause.Reason,
		Lease: s.Lease.String(), Concurrency: s.Concurrency, Lanes: s.Stage.Lanes, PerKey: s.PerKey, PerLabel: s.PerLabel,
	}
	if s.Rate.Limited() {
		shown.Rate, shown.Burst = s.Rate.String(), s.Rate.Burst
	}
	return shown
}

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weft-fabric/weft/fabric"
	"github.com/weft-fabric/weft/internal/roles"
	"github.com/weft-fabric/weft/stream"
)

func (p *program) newStageInfo() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "info STAGE",
		Short: "Show all there is to know of a stage",
		Long: `Info shows a stage's settings, its counts, its stream and the consumer of each
lane, how long the first job waits, who works for it, and what is not as the
settings say, which weft doctor --repair sets right.`,
		Example: `  weft stage info hash
  weft stage info hash --json | jq .oldest_waiting`,
	}
	jsonFlag(cmd, &asJSON)
	return p.onStage(cmd, "stage info", roles.Look, func(ctx context.Context, f *fabric.Fabric, name string) error {
		r, err := f.StageReport(ctx, name)
		if err != nil {
			return err
		}
		if asJSON {
			return json.NewEncoder(p.Out).Encode(reportJSON(r))
		}
		return p.printStage(f, r)
	})
}

// stageReport is the object of --json.
type stageReport struct {
	stageStatus
	Stream        string            `json:"stream"`
	Consumers     []stageConsumer   `json:"consumers"`
	OldestWaiting time.Time         `json:"oldest_waiting,omitzero"`
	Workers       []fabric.Presence `json:"workers"`
	Drift         []string          `json:"drift"`
}

type stageConsumer struct {
	Priority    int       `json:"priority"`
	Consumer    string    `json:"consumer"`
	Waiting     int       `json:"waiting"`
	Running     int       `json:"running"`
	Pulls       int       `json:"pull_requests"`
	PausedUntil time.Time `json:"paused_until,omitzero"`
}

func reportJSON(r fabric.StageReport) stageReport {
	shown := stageReport{
		stageStatus: statusJSON(r.StageStatus), Stream: r.Stream, OldestWaiting: r.Oldest,
		Consumers: []stageConsumer{}, Workers: append([]fabric.Presence{}, r.Workers...), Drift: append([]string{}, r.Drift...),
	}
	for _, l := range r.Lanes {
		shown.Consumers = append(shown.Consumers, stageConsumer{l.Priority, l.Consumer, l.Waiting, l.Taken, l.Pulls, l.PausedUntil})
	}
	return shown
}

func (p *program) printStage(f *fabric.Fabric, r fabric.StageReport) error {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-13s%s\n", name, fmt.Sprintf(format, args...))
	}
	line("stage", "%s", r.Name)
	line("stream", "%s", r.Stream)
	line("lease", "%s", r.Lease)
	line("concurrency", "%s", limitText(r.Concurrency))
	line("rate", "%s", rateInfo(r.Rate))
	line("limits", "%s", limitsText(r.Stage, limitText(0)))
	line("paused", "%s", pauseText(f.Now(), r.Stage))
	line("waiting", "%d%s", r.Waiting, oldestText(f.Now(), r.Oldest))
	line("running", "%d", r.Running)
	line("delayed", "%d", r.Delayed)
	line("blocked", "%s", countOf(r.StageStatus, r.Blocked))
	line("succeeded", "%s", countOf(r.StageStatus, r.Succeeded))
	line("failed", "%s", countOf(r.StageStatus, r.Failed))
	line("cancelled", "%s", countOf(r.StageStatus, r.Cancelled))
	for _, l := range r.Lanes {
		line("consumer", "%s", laneText(l))
	}
	for _, w := range r.Workers {
		line("worker", "%s on %s, process %d, %s running", w.ID, w.Host, w.PID, busy(w))
	}
	if len(r.Workers) == 0 {
		line("worker", "none")
	}
	for _, drift := range r.Drift {
		line("drift", "%s; weft doctor --repair sets it right", drift)
	}
	if _, err := p.Out.Write([]byte(b.String())); err != nil {
		return err
	}
	if r.Stale {
		p.notCounted(r.StageStatus, f)
	}
	return nil
}

func limitText(concurrency int) string {
	if concurrency == 0 {
		return "no limit"
	}
	return limit(concurrency)
}

// rateText is a stage's rate for people.
func rateText(r fabric.Rate) string {
	if !r.Limited() {
		return "-"
	}
	return r.String()
}

func rateInfo(r fabric.Rate) string {
	if !r.Limited() {
		return limitText(0)
	}
	return fmt.Sprintf("%s, %d at once", r, r.Burst)
}

// limitsText are a stage's limits of single values.
func limitsText(s fabric.Stage, none string) string {
	var limits []string
	if s.PerKey > 0 {
		limits = append(limits, fmt.Sprintf("%d a key", s.PerKey))
	}
	for _, name := range slices.Sorted(maps.Keys(s.PerLabel)) {
		limits = append(limits, fmt.Sprintf("%d a %s", s.PerLabel[name], preview(name)))
	}
	if len(limits) == 0 {
		return none
	}
	return strings.Join(limits, ", ")
}

func pauseText(now time.Time, s fabric.Stage) string {
	if !s.Paused {
		return "no"
	}
	text := "yes"
	if !s.Pause.Since.IsZero() {
		text += ", since " + dated(now, s.Pause.Since)
	}
	if s.Pause.By != "" {
		text += " by " + preview(s.Pause.By)
	}
	if s.Pause.Reason != "" {
		text += ": " + preview(s.Pause.Reason)
	}
	return text
}

func oldestText(now, oldest time.Time) string {
	if oldest.IsZero() {
		return ""
	}
	return ", the first for " + short(max(0, now.Sub(oldest)))
}

func laneText(l stream.Lane) string {
	text := fmt.Sprintf("%s (priority %d): %d waiting, %d running, %d pull requests", l.Consumer, l.Priority, l.Waiting, l.Taken, l.Pulls)
	if l.Paused {
		text += ", paused"
	}
	return text
}

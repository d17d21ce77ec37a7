package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weft-fabric/weft/fabric"
	"github.com/weft-fabric/weft/internal/roles"
	"github.com/weft-fabric/weft/job"
)

func (p *program) newJobGet() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "get ID...",
		Short: "Show jobs",
		Long: `Get shows what the records of jobs say. With --json it prints the records
themselves, one a line.`,
		Example: `  weft job get jb_01J9ZK
  weft job get --json jb_01J9ZK | jq .state`,
		Args: someIDs,
	}
	jsonFlag(cmd, &asJSON)
	return p.command(cmd, connecting(cmd), func(ctx context.Context, s settings, ids []string) error {
		first := true
		return p.eachJob(ctx, s, "job get", ids, roles.Look, func(ctx context.Context, f *fabric.Fabric, id string) error {
			raw, err := f.Raw(ctx, id)
			if err != nil {
				return named(id, err)
			}
			if asJSON {
				return printRaw(p.Out, raw)
			}
			if !first {
				_, _ = fmt.Fprintln(p.Out)
			}
			first = false
			return describe(p.Out, f.Now(), raw)
		})
	})
}

// named makes sure that an error says which job it is about.
func named(id string, err error) error {
	if strings.Contains(err.Error(), id) {
		return err
	}
	return fmt.Errorf("job %s: %w", id, err)
}

// printRaw prints a stored record as one line: as it is, unless somebody has
// stored it with line breaks.
func printRaw(out io.Writer, raw []byte) error {
	if bytes.ContainsAny(raw, "\n\r") {
		var line bytes.Buffer
		if err := json.Compact(&line, raw); err == nil {
			raw = line.Bytes()
		}
	}
	_, err := fmt.Fprintf(out, "%s\n", raw)
	return err
}

// describe prints a record for a person.
func describe(out io.Writer, now time.Time, raw []byte) error {
	var j job.Job
	if err := json.Unmarshal(raw, &j); err != nil {
		return fmt.Errorf("the record cannot be read, --json prints it as it is: %w", err)
	}
	var text strings.Builder
	for _, f := range fields(now, j) {
		if f[1] != "" {
			fmt.Fprintf(&text, "%-22s %s\n", f[0], printable(f[1]))
		}
	}
	for _, a := range j.AttemptsLog {
		fmt.Fprintf(&text, "%-22s %s\n", "attempt", strings.Map(printableRune, attemptLine(a)))
	}
	_, err := io.WriteString(out, text.String())
	return err
}

// fields are the members of a record in the order a person asks for them; empty
// ones are left out.
func fields(now time.Time, j job.Job) [][2]string {
	return [][2]string{
		{"id", j.ID},
		{"stage", j.Stage},
		{"state", string(j.State)},
		{"reason", j.Reason},
		{"output_ref", j.OutputRef},
		{"attempt", fmt.Sprintf("%d of %d", j.Attempt, j.MaxAttempts)},
		{"fence", fmt.Sprint(j.Fence)},
		{"input_ref", j.InputRef},
		{"input_revision", fmt.Sprint(j.InputRevision)},
		{"payload", string(j.Payload)},
		{"key", j.Key},
		{"dependencies", strings.Join(j.Dependencies, " ")},
		{"waiting_on", strings.Join(j.WaitingOn, " ")},
		{"on_dependency_failure", string(j.OnDependencyFailure)},
		{"priority", number(int64(j.Priority))},
		{"timeout", durationText(j)},
		{"labels", labelText(j.Labels)},
		{"worker_id", j.WorkerID},
		{"lease_expires_at", dated(now, j.LeaseExpiresAt)},
		{"progress", string(j.Progress)},
		{"available_at", dated(now, j.AvailableAt)},
		{"created_at", dated(now, j.CreatedAt)},
		{"updated_at", dated(now, j.UpdatedAt)},
		{"finished_at", dated(now, j.FinishedAt)},
		{"other members", strings.Join(j.UnknownMembers(), " ")},
	}
}

func number(n int64) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}

func durationText(j job.Job) string {
	if j.Timeout == 0 {
		return ""
	}
	return j.Timeout.String()
}

func labelText(labels map[string]string) string {
	var pairs []string
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		pairs = append(pairs, name+"="+labels[name])
	}
	return strings.Join(pairs, " ")
}

// printable keeps the later lines of a text in its column, and takes out what
// could move a cursor or pass for a line of its own.
func printable(text string) string {
	lines := strings.Split(strings.TrimSpace(strings.ToValidUTF8(text, "\uFFFD")), "\n")
	for i, line := range lines {
		lines[i] = strings.Map(printableRune, line)
	}
	return strings.Join(lines, "\n"+strings.Repeat(" ", 23))
}

func attemptLine(a job.Attempt) string {
	line := fmt.Sprintf("%d, fence %d, %s, from %s", a.Number, a.Fence, a.Worker, stamp(a.Started))
	if !a.Ended.IsZero() {
		line += fmt.Sprintf(" for %s: %s", short(a.Ended.Sub(a.Started)), a.Outcome)
	}
	if a.Reason != "" {
		line += ", " + preview(a.Reason)
	}
	return line
}

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weft-fabric/weft/fabric"
	"github.com/weft-fabric/weft/internal/roles"
)

func (p *program) newJobExplain() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "explain ID...",
		Short: "Say why jobs do not run, and what would move them",
		Long: `Explain looks at a job, its key, its stage, its place in the queue, the workers
and the keeper, and says what stands in its way and what would move it. It changes
nothing.

The first line is the verdict. Below it is each finding, what stands in the way
first coming first, and then what would move the job. With --json it prints an
object a job; the codes of the findings are for programs and stay as they are.`,
		Example: `  weft job explain jb_01J9ZK
  weft job explain --json jb_01J9ZK | jq -r '.findings[].code'`,
		Args: someIDs,
	}
	jsonFlag(cmd, &asJSON)
	return p.command(cmd, connecting(cmd), func(ctx context.Context, s settings, ids []string) error {
		first := true
		return p.eachJob(ctx, s, "job explain", ids, roles.Look, func(ctx context.Context, f *fabric.Fabric, id string) error {
			e, err := f.Explain(ctx, id)
			if err != nil {
				return named(id, err)
			}
			if asJSON {
				return json.NewEncoder(p.Out).Encode(e)
			}
			if !first {
				_, _ = fmt.Fprintln(p.Out)
			}
			first = false
			return printExplanation(p.Out, e)
		})
	})
}

// printExplanation prints an explanation for a person.
func printExplanation(out io.Writer, e fabric.Explanation) error {
	var b strings.Builder
	line := func(text string) {
		b.WriteString(strings.Map(printableRune, strings.ToValidUTF8(text, "\uFFFD")) + "\n")
	}
	line(e.Verdict)
	line("")
	line("findings")
	var moves []fabric.Move
	for _, c := range e.Findings {
		line(fmt.Sprintf("  %-18s %s", c.Code, c.Text))
		for _, m := range c.Moves {
			if !slices.Contains(moves, m) {
				moves = append(moves, m)
			}
		}
	}
	if len(moves) > 0 {
		line("")
		line("what would move it")
	}
	for _, m := range moves {
		text := "  " + m.Text
		if m.Command != "" {
			text += ": " + m.Command
		}
		line(text)
	}
	_, err := io.WriteString(out, b.String())
	return err
}

package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/weft-fabric/weft/fabric"
	"github.com/weft-fabric/weft/internal/app"
	"github.com/weft-fabric/weft/internal/roles"
)

func (p *program) newDoctor() *cobra.Command {
	var repair, asJSON bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Find what is not as it should be, and repair it",
		Long: `Doctor compares the settings of the bucket, of every stage's stream and of its
consumers with what this version needs, and then the records with the items: a
job that waits without an item, a lease that ended and was not noticed, a record
that cannot be read. Each finding comes with its repair; --repair does those that
a program can do.

It exits 0 if all is well or was repaired, and 1 if something is left.`,
		Example: `  weft doctor
  weft doctor --repair`,
		Args: cobra.NoArgs,
	}
	cmd.Flags().BoolVar(&repair, "repair", false, "do what the findings propose")
	jsonFlag(cmd, &asJSON)
	return p.command(cmd, connecting(cmd), func(ctx context.Context, s settings, _ []string) error {
		return p.doctor(ctx, s, repair, asJSON)
	})
}

func (p *program) doctor(ctx context.Context, s settings, repair, asJSON bool) error {
	nc, err := app.Connect(s.Connection, s.Namespace, "weft doctor", s.log)
	if err != nil {
		return err
	}
	defer nc.Close()
	refusals := app.HearRefusals(nc, s.Config, s.log)
	ctx, end := refusals.Bound(ctx)
	defer end()
	if repair {
		if err := refusals.May(ctx, roles.Operate); err != nil {
			return err
		}
	}
	found, left := 0, 0
	var printErr error
	err = fabric.Doctor(ctx, nc, app.FabricOptions(s.Config, s.log), repair, func(f fabric.Finding) {
		found++
		if !f.Repaired {
			left++
		}
		if err := p.finding(f, asJSON); err != nil {
			printErr = err
		}
	})
	switch {
	case err != nil:
		return app.Refused(ctx, err)
	case printErr != nil:
		return printErr
	case found == 0:
		p.note("all is as it should be")
	case left == 0:
		p.note("findings: %d, all repaired", found)
	case repair:
		p.note("findings: %d, of which %d are left for a person", found, left)
	default:
		p.note("findings: %d; weft doctor --repair does what a program can", found)
	}
	if left > 0 {
		return &app.QuietError{Code: app.ExitFailed}
	}
	return nil
}

// finding prints one finding.
func (p *program) finding(f fabric.Finding, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(p.Out).Encode(f)
	}
	word := "repair"
	if f.Repaired {
		word = "repaired"
	}
	_, err := fmt.Fprintf(p.Out, "%s: %s; %s: %s\n", f.Subject, f.Problem, word, f.Repair)
	return err
}

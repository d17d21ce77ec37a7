package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/weft-fabric/weft/fabric"
	"github.com/weft-fabric/weft/internal/roles"
)

// stageFlags are the flags of stage set as they were given.
type stageFlags struct {
	lease       time.Duration
	concurrency int
	rate        string
	burst       int
	perKey      int
	perLabel    map[string]int
}

func (p *program) newStageSet() *cobra.Command {
	var given stageFlags
	var change fabric.StageChange
	cmd := &cobra.Command{
		Use:   "set STAGE",
		Short: "Change a stage's lease or limits",
		Long: `Set changes what all workers of the stage share. Workers that run take it over
within some seconds, each for the jobs it claims from then on.`,
		Example: `  weft stage set hash --lease 2m
  weft stage set hash --concurrency 0
  weft stage set mail --rate 100/s --burst 20
  weft stage set build --per-label tenant=3`,
	}
	flags := cmd.Flags()
	flags.DurationVar(&given.lease, "lease", 0, "how long a claim lasts without renewal")
	flags.IntVar(&given.concurrency, "concurrency", 0, "jobs that may run at once, on all workers; 0 is no limit")
	flags.StringVar(&given.rate, "rate", "", "jobs that may begin, on all workers, as 100/s, 30/m or 5/h; 0 is no limit")
	flags.IntVar(&given.burst, "burst", 0, "with --rate: jobs that may begin at once after a quiet time; a tenth of a second's worth if not given")
	flags.IntVar(&given.perKey, "per-key", 0, "jobs of one key that may run at once; 0 is no limit")
	flags.StringToIntVar(&given.perLabel, "per-label", nil, "jobs that may run at once of one value of a label, as tenant=3; 0 is no limit")
	cmd.PreRunE = func(*cobra.Command, []string) (err error) {
		change, err = given.change(flags)
		return err
	}
	return p.onStage(cmd, "stage set", roles.Operate, func(ctx context.Context, f *fabric.Fabric, name string) error {
		_, err := f.SetStage(ctx, name, change)
		return err
	})
}

// change is what the flags ask for.
func (g *stageFlags) change(flags *pflag.FlagSet) (c fabric.StageChange, err error) {
	if !anyChanged(flags, "lease", "concurrency", "rate", "burst", "per-key", "per-label") {
		return c, errors.New("give --lease, --concurrency, --rate, --per-label or --per-key")
	}
	if flags.Changed("lease") {
		c.Lease = &g.lease
	}
	if flags.Changed("concurrency") {
		c.Concurrency = &g.concurrency
	}
	if flags.Changed("per-key") {
		c.PerKey = &g.perKey
	}
	c.PerLabel = g.perLabel
	if flags.Changed("burst") && !flags.Changed("rate") {
		return c, errors.New("--burst is of a rate; give --rate too")
	}
	if flags.Changed("rate") {
		rate, err := fabric.ParseRate(g.rate)
		if err != nil {
			return c, fmt.Errorf("--rate: %w", err)
		}
		if flags.Changed("burst") {
			rate.Burst = g.burst
		}
		c.Rate = &rate
	}
	return c, nil
}

func anyChanged(flags *pflag.FlagSet, names ...string) bool {
	for _, name := range names {
		if flags.Changed(name) {
			return true
		}
	}
	return false
}

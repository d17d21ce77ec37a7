// Command soak runs the history test for as long as asked: rounds of clients and
// chaos on real servers, each judged when it has ended. It exits with 1 and the
// first illegal history, in readable form, when there is one.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/signal"
	"time"

	"github.com/weft-fabric/weft/internal/fault"
	"github.com/weft-fabric/weft/internal/history"
)

func main() {
	history.ServeIfChild()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		stop()
		os.Exit(1)
	}
}

// The length of one round's chaos, and the bound of what follows it.
const (
	roundChaos = 15 * time.Second
	roundDrain = 45 * time.Second
)

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("soak", flag.ContinueOnError)
	length := flags.Duration("for", 10*time.Minute, "how long; the round that runs then is finished")
	servers := flags.Int("servers", 1, "1 or 3")
	seed := flags.Uint64("seed", rand.Uint64(), "of all choices")
	planted := flags.String("fault", "", "plant ack-before-write, no-revision-check or in-progress-without-write")
	verbose := flags.Bool("v", false, "the fabrics' logs on standard error")
	only := flags.Bool("workers-only", false, "only rounds in which nothing but workers fails, and no keeper helps before the end")
	if err := flags.Parse(args); err != nil {
		return err
	}
	plan, err := parseFault(*planted)
	if err != nil {
		return err
	}
	base := history.Config{Seed: *seed, Chaos: roundChaos, KeeperDeaths: true, WorkersOnly: *only, Faults: plan}
	if *verbose {
		base.Logger = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	fmt.Printf("soak: seed %d, %d servers, for %s, fault %q\n", *seed, *servers, *length, *planted)
	arena, err := history.Open(*servers)
	if err != nil {
		return err
	}
	total, err := rounds(ctx, arena, *length, base)
	fmt.Println("figures:", total)
	if err = errors.Join(err, arena.Close()); err != nil {
		return fmt.Errorf("seed %d: %w", *seed, err)
	}
	fmt.Println("legal")
	return nil
}

// rounds runs one round after the other. In every third only workers fail, and no
// keeper helps them.
func rounds(ctx context.Context, arena *history.Arena, length time.Duration, base history.Config) (history.Report, error) {
	total, began := history.Report{}, time.Now()
	for n := uint64(1); time.Since(began) < length && ctx.Err() == nil; n++ {
		cfg := base
		cfg.Seed, cfg.Drain = base.Seed+n, roundDrain
		cfg.WorkersOnly = base.WorkersOnly || n%3 == 2
		report, err := arena.Round(ctx, cfg)
		total.Add(report)
		total.Add(history.Report{"rounds": 1})
		fmt.Printf("%6s round %d, workers only %t: %v\n", time.Since(began).Round(time.Second), n, cfg.WorkersOnly, report)
		if err != nil {
			return total, err
		}
	}
	return total, nil
}

func parseFault(name string) (*fault.Plan, error) {
	switch name {
	case "":
		return nil, nil
	case "ack-before-write":
		return &fault.Plan{AckBeforeWrite: true}, nil
	case "no-revision-check":
		return &fault.Plan{NoRevisionCheck: true}, nil
	case "in-progress-without-write":
		return &fault.Plan{InProgressWithoutWrite: true}, nil
	}
	return nil, fmt.Errorf("fault %q is not ack-before-write, no-revision-check or in-progress-without-write", name)
}

package history_test

import (
	"context"
	"errors"
	"flag"
	"log/slog"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weft-fabric/weft/internal/fault"
	"github.com/weft-fabric/weft/internal/history"
)

// seed is of all choices of a run; a history that was found illegal is looked for
// again with the seed that its test printed.
var seed = flag.Uint64("seed", 0, "seed of the histories; 0 draws one")

// round runs one round on servers of its own.
func round(t *testing.T, servers int, cfg history.Config) (history.Report, error) {
	t.Helper()
	if cfg.Seed = *seed; cfg.Seed == 0 {
		cfg.Seed = rand.Uint64()
	}
	t.Logf("-seed %d", cfg.Seed)
	cfg.Logger = slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelInfo}))
	arena, err := history.Open(servers)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := arena.Close(); err != nil {
			t.Error(err)
		}
	}()
	// A deadline far away must not make anybody wait for a lost answer until then.
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	report, err := arena.Round(ctx, cfg)
	t.Logf("%v", report)
	return report, err
}

// legal runs a round, which must be legal and not without event.
func legal(t *testing.T, servers int, cfg history.Config) {
	t.Helper()
	report, err := round(t, servers, cfg)
	if err != nil {
		t.Fatal(err)
	}
	wanted := []string{"jobs succeeded"}
	if !cfg.WorkersOnly { // there they soon die by themselves
		wanted = append(wanted, "worker freezes", "worker SIGKILLs")
	}
	if servers == 1 { // a cluster may spend most of a round without leaders
		wanted = append(wanted, "jobs failed", "jobs cancelled", "stale settlements refused")
	}
	for _, what := range wanted {
		if report[what] == 0 {
			t.Errorf("no %s: the round tried too little", what)
		}
	}
}

func TestOneServerKeepsThePromises(t *testing.T) {
	t.Parallel()
	legal(t, 1, history.Config{Chaos: 8 * time.Second, Drain: 40 * time.Second})
}

func TestThreeServersKeepThePromises(t *testing.T) {
	t.Parallel()
	legal(t, 3, history.Config{Chaos: 10 * time.Second, Drain: 45 * time.Second})
}

func TestWorkersThatDieLoseNothing(t *testing.T) {
	t.Parallel()
	legal(t, 1, history.Config{Chaos: 4 * time.Second, Drain: 20 * time.Second, WorkersOnly: true})
}

// Each planted fault must be noticed, whatever the seed, in one short round.
func TestTheJudgeNoticesPlantedFaults(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		plan        fault.Plan
		workersOnly bool
		drain       time.Duration
	}{
		"ack before write":          {fault.Plan{AckBeforeWrite: true}, true, 20 * time.Second},
		"no revision check":         {fault.Plan{NoRevisionCheck: true}, false, 20 * time.Second},
		"in progress without write": {fault.Plan{InProgressWithoutWrite: true}, false, 20 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := round(t, 1, history.Config{
				Chaos: 5 * time.Second, Drain: c.drain, WorkersOnly: c.workersOnly, Faults: &c.plan,
			})
			illegal, ok := errors.AsType[*history.Illegal](err)
			if !ok {
				t.Fatalf("the fault went unnoticed: %v", err)
			}
			t.Logf("noticed by the rule of %s, in a history of %d lines: %s", illegal.Rule, len(illegal.Lines), illegal.Why)
		})
	}
}

package app

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"time"

	"github.com/weft-fabric/weft/fabric"
	"github.com/weft-fabric/weft/worker"
)

// presence makes a worker known while it works, so that weft worker ls shows it.
type presence struct {
	runner  *fabric.Runner
	worker  *worker.Worker
	log     *slog.Logger
	host    string
	started time.Time
	stage   string
	slots   int
}

// announceWait bounds one announcement; the next comes soon enough.
const announceWait = 5 * time.Second

// run announces until ctx ends and then takes the worker off the list.
func (p *presence) run(ctx context.Context) {
	p.host, _ = os.Hostname()
	p.started = time.Now().UTC()
	tick := time.NewTicker(fabric.AnnounceEvery)
	defer tick.Stop()
	for {
		p.announce(ctx)
		select {
		case <-ctx.Done():
			p.withdraw()
			return
		case <-tick.C:
		}
	}
}

func (p *presence) announce(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, announceWait)
	defer cancel()
	err := p.runner.Announce(ctx, fabric.Presence{
		Host: p.host, PID: os.Getpid(), Stages: []string{p.stage}, Slots: p.slots, Started: p.started,
		Running: running(p.worker),
	})
	if _, twin := errors.AsType[*fabric.TwinError](err); twin {
		p.log.Warn("two workers have one id", "error", err)
	} else if err != nil && !errors.Is(ctx.Err(), context.Canceled) {
		p.log.Debug("worker not announced", "error", err)
	}
}

func running(w *worker.Worker) []fabric.RunningJob {
	var jobs []fabric.RunningJob
	for _, r := range w.Running() {
		jobs = append(jobs, fabric.RunningJob{
			ID: r.JobID, Stage: r.Stage, Attempt: r.Attempt, Fence: r.Fence, Since: r.Since.UTC(), Stray: r.Stray,
		})
	}
	return jobs
}

func (p *presence) withdraw() {
	ctx, cancel := context.WithTimeout(context.Background(), announceWait)
	defer cancel()
	if err := p.runner.Withdraw(ctx); err != nil {
		p.log.Debug("worker still announced", "error", err)
	}
}

package app

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/weft-fabric/weft/worker"
)

// stopMargin is what a handler gets beyond its own grace to clean up after a
// command that had to be killed.
const stopMargin = 5 * time.Second

// Work is one worker and what it does.
type Work struct {
	Stage   string
	Handler worker.Handler
	// WorkerID names the worker in records; empty takes a fresh name.
	WorkerID string
	// Grace is how long the handler may take to return once its context ended.
	Grace time.Duration
	// Abort, when it closes, cancels what runs at once, in the middle of a drain
	// or before. It may be nil.
	Abort <-chan struct{}
}

// StageLease is the lease of a stage, which is made if it is absent. Whoever made
// the stage chose the lease; the setting here is only for a new one.
func (a *App) StageLease(ctx context.Context, stage string) (time.Duration, error) {
	s, err := a.fabric.Stage(ctx, stage)
	return s.Lease, err
}

// Work takes and runs jobs until ctx ends, and then drains.
func (a *App) Work(ctx context.Context, w Work) (err error) {
	runner, err := a.fabric.Runner(w.WorkerID)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, runner.Close()) }()
	o := worker.DefaultOptions()
	o.ID = runner.ID()
	o.Concurrency = a.options.Config.Concurrency
	o.Drain = a.options.Config.Drain
	o.StopGrace = w.Grace + stopMargin
	o.Logger = a.options.Logger
	wk, err := worker.New(runner, o)
	if err != nil {
		return err
	}
	if err := wk.Handle(w.Stage, w.Handler); err != nil {
		return err
	}
	ended := make(chan struct{})
	var aborter sync.WaitGroup
	defer aborter.Wait()
	defer close(ended)
	aborter.Go(func() {
		select {
		case <-w.Abort:
			wk.Abort()
		case <-ended:
		}
	})
	return wk.Run(ctx)
}

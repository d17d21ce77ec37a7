package app

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/weft-fabric/weft/kv"
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
	if a.metrics != nil {
		o.Hooks = a.metrics.Worker(w.Stage, o.Concurrency)
	}
	if a.tracer != nil {
		o.Tracer = a.tracer
	}
	ctx, endBound := a.refusals.BoundBy(ctx, a.needed)
	defer endBound()
	wk, err := worker.New(runner, o)
	if err != nil {
		return err
	}
	if err := wk.Handle(w.Stage, w.Handler); err != nil {
		return err
	}
	// What runs beside the worker ends after it: it is still known, and can still
	// be aborted, while it drains.
	beside, end := context.WithCancel(context.WithoutCancel(ctx))
	var parts sync.WaitGroup
	defer parts.Wait()
	defer end()
	parts.Go(func() { abortOn(beside, w.Abort, wk) })
	p := &presence{runner: runner, worker: wk, log: a.options.Logger, stage: w.Stage, slots: o.Concurrency}
	parts.Go(func() { p.run(beside) })
	return Refused(ctx, orRefusal(ctx, wk.Run(ctx)))
}

// orRefusal is the refusal that has ended the work, also if the drain went well.
func orRefusal(ctx context.Context, err error) error {
	if refused, ok := errors.AsType[*RefusedError](context.Cause(ctx)); ok && err == nil {
		return refused
	}
	return err
}

// needed reports whether a worker cannot do its part without a permission: to be
// answered and signalled, to take items, to write records, and to keep if it is to.
func (a *App) needed(e *RefusedError) bool {
	bucket := "$KV." + a.options.Config.Namespace + "."
	return e.Subscribe || strings.Contains(e.Subject, ".CONSUMER.MSG.NEXT.") ||
		strings.HasPrefix(e.Subject, bucket+"job.") || e.Subject == bucket+kv.LeaderKey
}

func abortOn(ctx context.Context, signal <-chan struct{}, wk *worker.Worker) {
	select {
	case <-signal:
		wk.Abort()
	case <-ctx.Done():
	}
}

package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weft-fabric/weft/job"
)

// Worker runs the jobs of the stages that it has handlers for. It is used once:
// New, Handle for each stage, Run.
type Worker struct {
	fabric  Fabric
	options Options
	log     *slog.Logger // with Options.ID
	taskLog *slog.Logger // without: a task's own lines carry the id of its record
	hooks   Hooks
	inputs  *inputs // of every task

	stopping  chan struct{} // closed by the first Stop
	aborting  chan struct{} // closed by the first Abort
	stopOnce  sync.Once
	abortOnce sync.Once

	taking context.Context // ends when no more jobs are taken; set by Run
	base   context.Context // has the values of Run's, for handlers and calls; set by Run

	// running counts dispatchers and attempts. Only Run, before it waits, and
	// dispatchers, which are counted themselves, add to it.
	running sync.WaitGroup

	unrecorded atomic.Int64 // outcomes that could not be settled

	mu      sync.Mutex
	started bool                  // guarded by mu: set by Run
	stages  []*stage              // guarded by mu until started, read only after
	held    map[*attempt]struct{} // guarded by mu: attempts whose handlers run, strays too
	cut     bool                  // guarded by mu: the time for running jobs is over
}

// New makes a worker that takes its jobs from f. It fails if the options do not
// pass Validate.
func New(f Fabric, o Options) (*Worker, error) {
	if f == nil {
		return nil, errors.New("worker needs a fabric, got nil")
	}
	if err := o.Validate(); err != nil {
		return nil, err
	}
	log := o.logger()
	if o.ID != "" {
		log = log.With("worker", o.ID)
	}
	return &Worker{
		fabric: f, options: o, log: log, taskLog: o.logger(), hooks: o.Hooks,
		inputs:   o.inputs(),
		stopping: make(chan struct{}),
		aborting: make(chan struct{}),
		held:     make(map[*attempt]struct{}),
	}, nil
}

// Handle makes h the handler of a stage. It fails after Run with ErrStarted, and
// for a stage that has a handler already, a name that cannot be a stage's
// (job.ErrInvalidJob), a nil handler, or a concurrency out of range.
func (w *Worker) Handle(stageName string, h Handler, opts ...HandleOption) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := &stage{worker: w, name: stageName, handler: h, concurrency: w.options.Concurrency}
	for _, set := range opts {
		set(s)
	}
	if err := w.check(s); err != nil {
		return fmt.Errorf("handle stage %.80q: %w", stageName, err)
	}
	s.open()
	w.stages = append(w.stages, s)
	return nil
}

func (w *Worker) check(s *stage) error {
	if w.started {
		return ErrStarted
	}
	if err := job.CheckStage(s.name); err != nil {
		return err
	}
	if f, ok := s.handler.(HandlerFunc); s.handler == nil || ok && f == nil {
		return errors.New("handler is nil")
	}
	for _, other := range w.stages {
		if other.name == s.name {
			return errors.New("it has a handler already")
		}
	}
	return checkConcurrency(s.concurrency)
}

// Run takes and works on jobs until ctx ends or Stop is called; then it drains
// and returns. The values of ctx pass to the handlers, its end does not: running
// jobs have Options.Drain to end before their contexts are cancelled.
//
// It returns nil after a drain that left nothing running, ErrStrayHandlers if
// handlers ignored their cancelled contexts, ErrUnrecorded if outcomes of the
// drain could not be settled, ErrStarted if the worker ran
// before, and the fabric's error, after a drain, if a claim failed with
// job.ErrInvalidJob. A server that is down ends nothing: it is asked again.
func (w *Worker) Run(ctx context.Context) error {
	if err := w.begin(); err != nil {
		return fmt.Errorf("run worker: %w", err)
	}
	taking, stopTaking := context.WithCancel(ctx)
	defer stopTaking()
	w.taking, w.base = taking, context.WithoutCancel(ctx)

	fatal := make(chan error, len(w.stages)) // room for one error of each dispatcher
	for _, s := range w.stages {
		w.running.Go(func() {
			if err := s.dispatch(); err != nil {
				fatal <- err
			}
		})
	}
	w.log.Info("worker started", "stages", len(w.stages))
	err := w.awaitStop(ctx, fatal)
	stopTaking()
	before := w.unrecorded.Load()
	w.drain()
	return errors.Join(err, w.strays(), w.lost(w.unrecorded.Load()-before))
}

func (w *Worker) begin() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.started {
		return ErrStarted
	}
	if len(w.stages) == 0 {
		return errors.New("no stage has a handler; call Handle first")
	}
	w.started = true
	return nil
}

// lost is ErrUnrecorded if the drain could not settle n outcomes.
func (w *Worker) lost(n int64) error {
	if n == 0 {
		return nil
	}
	return fmt.Errorf("run worker: %w: %d", ErrUnrecorded, n)
}

// awaitStop waits for whatever ends the taking of jobs first.
func (w *Worker) awaitStop(ctx context.Context, fatal <-chan error) error {
	select {
	case <-ctx.Done():
	case <-w.stopping:
	case err := <-fatal:
		return fmt.Errorf("run worker: %w", err)
	}
	return nil
}

// drain waits until all jobs are settled and all dispatchers have ended. When
// the time for it is over, or at an abort, it cancels the handlers; each is given
// up on its own after StopGrace.
func (w *Worker) drain() {
	idle := make(chan struct{})
	go func() {
		w.running.Wait()
		close(idle)
	}()
	w.log.Info("worker is draining", "running", len(w.Running()), "budget", w.options.Drain)
	select {
	case <-idle:
	case <-w.aborting:
		w.log.Warn("drain was cut short, cancelling running jobs", "running", len(w.Running()))
	case <-time.After(w.options.Drain):
		w.log.Warn("drain has used up its time, cancelling running jobs", "running", len(w.Running()))
	}
	w.cutShort()
	<-idle
	w.log.Info("worker stopped")
}

// Stop begins the drain, as the end of Run's context does. It does not wait, may
// be called from a handler, whose job is then settled as usual, and more than
// once. A worker that was stopped before Run takes no job.
func (w *Worker) Stop() { w.stopOnce.Do(func() { close(w.stopping) }) }

// Abort stops and cuts the drain short: running handlers are cancelled at once
// with ErrDraining. It is for a second signal, may be called at any time, and
// more than once.
func (w *Worker) Abort() {
	w.Stop()
	w.abortOnce.Do(func() { close(w.aborting) })
}

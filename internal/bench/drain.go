package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/weft-fabric/weft/fabric"
	"github.com/weft-fabric/weft/job"
	"github.com/weft-fabric/weft/worker"
)

// throughput enqueues in bulk and drains with one process, once for each number
// of slots.
func (r *run) throughput(ctx context.Context) error {
	for i, slots := range r.o.Slots {
		stage := fmt.Sprintf("s%d", slots)
		began := time.Now()
		if err := r.enqueue(ctx, stage, r.jobs(slots)); err != nil {
			return err
		}
		if i == len(r.o.Slots)-1 {
			r.rate("bulk enqueue", r.jobs(slots), time.Since(began), r.inBound())
		}
		took, err := r.drain(ctx, stage, slots, r.jobs(slots))
		if err != nil {
			return err
		}
		r.rate(fmt.Sprintf("drain, 1 process of %d slots", slots), r.jobs(slots), took, r.throughBound())
	}
	return nil
}

// jobs is how many jobs a drain gets: few slots would take long over many.
func (r *run) jobs(slots int) int {
	if slots < 8 {
		return max(100, r.o.Jobs/10)
	}
	return r.o.Jobs
}

func (r *run) spec(stage string, i int) job.Spec {
	payload := append(append([]byte{'"'}, bytes.Repeat([]byte("x"), r.o.Payload-2)...), '"')
	return job.Spec{ID: fmt.Sprintf("%s-%d", stage, i), Stage: stage, InputRef: "bench:", Payload: payload}
}

func (r *run) enqueue(ctx context.Context, stage string, n int) error {
	return r.enqueueFrom(ctx, stage, 0, n)
}

// enqueueFrom enqueues n jobs whose numbers begin with first.
func (r *run) enqueueFrom(ctx context.Context, stage string, first, n int) error {
	specs := func(yield func(job.Spec) bool) {
		for i := range n {
			if !yield(r.spec(stage, first+i)) {
				return
			}
		}
	}
	return r.f.EnqueueMany(ctx, specs, func(e fabric.Enqueued) error { return e.Err })
}

// drain runs all jobs of a stage and tells how long it took from the start of
// the worker to the last settlement.
func (r *run) drain(ctx context.Context, stage string, slots, n int) (time.Duration, error) {
	var settled, failed atomic.Int64
	all := make(chan struct{})
	began := time.Now()
	stop, err := r.work(ctx, stage, slots, Noop, worker.Hooks{
		JobSettled: func(_ job.Job, _ job.Outcome, err error, _ time.Duration) {
			if err != nil {
				failed.Add(1)
			}
			if settled.Add(1) == int64(n) {
				close(all)
			}
		},
	})
	if err != nil {
		return 0, err
	}
	defer stop()
	select {
	case <-all:
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	took := time.Since(began)
	if lost := failed.Load(); lost > 0 {
		return took, fmt.Errorf("%d of %d settlements failed", lost, n)
	}
	return took, nil
}

// Noop is the handler of the benchmark.
var Noop = worker.HandlerFunc(func(context.Context, *worker.Task) job.Outcome { return job.Completed("data:,") })

// work starts a worker of a stage in this process.
func (r *run) work(ctx context.Context, stage string, slots int, h worker.Handler, hooks worker.Hooks) (stop func(), err error) {
	return r.workOn(ctx, []string{stage}, slots, h, hooks)
}

// workOn starts a worker of several stages, each with the slots.
func (r *run) workOn(ctx context.Context, stages []string, slots int, h worker.Handler, hooks worker.Hooks) (stop func(), err error) {
	runner, err := r.f.Runner("")
	if err != nil {
		return nil, err
	}
	o := worker.DefaultOptions()
	o.Concurrency, o.Logger, o.Hooks = slots, r.o.Logger, hooks
	w, err := worker.New(runner, o)
	for _, stage := range stages {
		if err == nil {
			err = w.Handle(stage, h)
		}
	}
	if err != nil {
		return nil, errors.Join(err, runner.Close())
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = w.Run(ctx) // a no-op handler leaves nothing behind
	}()
	return func() {
		w.Stop()
		<-ended
		_ = runner.Close()
	}, nil
}

// bare publishes bare specs into a stage, which is the cheapest way in: what a
// backend does that has no Weft at all. Nobody takes them.
func (r *run) bare(ctx context.Context) error {
	const stage = "bare"
	if _, err := r.f.Stage(ctx, stage); err != nil {
		return err
	}
	spec := r.spec(stage, 0)
	spec.ID, spec.Stage = "", ""
	body := spec.AppendJSON(nil)
	body = append(body, bytes.Repeat([]byte(" "), max(0, len(r.body())-len(body)))...) // as large as the raw messages
	began := time.Now()
	_, err := r.publishAll(ctx, r.o.Jobs, func(i int) (*nats.Msg, uint64) {
		return &nats.Msg{Subject: fmt.Sprintf("%s.work.%s.bare%d", r.namespace, stage, i), Data: body}, 0
	})
	if err != nil {
		return err
	}
	r.rate("bare publish", r.o.Jobs, time.Since(began), r.publish)
	return nil
}

// processes drains with several processes together. The end is seen in the
// stream, which has no more items then.
func (r *run) processes(ctx context.Context) error {
	if r.o.Worker == nil || r.o.Workers < 1 {
		return nil
	}
	const stage, slots = "many", 64
	if err := r.enqueue(ctx, stage, r.o.Jobs); err != nil {
		return err
	}
	work, err := r.js.Stream(ctx, r.stream(stage))
	if err != nil {
		return err
	}
	var started []Process
	defer func() {
		for _, p := range started {
			_ = p.Stop()
		}
	}()
	for range r.o.Workers {
		p, err := r.o.Worker(ctx, r.namespace, stage, slots)
		if err != nil {
			return err
		}
		started = append(started, p)
	}
	left := func() (uint64, error) {
		info, err := work.Info(ctx)
		if err != nil {
			return 0, err
		}
		return info.State.Msgs, nil
	}
	took, n, err := steadyRate(ctx, r.o.Jobs, left)
	if err != nil {
		return err
	}
	r.rate(fmt.Sprintf("drain, %d processes of %d slots", r.o.Workers, slots), n, took, r.throughBound())
	return nil
}

func (r *run) stream(stage string) string {
	return fmt.Sprintf("%s_%s", strings.ToUpper(r.namespace), stage)
}

// steadyRate measures from when a tenth of the jobs is done, so that the start of
// the processes does not count, to the last one.
func steadyRate(ctx context.Context, n int, left func() (uint64, error)) (time.Duration, int, error) {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	var began time.Time
	counted := 0
	for {
		now, err := left()
		if err != nil {
			return 0, 0, err
		}
		if began.IsZero() && int(now) <= n*9/10 {
			began, counted = time.Now(), int(now)
		}
		if now == 0 {
			return time.Since(began), counted, nil
		}
		select {
		case <-ctx.Done():
			return 0, 0, ctx.Err()
		case <-tick.C:
		}
	}
}

package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/weft-fabric/weft/fabric"
	"github.com/weft-fabric/weft/job"
	"github.com/weft-fabric/weft/kv"
	"github.com/weft-fabric/weft/worker"
)

// What a job costs must grow with the work and not with what lies behind it. The
// growth figures are rates of draining a few jobs while many wait, or while many
// records are kept, each with the rate for few as its bound.

const (
	growthSlots  = 64
	growthStages = 10
	// growthFew is how many jobs lie behind the ones that are drained first, and
	// how many are delayed.
	growthFew = 10_000
	// growthConnections is how many workers drain together, each with a connection
	// and a slot of its own.
	growthConnections = 1000
	// calmEach is how long the keeper gets to look through one job that was enqueued.
	calmEach = 40 * time.Microsecond
	// delayedApart is how far the times of delayed jobs are apart.
	delayedApart = 500 * time.Microsecond
)

// growth measures with Options.Growth jobs behind.
func (r *run) growth(ctx context.Context) error {
	if r.o.Growth == 0 {
		return nil
	}
	one, ten := []string{"alone"}, make([]string, growthStages)
	for i := range ten {
		ten[i] = fmt.Sprintf("spread%d", i)
	}
	few, many := min(growthFew, r.o.Growth), r.o.Growth
	for _, stages := range [][]string{one, ten} {
		var bound float64
		for _, behind := range []int{few, many} {
			err := r.apart(ctx, func(r *run) (err error) {
				bound, err = r.drainBefore(ctx, stages, behind, bound)
				return err
			})
			if err != nil {
				return err
			}
		}
	}
	err := r.apart(ctx, func(r *run) error {
		bound, err := r.drainBefore(ctx, one, few, 0, "with none finished")
		if err != nil {
			return err
		}
		if err := r.finished(ctx, many); err != nil {
			return err
		}
		if err := r.calm(ctx, many); err != nil {
			return err
		}
		_, err = r.drainBefore(ctx, one, few, bound, fmt.Sprintf("with %d finished", many))
		return err
	})
	if err != nil {
		return err
	}
	if err := r.delayed(ctx); err != nil {
		return err
	}
	return r.connections(ctx)
}

// apart measures in a namespace of its own, which is gone afterwards: what one
// figure has left behind is no other's history.
func (r *run) apart(ctx context.Context, measure func(*run) error) (err error) {
	r.parts++
	other := *r
	other.namespace, other.numbered = fmt.Sprintf("%s-%d", r.namespace, r.parts), 0
	defer func() { err = errors.Join(err, other.cleanUp()) }()
	leave, err := other.open(ctx)
	if err != nil {
		return err
	}
	defer leave()
	return measure(&other)
}

// drainBefore drains Options.Jobs jobs of stages in which then as many as behind
// are left.
func (r *run) drainBefore(ctx context.Context, stages []string, behind int, bound float64, with ...string) (float64, error) {
	for _, stage := range stages {
		waiting, err := r.waiting(ctx, stage)
		if err != nil {
			return 0, err
		}
		if err := r.enqueueFrom(ctx, stage, r.numbered, max(0, (behind+r.o.Jobs)/len(stages)-waiting)); err != nil {
			return 0, err
		}
		r.numbered += r.o.Jobs + behind
	}
	if err := r.calm(ctx, behind); err != nil {
		return 0, err
	}
	var settled atomic.Int64
	all := make(chan struct{})
	hooks := worker.Hooks{JobSettled: func(job.Job, job.Outcome, error, time.Duration) {
		if settled.Add(1) == int64(r.o.Jobs) {
			close(all)
		}
	}}
	began := time.Now()
	stop, err := r.workOn(ctx, stages, growthSlots/len(stages), Noop, hooks)
	if err != nil {
		return 0, err
	}
	defer stop()
	select {
	case <-all:
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	name := fmt.Sprintf("drain, %d behind", behind)
	if len(stages) > 1 {
		name += fmt.Sprintf(" in %d stages", len(stages))
	}
	for _, w := range with {
		name += " " + w
	}
	return r.rate(name, r.o.Jobs, time.Since(began), bound), nil
}

// calm lets the keeper look through what was enqueued, which takes it some seconds
// for a million jobs and is done once.
func (r *run) calm(ctx context.Context, enqueued int) error {
	select {
	case <-time.After(time.Duration(enqueued) * calmEach):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// waiting is how many items a stage has.
func (r *run) waiting(ctx context.Context, stage string) (int, error) {
	if _, err := r.f.Stage(ctx, stage); err != nil {
		return 0, err
	}
	work, err := r.js.Stream(ctx, r.stream(stage))
	if err != nil {
		return 0, err
	}
	info, err := work.Info(ctx)
	if err != nil {
		return 0, err
	}
	return int(info.State.Msgs), nil
}

// finished puts n records of jobs that have succeeded into the bucket.
func (r *run) finished(ctx context.Context, n int) error {
	now := time.Now().UTC().Truncate(time.Millisecond)
	prefix := "$KV." + r.namespace + "."
	_, err := r.publishAll(ctx, n, func(i int) (*nats.Msg, uint64) {
		spec := r.spec("alone", i)
		spec.ID, spec.MaxAttempts = fmt.Sprintf("finished-%d", i), 1
		j, err := job.New(spec, now)
		var token job.Token
		if err == nil {
			j, token, err = j.Claim("rn_bench", now, time.Minute)
		}
		if err == nil {
			j, err = j.Complete(token, "rn_bench", "data:,", now)
		}
		if err != nil {
			panic(err) // a spec of the benchmark's own
		}
		return &nats.Msg{
			Subject: prefix + kv.JobKey(j.ID), Data: j.AppendJSON(nil), Header: nats.Header{"Nats-TTL": {"604800s"}},
		}, 0
	})
	return err
}

// delayed measures how late delayed jobs start.
func (r *run) delayed(ctx context.Context) error {
	const stage = "delayed"
	n := min(growthFew, r.o.Growth)
	var mu sync.Mutex
	late, done := make([]time.Duration, 0, n), make(chan struct{})
	stop, err := r.work(ctx, stage, growthSlots, worker.HandlerFunc(func(_ context.Context, t *worker.Task) job.Outcome {
		due, _ := time.Parse(time.RFC3339Nano, t.Job().InputRef)
		mu.Lock()
		defer mu.Unlock()
		if late = append(late, r.f.Now().Sub(due)); len(late) == n {
			close(done)
		}
		return job.Completed("data:,")
	}), worker.Hooks{})
	if err != nil {
		return err
	}
	defer stop()
	begin := r.f.Now().Add(max(time.Duration(n)*delayedApart, time.Second))
	err = r.f.EnqueueMany(ctx, func(yield func(job.Spec) bool) {
		for i := range n {
			spec := r.spec(stage, i)
			spec.AvailableAt = begin.Add(time.Duration(i) * delayedApart)
			spec.InputRef = spec.AvailableAt.Format(time.RFC3339Nano)
			if !yield(spec) {
				return
			}
		}
	}, func(e fabric.Enqueued) error { return e.Err })
	if err != nil {
		return err
	}
	select {
	case <-done:
	case <-ctx.Done():
		return ctx.Err()
	}
	mu.Lock()
	defer mu.Unlock()
	slices.Sort(late)
	r.figure(Figure{Name: fmt.Sprintf("lateness of %d delayed jobs, p50", n), Value: float64(quantile(late, 0.5).Milliseconds()), Unit: "ms"})
	r.figure(Figure{Name: fmt.Sprintf("lateness of %d delayed jobs, p99", n), Value: float64(quantile(late, 0.99).Milliseconds()), Unit: "ms"})
	return nil
}

// connections enqueues and drains with very many workers that have little each.
func (r *run) connections(ctx context.Context) error {
	const stage = "crowd"
	n := min(growthConnections, r.o.Growth)
	var settled atomic.Int64
	all := make(chan struct{})
	hooks := worker.Hooks{JobSettled: func(job.Job, job.Outcome, error, time.Duration) {
		if settled.Add(1) == int64(r.o.Jobs) {
			close(all)
		}
	}}
	began := time.Now()
	for range n {
		leave, err := r.join(ctx, stage, hooks)
		if err != nil {
			return err
		}
		defer leave()
	}
	r.figure(Figure{Name: fmt.Sprintf("%d workers join", n), Value: time.Since(began).Seconds(), Unit: "s"})
	began = time.Now()
	if err := r.enqueue(ctx, stage, r.o.Jobs); err != nil {
		return err
	}
	select {
	case <-all:
	case <-ctx.Done():
		return ctx.Err()
	}
	r.rate(fmt.Sprintf("through %d connections of 1 slot", n), r.o.Jobs, time.Since(began), 0)
	return nil
}

// join is a worker with a connection and a slot of its own.
func (r *run) join(ctx context.Context, stage string, hooks worker.Hooks) (leave func(), err error) {
	opts := r.nc.Opts
	opts.Url, opts.Servers = r.nc.ConnectedUrl(), nil
	nc, err := opts.Connect()
	if err != nil {
		return nil, err
	}
	fo := fabric.DefaultOptions()
	fo.Namespace, fo.Logger = r.namespace, r.o.Logger
	f, err := fabric.Open(ctx, nc, fo)
	if err != nil {
		nc.Close()
		return nil, err
	}
	other := *r
	other.f = f
	stop, err := other.work(ctx, stage, 1, Noop, hooks)
	leave = func() {
		if stop != nil {
			stop()
		}
		f.Close()
		nc.Close()
	}
	if err != nil {
		leave()
	}
	return leave, err
}

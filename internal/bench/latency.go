package bench

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/weft-fabric/weft/job"
	"github.com/weft-fabric/weft/worker"
)

// idle is the pause between two samples of a latency.
const idle = 2 * time.Millisecond

// sample does something again and again on an idle system and measures how long
// each takes until it has arrived.
func (r *run) sample(ctx context.Context, arrived <-chan time.Time, do func(i int) error) ([]time.Duration, error) {
	times := make([]time.Duration, 0, r.o.Samples)
	for i := range r.o.Samples {
		began := time.Now()
		if err := do(i); err != nil {
			return nil, err
		}
		select {
		case at := <-arrived:
			times = append(times, at.Sub(began))
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		select {
		case <-time.After(idle):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	slices.Sort(times)
	return times, nil
}

// quantile takes one of the sorted times.
func quantile(times []time.Duration, q float64) time.Duration {
	return times[min(len(times)-1, int(q*float64(len(times))))]
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// latency is from the call of Enqueue to the start of the handler, with a worker
// that waits.
func (r *run) latency(ctx context.Context) error {
	arrived := make(chan time.Time, 1)
	stop, err := r.work(ctx, "idle", 1, worker.HandlerFunc(func(context.Context, *worker.Task) job.Outcome {
		arrived <- time.Now()
		return job.Completed("data:,")
	}), worker.Hooks{})
	if err != nil {
		return err
	}
	defer stop()
	times, err := r.sample(ctx, arrived, func(i int) error {
		_, err := r.f.Enqueue(ctx, r.spec("idle", i))
		return err
	})
	if err != nil {
		return err
	}
	p50, p99 := micros(quantile(times, 0.5)), micros(quantile(times, 0.99))
	r.figure(Figure{Name: "enqueue to handler, p50", Value: p50, Unit: "us", Bound: micros(r.raw50)})
	r.figure(Figure{Name: "enqueue to handler, p99", Value: p99, Unit: "us", Bound: micros(r.raw99)})
	r.figure(Figure{Name: "the same against three raw trips, p50", Value: p50, Unit: "us", Bound: micros(r.trips50)})
	r.figure(Figure{Name: "the same against three raw trips, p99", Value: p99, Unit: "us", Bound: micros(r.trips99)})
	return nil
}

// renewals renews many leases of one worker at once.
func (r *run) renewals(ctx context.Context) error {
	runner, err := r.f.Runner("")
	if err != nil {
		return err
	}
	defer runner.Close()
	if err := r.enqueue(ctx, "held", r.o.Held); err != nil {
		return err
	}
	var claims []job.Claim
	for len(claims) < r.o.Held {
		more, err := runner.Claim(ctx, "held", min(1000, r.o.Held-len(claims)))
		if err != nil {
			return err
		}
		claims = append(claims, more...)
	}
	began := time.Now()
	var renewing sync.WaitGroup
	errs := make(chan error, len(claims))
	for _, c := range claims {
		renewing.Go(func() {
			_, err := runner.Renew(ctx, c, nil)
			errs <- err
		})
	}
	renewing.Wait()
	took := time.Since(began)
	lost := 0
	for range claims {
		if err := <-errs; err != nil {
			lost++
		}
	}
	r.figure(Figure{Name: fmt.Sprintf("renewal of %d leases", len(claims)), Value: took.Seconds(), Unit: "s"})
	r.figure(Figure{Name: "leases lost by it", Value: float64(lost), Unit: ""})
	return nil
}

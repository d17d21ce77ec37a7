package bench

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/oklog/ulid/v2"

	"github.com/weft-fabric/weft/fabric"
)

// Options say how much is measured.
type Options struct {
	Jobs    int           // of each throughput figure
	For     time.Duration // the whole run ends after so long, with what it has
	Payload int           // bytes of each job's payload
	Slots   []int         // numbers of slots to drain with, in one process
	Held    int           // leases that are renewed at once
	Samples int           // of the latencies
	Growth  int           // jobs that wait, and records that are kept, behind the drains of the growth figures; 0 leaves those out
	// Worker starts a process that drains the stage of the namespace with the
	// given slots, until it is stopped. Nil leaves the figures with processes out.
	Worker func(ctx context.Context, namespace, stage string, slots int) (Process, error)
	// Workers is how many of them drain together.
	Workers int
	// Server is the server's process id, 0 if it is not known; then its memory is
	// left out.
	Server int
	Logger *slog.Logger
}

// DefaultOptions suit a machine of two cores: about a minute.
func DefaultOptions() Options {
	return Options{
		Jobs: 20000, For: 5 * time.Minute, Payload: 200, Slots: []int{1, 8, 64, 256},
		Held: 10000, Samples: 500, Workers: 4, Logger: slog.New(slog.DiscardHandler),
	}
}

// Process is one that was started for the benchmark.
type Process struct {
	ID   int
	Stop func() error
}

// Validate refuses a run that would measure nothing.
func (o Options) Validate() error {
	switch {
	case o.Jobs < 100:
		return fmt.Errorf("jobs %d is below 100, which is too few to measure", o.Jobs)
	case o.For <= 0:
		return fmt.Errorf("for %s is not above 0", o.For)
	case o.Payload < 2 || o.Payload > 64<<10:
		return fmt.Errorf("payload %d is not within 2 and 65536 bytes", o.Payload)
	case len(o.Slots) == 0:
		return errors.New("slots are missing; the default is 1,8,64,256")
	}
	for _, number := range []struct {
		name  string
		value int
	}{{"growth", o.Growth}, {"held", o.Held}, {"processes", o.Workers}} {
		if number.value < 0 {
			return fmt.Errorf("%s %d is below 0", number.name, number.value)
		}
	}
	for _, n := range o.Slots {
		if n < 1 {
			return fmt.Errorf("slots %d is below 1", n)
		}
	}
	return nil
}

// Figure is one measured value, and what bounds it.
type Figure struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
	// Bound is what the raw figures of the same run allow, 0 if nothing bounds
	// the figure; Ratio is the value's part of it.
	Bound float64 `json:"bound,omitempty"`
	Ratio float64 `json:"ratio,omitempty"`
}

// Run measures over an existing connection and gives each figure as it is made.
// When Options.For is over it returns ctx's error with what it has given.
func Run(ctx context.Context, nc *nats.Conn, o Options, give func(Figure)) (err error) {
	if err := o.Validate(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, o.For)
	defer cancel()
	js, err := jetstream.New(nc, jetstream.WithPublishAsyncMaxPending(maxPending))
	if err != nil {
		return err
	}
	r := &run{o: o, nc: nc, js: js, give: give, namespace: "bench-" + strings.ToLower(ulid.Make().String())[16:]}
	defer func() { err = errors.Join(err, r.cleanUp()) }()
	if err := r.raw(ctx); err != nil {
		return fmt.Errorf("raw JetStream: %w", err)
	}
	leave, err := r.open(ctx)
	if err != nil {
		return err
	}
	defer leave()
	// The latency is an idle system's, as the raw one is: it comes first.
	for _, step := range []func(context.Context) error{r.latency, r.throughput, r.bare, r.renewals, r.processes, r.growth, r.memory} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// open opens the fabric of the run's namespace. A keeper runs beside, as it does in
// every weft work.
func (r *run) open(ctx context.Context) (leave func(), err error) {
	opts := fabric.DefaultOptions()
	opts.Namespace, opts.Logger = r.namespace, r.o.Logger
	if r.f, err = fabric.Open(ctx, r.nc, opts); err != nil {
		return nil, err
	}
	keeping, stop := context.WithCancel(ctx)
	var keeper sync.WaitGroup
	keeper.Go(func() { _ = r.f.Keep(keeping) }) // it ends without error when it is told to
	return func() {
		stop()
		keeper.Wait()
		r.f.Close()
	}, nil
}

// maxPending is how many raw publishes are unanswered at once.
const maxPending = 1024

// run is one run.
type run struct {
	o         Options
	nc        *nats.Conn
	js        jetstream.JetStream
	f         *fabric.Fabric
	namespace string
	give      func(Figure)

	publish float64 // raw rates, per second
	swap    float64
	consume float64
	raw50   time.Duration // raw latency, median
	raw99   time.Duration
	trips50 time.Duration // raw latency of three trips in turn, median
	trips99 time.Duration

	numbered int // jobs of the growth figures so far
	parts    int // namespaces of growth figures so far
}

func (r *run) rate(name string, n int, took time.Duration, bound float64) float64 {
	value := float64(n) / took.Seconds()
	r.figure(Figure{Name: name, Value: value, Unit: "/s", Bound: bound})
	return value
}

func (r *run) figure(f Figure) {
	if f.Bound > 0 {
		f.Ratio = f.Value / f.Bound
	}
	r.give(f)
}

// inBound is what raw JetStream allows an enqueue: one compare-and-set and one
// publish into a work queue.
func (r *run) inBound() float64 { return 1 / (1/r.swap + 1/r.publish) }

// throughBound is what it allows a run: two compare-and-sets, and an item
// consumed and acknowledged.
func (r *run) throughBound() float64 { return 1 / (2/r.swap + 1/r.consume) }

// cleanUp removes every stream of the run's namespace.
func (r *run) cleanUp() error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	var errs []error
	names := r.js.StreamNames(ctx)
	for name := range names.Name() {
		if strings.HasPrefix(name, strings.ToUpper(r.namespace)+"_") || name == "KV_"+r.namespace {
			errs = append(errs, r.js.DeleteStream(ctx, name))
		}
	}
	return errors.Join(append(errs, names.Err())...)
}

package worker_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weft-fabric/weft/job"
	"github.com/weft-fabric/weft/worker"
)

// lease is the lease of all tests: renewed every 10 s.
const lease = 30 * time.Second

// bench is a worker on a fabric in memory, inside a synctest bubble.
type bench struct {
	*memory
	t      *testing.T
	worker *worker.Worker
	logs   *logs
	begun  time.Time
	end    context.CancelFunc // ends Run's context
	ended  chan struct{}      // closed when Run has returned
	err    error              // Run's, once ended is closed
}

type contextKey struct{}

// bubble runs a test inside a bubble, where time stands still until all
// goroutines wait.
func bubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, test)
}

// setup makes a worker whose stage "build" has the handler; change may alter the
// options. Every test ends with a check of what must hold in each.
func setup(t *testing.T, h worker.HandlerFunc, change ...func(*worker.Options)) *bench {
	t.Helper()
	b := &bench{memory: newMemory(lease), t: t, logs: &logs{}, begun: time.Now(), ended: make(chan struct{})}
	o := worker.DefaultOptions()
	o.Concurrency = 2
	o.Logger = slog.New(slog.NewTextHandler(b.logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
	for _, f := range change {
		f(&o)
	}
	w, err := worker.New(b.memory, o)
	if err != nil {
		t.Fatal(err)
	}
	b.worker = w
	if err := w.Handle("build", h); err != nil {
		t.Fatal(err)
	}
	return b
}

// run starts the worker with some jobs to do, which are "a", "b" and so on if
// they have no ids, and stops it when the test ends.
func (b *bench) run(specs ...job.Spec) {
	b.t.Helper()
	for i := range specs {
		if specs[i].ID == "" {
			specs[i].ID = string(rune('a' + i))
		}
	}
	b.enqueue(specs...)
	ctx, cancel := context.WithCancel(context.WithValue(context.Background(), contextKey{}, "value"))
	b.end = cancel
	go func() {
		defer close(b.ended)
		b.err = b.worker.Run(ctx)
	}()
	b.t.Cleanup(b.finish)
}

// finish stops the worker and checks the promises that hold in every test.
func (b *bench) finish() {
	b.end()
	<-b.ended
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, text := range b.breaches {
		b.t.Error(text)
	}
	for id := range b.busy {
		b.t.Errorf("a write of %s is still under way after Run", id)
	}
}

// stopped waits for Run and gives its error.
func (b *bench) stopped() error {
	<-b.ended
	return b.err
}

// elapsed is the time since the bubble began.
func (b *bench) elapsed() time.Duration { return time.Since(b.begun) }

// pass lets the clock run until d after the beginning, and all goroutines then
// come to rest.
func (b *bench) pass(d time.Duration) {
	<-time.After(time.Until(b.begun.Add(d)))
	synctest.Wait()
}

func (b *bench) wantOutcomes(id string, want ...string) {
	b.t.Helper()
	if got := b.outcomes(id); !slices.Equal(got, want) {
		b.t.Errorf("outcomes of %s are %q, want %q", id, got, want)
	}
}

func (b *bench) wantState(id string, want job.State) {
	b.t.Helper()
	if got := b.job(id); got.State != want {
		b.t.Errorf("%s is %s (%s), want %s", id, got.State, got.Reason, want)
	}
}

func (b *bench) wantLog(parts ...string) {
	b.t.Helper()
	if !b.logs.has(parts...) {
		b.t.Errorf("no line of the log has %q:\n%s", parts, b.logs)
	}
}

// gate lets a test decide when handlers go on.
type gate chan struct{}

func (g gate) open() { close(g) }

// logs is a writer that tests can read from.
type logs struct {
	mu    sync.Mutex
	lines []string
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, string(p))
	return len(p), nil
}

// has reports whether one line contains all the parts.
func (l *logs) has(parts ...string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.lines, func(line string) bool {
		return !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(line, part) })
	})
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.lines, "")
}

// done is the outcome of handlers that succeed.
func done() job.Outcome { return job.Completed("data:,done") }

// obedient is the outcome of a handler that works for d or until it is told to
// stop.
func obedient(ctx context.Context, d time.Duration) job.Outcome {
	select {
	case <-time.After(d):
		return done()
	case <-ctx.Done():
		return job.Failed(fmt.Sprint("stopped: ", context.Cause(ctx)))
	}
}

func specs(n int) []job.Spec { return make([]job.Spec, n) }

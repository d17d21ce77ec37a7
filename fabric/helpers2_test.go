package fabric_test

// Helpers of the tests of the keeper, of dependencies and of servers that fail.

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weft-fabric/weft/fabric"
	"github.com/weft-fabric/weft/internal/natstest"
	"github.com/weft-fabric/weft/job"
	"github.com/weft-fabric/weft/worker"
)

// patience is how long a test waits for what must happen soon.
const patience = 20 * time.Second

// keep runs a keeper until the test ends or the returned function is called.
func keep(t *testing.T, f *fabric.Fabric) (stop func()) {
	t.Helper()
	return background(t, f.Keep)
}

// lead runs a keeper that believes it leads.
func lead(t *testing.T, f *fabric.Fabric) (stop func()) {
	t.Helper()
	return background(t, func(ctx context.Context) error { return fabric.Lead(ctx, f) })
}

func background(t *testing.T, run func(context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := run(ctx); err != nil && !errors.Is(err, context.Canceled) && ctx.Err() == nil {
			t.Errorf("it ended by itself: %v", err)
		}
	})
	stop = sync.OnceFunc(func() {
		cancel()
		running.Wait()
	})
	t.Cleanup(stop)
	return stop
}

// handled counts the runs of each job that a worker makes.
type handled struct {
	mu    sync.Mutex
	runs  map[string]int
	order []string
}

func (h *handled) add(id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.runs == nil {
		h.runs = map[string]int{}
	}
	h.runs[id]++
	h.order = append(h.order, id)
}

func (h *handled) of(id string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.runs[id]
}

func (h *handled) all() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]string(nil), h.order...)
}

// work runs a worker of one stage until the test ends or the returned function
// is called. Its handler is do, or one that completes every job.
func work(t *testing.T, f *fabric.Fabric, stage string, slots int, do worker.HandlerFunc) (stop func()) {
	t.Helper()
	if do == nil {
		do = func(context.Context, *worker.Task) job.Outcome { return job.Completed("data:,done") }
	}
	opts := worker.DefaultOptions()
	opts.Concurrency, opts.Drain, opts.StopGrace = slots, 0, time.Second
	opts.Logger = warnings(t)
	r := runner(t, f, "")
	w, err := worker.New(r, opts)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Handle(stage, do); err != nil {
		t.Fatal(err)
	}
	return background(t, w.Run)
}

// counted is a handler that notes each run and completes.
func counted(h *handled) worker.HandlerFunc {
	return func(_ context.Context, task *worker.Task) job.Outcome {
		h.add(task.Job().ID)
		return job.Completed("data:,done")
	}
}

// workQueue is the stream of a stage's items.
func workQueue(t *testing.T, nc *nats.Conn, stage string) jetstream.Stream {
	t.Helper()
	return serverStream(t, nc, "WEFT_"+stage)
}

func serverJetStream(t *testing.T, nc *nats.Conn) jetstream.JetStream {
	t.Helper()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

func serverStream(t *testing.T, nc *nats.Conn, name string) jetstream.Stream {
	t.Helper()
	js := serverJetStream(t, nc)
	var st jetstream.Stream
	natstest.Eventually(t, patience, "stream "+name, func() bool {
		var err error
		st, err = js.Stream(t.Context(), name)
		return err == nil
	})
	return st
}

// offers gives the sequences of all items and schedules of a stage, by job id.
func offers(t *testing.T, st jetstream.Stream) map[string]uint64 {
	t.Helper()
	info, err := st.Info(t.Context(), jetstream.WithSubjectFilter("weft.>"))
	if err != nil {
		t.Fatal(err)
	}
	seqs := map[string]uint64{}
	for subject := range info.State.Subjects {
		msg, err := st.GetLastMsgForSubject(t.Context(), subject)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			continue // taken or fired since
		}
		if err != nil {
			t.Fatalf("%s: %v", subject, err)
		}
		seqs[subject[strings.LastIndexByte(subject, '.')+1:]] = msg.Sequence
	}
	return seqs
}

// awaitState waits until a job is in a state.
func awaitState(t *testing.T, f *fabric.Fabric, id string, state job.State) job.Job {
	t.Helper()
	var j job.Job
	natstest.Eventually(t, patience, id+" is "+string(state), func() bool {
		var err error
		if j, err = f.Get(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		return j.State == state
	})
	return j
}

// awaitAll waits until every job has succeeded.
func awaitAll(t *testing.T, f *fabric.Fabric, within time.Duration, ids ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	for _, id := range ids {
		j, err := f.Wait(ctx, id)
		if err != nil || j.State != job.StateSucceeded {
			t.Fatalf("%s is %s, reason %q: %v", id, j.State, j.Reason, err)
		}
	}
}

// age is a local clock that a test may set ahead, so that for the fabric opened
// with it what is there has become old.
type age struct {
	mu    sync.Mutex
	ahead time.Duration
}

func (a *age) add(d time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ahead += d
}

func (a *age) now() time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	return time.Now().Add(a.ahead)
}

func (a *age) clock(o *fabric.Options) { o.Clock = a.now }

// quiet leaves the log out, where a test makes very many lines of it.
func quiet(o *fabric.Options) { o.Logger = nil }

// warnings logs what is worth a look when a test fails.
func warnings(t *testing.T) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// terse is the option of a log of warnings alone.
func terse(t *testing.T) func(*fabric.Options) {
	return func(o *fabric.Options) { o.Logger = warnings(t) }
}

// enqueueMany enqueues jobs of one kind, many at a time.
func enqueueMany(t *testing.T, f *fabric.Fabric, n int, spec job.Spec) []string {
	t.Helper()
	ids := make([]string, n)
	var enqueueing sync.WaitGroup
	next := make(chan int)
	for range 32 {
		enqueueing.Go(func() {
			for i := range next {
				j, err := f.Enqueue(t.Context(), spec)
				if err != nil {
					t.Errorf("enqueue: %v", err)
				}
				ids[i] = j.ID
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	enqueueing.Wait()
	if t.Failed() {
		t.FailNow()
	}
	return ids
}

// subjectsOf lists the subjects of a stream that hold something.
func subjectsOf(t *testing.T, st jetstream.Stream, filter string) map[string]uint64 {
	t.Helper()
	info, err := st.Info(t.Context(), jetstream.WithSubjectFilter(filter))
	if err != nil {
		t.Fatal(err)
	}
	return info.State.Subjects
}

// listening is where a log goes in which a test waits for a line.
type listening struct {
	text  string
	heard chan struct{}
}

func (l *listening) Write(line []byte) (int, error) {
	if strings.Contains(string(line), l.text) {
		select {
		case l.heard <- struct{}{}:
		default:
		}
	}
	return len(line), nil
}

// await waits for what a channel brings.
func await[T any](t *testing.T, happened <-chan T, what string) (value T) {
	t.Helper()
	select {
	case value = <-happened:
	case <-time.After(patience):
		t.Fatalf("not within %s: %s", patience, what)
	}
	return value
}

// seldom looks no more often than every now and then, where a look is dear.
func seldom(every time.Duration, ok func() bool) func() bool {
	var next time.Time
	return func() bool {
		if time.Now().Before(next) {
			return false
		}
		next = time.Now().Add(every)
		return ok()
	}
}

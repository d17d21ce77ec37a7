package roles_test

// These tests prove that each role can do what it is there for, by the fabric, the
// worker and the service API themselves; start fails the test if anything of it was
// refused.

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weft-fabric/weft/fabric"
	"github.com/weft-fabric/weft/internal/app"
	"github.com/weft-fabric/weft/internal/natstest"
	"github.com/weft-fabric/weft/internal/roles"
	"github.com/weft-fabric/weft/job"
	"github.com/weft-fabric/weft/worker"
)

func enqueue(t *testing.T, a *app.App, spec job.Spec, opts ...fabric.EnqueueOption) job.Job {
	t.Helper()
	ctx, cancel := within(t)
	defer cancel()
	if spec.InputRef == "" {
		spec.InputRef = "data:,x"
	}
	j, err := a.Fabric().Enqueue(ctx, spec, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func ended(t *testing.T, a *app.App, id string, want job.State) job.Job {
	t.Helper()
	ctx, cancel := within(t)
	defer cancel()
	j, err := a.Fabric().Wait(ctx, id)
	if err != nil || j.State != want {
		t.Fatalf("%s is %s (%s), %v; want %s", id, j.State, j.Reason, err, want)
	}
	return j
}

// work runs a worker until stop is called.
func work(t *testing.T, a *app.App, stage string, h worker.HandlerFunc) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- a.Work(ctx, app.Work{Stage: stage, Handler: h}) }()
	var stopped atomic.Bool
	stop = func() {
		if stopped.Swap(true) {
			return
		}
		cancel()
		if err := <-done; err != nil {
			t.Errorf("work: %v", err)
		}
	}
	t.Cleanup(stop)
	return stop
}

// withKeeper has a process run a keeper.
func withKeeper(o *app.Options) { o.Keep = true }

func TestEachRoleDoesItsPart(t *testing.T) {
	t.Parallel()
	for _, way := range []roles.Way{roles.Work, roles.Keep} {
		for _, stages := range [][]string{nil, {"hash", "next"}} {
			name := string(way) + "/any stage"
			if stages != nil {
				name = string(way) + "/stages"
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				s := newSite(t, roles.Config{Namespace: "weft", Stages: stages, Runners: way})
				together(t, s, way)
			})
		}
	}
}

// together has a backend's jobs run by a runner while a viewer looks on and
// somebody keeps.
func together(t *testing.T, s *site, way roles.Way) {
	backend, _ := s.start("weft", roles.Backend)
	enqueue(t, backend, job.Spec{ID: "plain", Stage: "hash"})
	enqueue(t, backend, job.Spec{ID: "after", Stage: "next", Dependencies: []string{"plain"}})
	enqueue(t, backend, job.Spec{ID: "flaky", Stage: "hash", Priority: 1})
	enqueue(t, backend, job.Spec{ID: "at-once", Stage: "hash"})
	enqueue(t, backend, job.Spec{ID: "large", Stage: "hash"})
	enqueue(t, backend, job.Spec{ID: "fed", Stage: "hash", InputRef: put(t, backend)})
	enqueue(t, backend, job.Spec{ID: "soon", Stage: "hash", AvailableAt: backend.Fabric().Now().Add(time.Second)})
	enqueue(t, backend, job.Spec{ID: "old", Stage: "hash", Key: "k", AvailableAt: backend.Fabric().Now().Add(time.Hour)})
	enqueue(t, backend, job.Spec{ID: "new", Stage: "hash", Key: "k"})
	enqueue(t, backend, job.Spec{ID: "held", Stage: "hash", Key: "other"}, fabric.OnConflict(fabric.Reject))

	viewer, _ := s.start("weft", roles.Viewer)
	seen := watch(t, viewer)
	var runner *app.App
	if way == roles.Keep {
		runner, _ = s.start("weft", roles.Runner, withKeeper)
	} else {
		s.start("weft", roles.Operator, withKeeper)
		runner, _ = s.start("weft", roles.Runner)
	}
	held, first := make(chan struct{}), make(chan struct{}, 1)
	first <- struct{}{}
	h := func(ctx context.Context, task *worker.Task) job.Outcome {
		switch j := task.Job(); {
		case j.ID == "flaky" && j.Attempt == 1:
			return job.FailedAfter("not yet", 100*time.Millisecond)
		case j.ID == "at-once" && j.Attempt == 1:
			return job.FailedAfter("again", 0)
		case j.ID == "fed":
			return worker.OutcomeOf(readInput(ctx, runner, j.InputRef))
		case j.ID == "large":
			return job.CompletedWith([]byte(strings.Repeat("large ", 10_000)))
		case j.ID == "held":
			close(held)
			<-ctx.Done()
			return job.Failed("stopped")
		}
		return job.CompletedWith([]byte("done"))
	}
	work(t, runner, "hash", h)
	work(t, runner, "next", h)
	for _, id := range []string{"plain", "after", "flaky", "at-once", "soon", "new"} {
		ended(t, backend, id, job.StateSucceeded)
	}
	ended(t, backend, "old", job.StateCancelled)
	output(t, viewer, ended(t, viewer, "large", job.StateSucceeded), 60_000)
	output(t, viewer, ended(t, viewer, "fed", job.StateSucceeded), inputSize)

	<-held
	natstest.Eventually(t, patience, "the viewer sees the worker", func() bool { return workers(t, viewer) > 0 })
	ctx, cancel := within(t)
	defer cancel()
	if _, err := backend.Fabric().Cancel(ctx, "held", "no more"); err != nil {
		t.Fatal(err)
	}
	ended(t, viewer, "held", job.StateCancelled)
	natstest.Eventually(t, patience, "the watch shows it", func() bool { return seen("held") == job.StateCancelled })
	looks(t, viewer)
}

// inputSize is too much for a reference.
const inputSize = 50_000

func put(t *testing.T, a *app.App) (ref string) {
	t.Helper()
	ctx, cancel := within(t)
	defer cancel()
	ref, err := a.Fabric().PutInput(ctx, strings.NewReader(strings.Repeat("x", inputSize)))
	if err != nil {
		t.Fatal(err)
	}
	return ref
}

func readInput(ctx context.Context, a *app.App, ref string) ([]byte, error) {
	input, err := a.Fabric().OpenRef(ctx, ref)
	if err != nil {
		return nil, err
	}
	defer input.Close()
	return io.ReadAll(input)
}

// watch notes what a viewer's watch shows.
func watch(t *testing.T, a *app.App) (state func(id string) job.State) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	changes, done := make(chan job.Job, 1000), make(chan struct{})
	go func() {
		defer close(done)
		for j, err := range a.Fabric().Watch(ctx) {
			if err == nil {
				changes <- j
			}
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
	states := map[string]job.State{}
	return func(id string) job.State {
		for len(changes) > 0 {
			j := <-changes
			states[j.ID] = j.State
		}
		return states[id]
	}
}

func workers(t *testing.T, a *app.App) (n int) {
	t.Helper()
	ctx, cancel := within(t)
	defer cancel()
	for _, err := range a.Fabric().Workers(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	return n
}

func output(t *testing.T, a *app.App, j job.Job, length int) {
	t.Helper()
	ctx, cancel := within(t)
	defer cancel()
	r, err := a.Fabric().Output(ctx, j)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if text, err := io.ReadAll(r); err != nil || len(text) != length {
		t.Errorf("output of %d bytes, %v; want %d", len(text), err, length)
	}
}

// looks are the reads of a viewer that list.
func looks(t *testing.T, a *app.App) {
	t.Helper()
	ctx, cancel := within(t)
	defer cancel()
	jobs := 0
	for _, err := range a.Fabric().List(ctx, fabric.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		jobs++
	}
	if jobs < 9 {
		t.Errorf("%d jobs are listed", jobs)
	}
}

// A drain gives back what runs, also where the runner may offer by schedules alone.
func TestDrainOfARunnerGivesBack(t *testing.T) {
	t.Parallel()
	s := newSite(t, hashes)
	backend, _ := s.start("weft", roles.Backend)
	enqueue(t, backend, job.Spec{ID: "long", Stage: "hash"})
	started := make(chan struct{}, 2)
	first, _ := s.start("weft", roles.Runner, func(o *app.Options) { o.Config.Drain = 10 * time.Millisecond })
	stop := work(t, first, "hash", func(ctx context.Context, _ *worker.Task) job.Outcome {
		started <- struct{}{}
		<-ctx.Done()
		return job.Failed("stopped")
	})
	<-started
	stop()
	second, _ := s.start("weft", roles.Runner)
	began := time.Now()
	work(t, second, "hash", func(context.Context, *worker.Task) job.Outcome { return job.Completed("x") })
	j := ended(t, backend, "long", job.StateSucceeded)
	if j.Attempt != 1 {
		t.Errorf("attempt %d: the drain was charged", j.Attempt)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it came back after %s", took)
	}
}

func TestOperatorOperates(t *testing.T) {
	t.Parallel()
	s := newSite(t, hashes)
	operator, _ := s.start("weft", roles.Operator)
	backend, _ := s.start("weft", roles.Backend)
	runner, _ := s.start("weft", roles.Runner)
	enqueue(t, backend, job.Spec{ID: "one", Stage: "hash", MaxAttempts: 1})
	ctx, cancel := within(t)
	defer cancel()
	f := operator.Fabric()
	if _, err := f.PauseStage(ctx, "hash", "ann", "a look"); err != nil {
		t.Fatal(err)
	}
	if _, err := f.ResumeStage(ctx, "hash"); err != nil {
		t.Fatal(err)
	}
	lease, limit := 3*time.Second, 4
	if _, err := f.SetStage(ctx, "hash", fabric.StageChange{Lease: &lease, Concurrency: &limit}); err != nil {
		t.Fatal(err)
	}
	var tries atomic.Int64
	work(t, runner, "hash", func(context.Context, *worker.Task) job.Outcome {
		if tries.Add(1) == 1 {
			return job.Failed("no")
		}
		return job.Completed("x")
	})
	ended(t, backend, "one", job.StateFailed)
	if _, err := f.Retry(ctx, "one", "once more"); err != nil {
		t.Fatal(err)
	}
	ended(t, backend, "one", job.StateSucceeded)
}

// A pause that was interrupted between the stage's key and its consumers is an
// operator's to mend, and keeps nobody from enqueueing or from waiting for work.
func TestInterruptedPauseIsLeftToTheOperator(t *testing.T) {
	t.Parallel()
	s := newSite(t, hashes)
	first, _ := s.start("weft", roles.Backend)
	enqueue(t, first, job.Spec{ID: "one", Stage: "hash"})
	operator, _ := s.start("weft", roles.Operator)
	ctx, cancel := within(t)
	defer cancel()
	if _, err := operator.Fabric().PauseStage(ctx, "hash", "ann", "a look"); err != nil {
		t.Fatal(err)
	}
	js, err := jetstream.New(s.server.Connect(nats.UserInfo("root", password)))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.ResumeConsumer(ctx, "WEFT_hash", "runners"); err != nil {
		t.Fatal(err)
	}
	second, _ := s.start("weft", roles.Backend)
	enqueue(t, second, job.Spec{ID: "two", Stage: "hash"})
	runner, _ := s.start("weft", roles.Runner)
	if st, err := runner.Fabric().Stage(ctx, "hash"); err != nil || !st.Paused {
		t.Errorf("the runner finds %+v, %v", st, err)
	}
}

// The service API is an operator's; each role has the verbs of its part.
func TestServiceAnswersTheRoles(t *testing.T) {
	t.Parallel()
	c := hashes
	c.Runners = roles.API
	s := newSite(t, c)
	s.start("weft", roles.Operator, withKeeper, func(o *app.Options) { o.API = true })
	backend, runner, viewer := s.probe("weft", roles.Backend), s.probe("weft", roles.Runner), s.probe("weft", roles.Viewer)
	backend.ask("weft.api.enqueue", `{"id":"one","stage":"hash","input_ref":"data:,x"}`)
	var claimed struct {
		Claims []struct {
			Token json.RawMessage `json:"token"`
		} `json:"claims"`
	}
	answer := runner.ask("weft.api.claim", `{"stage":"hash","worker":"py","wait":"10s"}`)
	if err := json.Unmarshal(answer, &claimed); err != nil || len(claimed.Claims) != 1 {
		t.Fatalf("claimed %s: %v", answer, err)
	}
	token := string(claimed.Claims[0].Token)
	runner.ask("weft.api.complete", `{"token":`+token+`,"output":"done"}`)
	if got := viewer.ask("weft.api.get", `{"id":"one"}`); !strings.Contains(string(got), "succeeded") {
		t.Errorf("the viewer got %s", got)
	}
	for _, p := range []*prober{runner, viewer} {
		if !p.publish("weft.api.enqueue", []byte(`{"id":"two","stage":"hash","input_ref":"data:,x"}`)) {
			t.Error("it can enqueue")
		}
	}
}

// ask sends a request to the service and returns a good answer.
func (p *prober) ask(subject, body string) []byte {
	p.t.Helper()
	ctx, cancel := within(p.t)
	defer cancel()
	msg, err := p.nc.RequestMsgWithContext(ctx, &nats.Msg{Subject: subject, Data: []byte(body)})
	if err != nil {
		p.t.Fatalf("%s: %v", subject, err)
	}
	if code := msg.Header.Get("Nats-Service-Error-Code"); code != "" {
		p.t.Fatalf("%s: %s %s", subject, code, msg.Header.Get("Nats-Service-Error"))
	}
	return msg.Data
}

// A backend lands outcomes by its own permissions, and so does an operator.
func TestBackendAndOperatorLandOutcomes(t *testing.T) {
	t.Parallel()
	for _, stages := range [][]string{nil, {"hash"}} {
		s := newSite(t, roles.Config{Namespace: "weft", Stages: stages})
		backend, _ := s.start("weft", roles.Backend)
		operator, _ := s.start("weft", roles.Operator)
		enqueue(t, backend, job.Spec{ID: "one", Stage: "hash"})
		ctx, cancel := within(t)
		defer cancel()
		if _, err := backend.Fabric().Cancel(ctx, "one", "enough"); err != nil {
			t.Fatal(err)
		}
		for name, a := range map[string]*app.App{"billing": backend, "audit": operator} {
			landsOne(t, a, name)
			if err := a.Fabric().RemoveFeed(ctx, name); err != nil {
				t.Error(err)
			}
		}
	}
}

// landsOne takes one outcome of a feed, and waits until the server has heard of it.
func landsOne(t *testing.T, a *app.App, name string) {
	t.Helper()
	ctx, cancel := within(t)
	defer cancel()
	taking, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		ended <- a.Fabric().Outcomes(taking, name, func(context.Context, fabric.Outcome) error { return nil })
	}()
	natstest.Eventually(t, patience, "the outcome is acknowledged", func() bool {
		feeds, err := a.Fabric().Feeds(ctx)
		return err == nil && len(feeds) == 1 && feeds[0].Pending == 0 && feeds[0].Unacked == 0 && !feeds[0].LastAck.IsZero()
	})
	stop()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("it ended with %v", err)
	}
}

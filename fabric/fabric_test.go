package fabric_test

import (
	"context"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/weft-fabric/weft/fabric"
	"github.com/weft-fabric/weft/internal/natstest"
	"github.com/weft-fabric/weft/job"
)

// open joins a fabric for one test; each of edit may change its options.
func open(t *testing.T, nc *nats.Conn, edit ...func(*fabric.Options)) *fabric.Fabric {
	t.Helper()
	opts := fabric.DefaultOptions()
	opts.Logger = slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
	for _, f := range edit {
		f(&opts)
	}
	f, err := fabric.Open(t.Context(), nc, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	return f
}

func runner(t *testing.T, f *fabric.Fabric, id string) *fabric.Runner {
	t.Helper()
	r, err := f.Runner(id)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

// claim takes one job of a stage, or fails the test after some seconds.
func claim(t *testing.T, r *fabric.Runner, stage string) job.Claim {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	claims, err := r.Claim(ctx, stage, 1)
	if err != nil {
		t.Fatalf("claim %s: %v", stage, err)
	}
	return claims[0]
}

func enqueue(t *testing.T, f *fabric.Fabric, spec job.Spec) job.Job {
	t.Helper()
	j, err := f.Enqueue(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func output(t *testing.T, f *fabric.Fabric, j job.Job) string {
	t.Helper()
	body, err := f.Output(t.Context(), j)
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close()
	data, err := io.ReadAll(body)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestJobsWholeLife(t *testing.T) {
	f := open(t, natstest.Conn(t))
	r := runner(t, f, "")
	j := enqueue(t, f, job.Spec{Stage: "hash", InputRef: "data:,hello"})
	c := claim(t, r, "hash")
	if c.Job.ID != j.ID || c.Job.Attempt != 1 || c.Job.Fence != 1 {
		t.Fatalf("claimed %+v", c.Job)
	}
	c, err := r.Renew(t.Context(), c, []byte(`{"done":1}`))
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Settle(t.Context(), c, job.CompletedWith([]byte("5d41"))); err != nil {
		t.Fatal(err)
	}
	j, err = f.Wait(t.Context(), j.ID)
	if err != nil {
		t.Fatal(err)
	}
	if got := output(t, f, j); j.State != job.StateSucceeded || got != "5d41" {
		t.Fatalf("state %s, output %q", j.State, got)
	}
}

func TestBareItemBecomesJob(t *testing.T) {
	nc := natstest.Conn(t)
	f := open(t, nc)
	r := runner(t, f, "")
	if _, err := f.Stage(t.Context(), "hash"); err != nil {
		t.Fatal(err)
	}
	if err := nc.Publish("weft.work.hash.raw1", []byte(`{"input_ref":"data:,hi"}`)); err != nil {
		t.Fatal(err)
	}
	c := claim(t, r, "hash")
	if c.Job.ID != "raw1" || c.Job.InputRef != "data:,hi" || c.Job.MaxAttempts != job.DefaultMaxAttempts {
		t.Fatalf("claimed %+v", c.Job)
	}
	if err := r.Settle(t.Context(), c, job.CompletedWith(nil)); err != nil {
		t.Fatal(err)
	}
}

func TestFailedAttemptComesBackLater(t *testing.T) {
	f := open(t, natstest.Conn(t))
	r := runner(t, f, "")
	j := enqueue(t, f, job.Spec{Stage: "hash", InputRef: "data:,x", MaxAttempts: 2})
	c := claim(t, r, "hash")
	if err := r.Settle(t.Context(), c, job.FailedAfter("no luck", 300*time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	waiting, err := f.Get(t.Context(), j.ID)
	if err != nil || waiting.State != job.StateRetryWaiting {
		t.Fatalf("%+v, %v", waiting, err)
	}
	c = claim(t, r, "hash")
	if c.Job.Attempt != 2 || f.Now().Before(waiting.AvailableAt) {
		t.Fatalf("attempt %d at %s, available at %s", c.Job.Attempt, f.Now(), waiting.AvailableAt)
	}
	if err := r.Settle(t.Context(), c, job.Failed("no luck again")); err != nil {
		t.Fatal(err)
	}
	if j, _ = f.Wait(t.Context(), j.ID); j.State != job.StateFailed {
		t.Fatalf("state %s", j.State)
	}
}

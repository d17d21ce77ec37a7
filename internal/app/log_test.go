package app_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weft-fabric/weft/config"
	"github.com/weft-fabric/weft/internal/app"
	"github.com/weft-fabric/weft/internal/embed"
	"github.com/weft-fabric/weft/internal/natstest"
	"github.com/weft-fabric/weft/job"
	"github.com/weft-fabric/weft/worker"
)

// lines keeps the lines of a JSON log.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(line)
}

func (l *lines) all(t *testing.T) (all []map[string]any) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.text.String()) {
		var members map[string]any
		if err := json.Unmarshal([]byte(line), &members); err != nil {
			t.Fatalf("%q is no JSON: %v", line, err)
		}
		all = append(all, members)
	}
	return all
}

// TestLinesAboutAnAttemptSayWhich runs attempts that fail, panic, log, are cancelled
// and lose their worker, and looks for what identifies each in every line about one.
func TestLinesAboutAnAttemptSayWhich(t *testing.T) {
	t.Parallel()
	var log lines
	logger, err := app.NewLogger(&log, config.Log{Level: "info", Format: "json"})
	if err != nil {
		t.Fatal(err)
	}
	c := config.Default()
	c.Backoff = config.Backoff{Initial: time.Millisecond, Max: time.Millisecond, Factor: 1}
	c.Lease = time.Second
	a, err := app.Start(t.Context(), app.Options{Config: c, Logger: logger, Name: "test", Server: &embed.Options{}, Keep: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Stop(); err != nil {
			t.Error(err)
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()

	// A worker that claims a job and is never heard of again: its lease ends.
	silent, err := a.Fabric().Runner("silent")
	if err != nil {
		t.Fatal(err)
	}
	enqueue := func(id, stage string) {
		t.Helper()
		if _, err := a.Fabric().Enqueue(ctx, job.Spec{ID: id, Stage: stage, InputRef: "data:,x", MaxAttempts: 1}); err != nil {
			t.Fatal(err)
		}
	}
	enqueue("left", "left")
	if _, err := silent.Claim(ctx, "left", 1); err != nil {
		t.Fatal(err)
	}
	started := make(chan struct{}, 1)
	handler := worker.HandlerFunc(func(ctx context.Context, task *worker.Task) job.Outcome {
		switch task.Job().ID {
		case "logs":
			task.Log().Info("the handler's own line")
		case "panics":
			panic("oh")
		case "cancelled":
			started <- struct{}{}
			<-ctx.Done()
		}
		return job.Failed("no")
	})
	working, drain := context.WithCancel(ctx)
	worked := make(chan error, 1)
	go func() {
		worked <- a.Work(working, app.Work{Stage: "s", Handler: handler, WorkerID: "me", Grace: time.Second})
	}()
	for _, id := range []string{"logs", "panics", "cancelled"} {
		enqueue(id, "s")
	}
	select {
	case <-started:
	case <-ctx.Done():
		t.Fatal("the job to be cancelled was not begun")
	}
	if _, err := a.Fabric().Cancel(ctx, "cancelled", "no"); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"logs", "panics", "left"} {
		if j, err := a.Fabric().Wait(ctx, id); err != nil || j.State != job.StateFailed {
			t.Fatalf("%s is %s: %v", id, j.State, err)
		}
	}
	drain()
	if err := <-worked; err != nil {
		t.Fatal(err)
	}
	// What is said of an attempt, and of which.
	wanted := map[string]string{
		"the handler's own line": "logs", "attempt ended": "logs panics", "handler panicked": "panics",
		"outcome dropped": "cancelled", "claim is lost, stopping the handler": "cancelled", "lease expired": "left",
	}
	said := func() map[string]bool {
		found := map[string]bool{}
		for _, line := range log.all(t) {
			message, _ := line["msg"].(string)
			found[message] = true
		}
		return found
	}
	for message := range wanted { // a line may come after what it tells of
		natstest.Eventually(t, patience, "a line that says "+message, func() bool { return said()[message] })
	}
	for _, line := range log.all(t) {
		message, _ := line["msg"].(string)
		about, ofOne := wanted[message]
		if _, hasFence := line["fence"]; !ofOne && !hasFence {
			continue
		}
		id, _ := line["job"].(string)
		stage, _ := line["stage"].(string)
		by, _ := line["worker"].(string)
		holder := "me"
		if id == "left" {
			holder = "silent"
		}
		if id == "" || !strings.Contains(about, id) || stage == "" || line["attempt"] != 1.0 || line["fence"] != 1.0 || by != holder {
			t.Errorf("a line about an attempt of %q is %v", about, line)
		}
	}
}

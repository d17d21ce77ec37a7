package metrics_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/weft-fabric/weft/fabric"
	"github.com/weft-fabric/weft/internal/metrics"
	"github.com/weft-fabric/weft/internal/natstest"
	"github.com/weft-fabric/weft/job"
	"github.com/weft-fabric/weft/worker"
)

const patience = 30 * time.Second

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve serves metrics for one test.
func serve(t *testing.T, m *metrics.Metrics, healthy func() error) *metrics.Server {
	t.Helper()
	s, err := m.Serve("127.0.0.1:0", healthy, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return s
}

// get asks a path of the server.
func get(t *testing.T, s *metrics.Server, path string) (int, string) {
	t.Helper()
	client := http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Get(s.URL() + path)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(text)
}

// wants reports the samples that a scrape does not have.
func wants(scrape string, samples ...string) (missing []string) {
	for _, sample := range samples {
		if !strings.Contains("\n"+scrape, "\n"+sample+"\n") {
			missing = append(missing, sample)
		}
	}
	return missing
}

// TestScrape runs jobs of every kind of end on a real server, and reads what a scrape
// has of them.
func TestScrape(t *testing.T) {
	t.Parallel()
	m := metrics.New("1.2.3")
	s := serve(t, m, func() error { return nil })
	nc := natstest.Conn(t)
	f, err := fabric.Open(t.Context(), nc, fabric.Options{Observer: m})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	m.Connection(nc.IsConnected, func() uint64 { return nc.Stats().Reconnects })
	m.Loads(func(ctx context.Context) (fabric.Loads, error) { return f.Loads(ctx) }, f.Now)

	ctx, stop := context.WithCancel(t.Context())
	keeping, working := make(chan error, 1), make(chan error, 1)
	go func() { keeping <- f.Keep(ctx) }()
	r, err := f.Runner("me")
	if err != nil {
		t.Fatal(err)
	}
	o := worker.DefaultOptions()
	o.Logger, o.Concurrency, o.Hooks = slog.New(slog.DiscardHandler), 4, m.Worker("s", 4)
	w, err := worker.New(r, o)
	if err != nil {
		t.Fatal(err)
	}
	err = w.Handle("s", worker.HandlerFunc(func(_ context.Context, task *worker.Task) job.Outcome {
		if task.Job().InputRef == "bad" {
			return job.Discarded("bad")
		}
		if task.Job().InputRef == "twice" && task.Job().Attempt == 1 {
			return job.FailedAfter("once more", 0)
		}
		return job.Completed("data:,done")
	}))
	if err != nil {
		t.Fatal(err)
	}
	// Before there is a worker, so that d has to wait for c.
	for _, spec := range []job.Spec{
		{ID: "a", Stage: "s", InputRef: "good"}, {ID: "b", Stage: "s", InputRef: "bad"},
		{ID: "c", Stage: "s", InputRef: "twice"}, {ID: "d", Stage: "s", InputRef: "good", Dependencies: []string{"c"}},
		{ID: "e", Stage: "other", InputRef: "good"},
	} {
		if _, err := f.Enqueue(ctx, spec); err != nil {
			t.Fatal(err)
		}
	}
	go func() { working <- w.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		for _, err := range []error{<-keeping, <-working, r.Close()} {
			if err != nil {
				t.Error(err)
			}
		}
	})
	for _, id := range []string{"a", "b", "c", "d"} {
		if _, err := f.Wait(ctx, id); err != nil {
			t.Fatal(err)
		}
	}
	var scrape string
	var missing []string
	defer func() {
		if len(missing) > 0 {
			t.Errorf("the scrape has no %q", missing)
		}
	}()
	natstest.Eventually(t, patience, "a scrape with everything", func() bool {
		_, scrape = get(t, s, "/metrics")
		missing = wants(scrape,
			`weft_jobs_finished_total{outcome="succeeded",stage="s"} 3`,
			`weft_jobs_finished_total{outcome="failed",stage="s"} 1`,
			`weft_jobs_finished_total{outcome="cancelled",stage="s"} 0`,
			`weft_attempt_duration_seconds_count{outcome="failed",stage="s"} 2`,
			`weft_attempt_duration_seconds_count{outcome="succeeded",stage="s"} 3`,
			`weft_job_wait_seconds_count{stage="s"} 5`,
			`weft_claims_total{stage="s"} 5`,
			`weft_attempts_running{stage="s"} 0`,
			`weft_worker_slots{stage="s"} 4`,
			`weft_jobs{stage="s",state="waiting"} 0`,
			`weft_jobs{stage="s",state="succeeded"} 3`,
			`weft_jobs{stage="s",state="failed"} 1`,
			`weft_jobs{stage="other",state="waiting"} 1`,
			`weft_stage_workers{stage="other"} 0`,
			`weft_stage_up{stage="s"} 1`,
			`weft_keeper_elected 1`,
			`weft_keeper_leading 1`,
			`weft_keeper_actions_total{action="dependent_released"} 1`,
			`weft_connection_up 1`,
			`weft_fabric_up 1`,
		)
		return len(missing) == 0
	})
	if strings.Contains(scrape, `"me"`) {
		t.Error("a worker's id is a label")
	}
	if !strings.Contains(scrape, `weft_build_info{goversion="go`) || !strings.Contains(scrape, "go_goroutines ") {
		t.Error("no build, or nothing of Go")
	}
	promtool(t, "", scrape, "check", "metrics")
}

func TestScrapeOfAServerThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	m := metrics.New("test")
	s := serve(t, m, func() error { return errors.New("not connected: RECONNECTING") })
	asked := 0
	m.Loads(func(ctx context.Context) (fabric.Loads, error) {
		asked++
		if _, bounded := ctx.Deadline(); !bounded {
			t.Error("the question is not bounded")
		}
		return fabric.Loads{}, context.DeadlineExceeded
	}, time.Now)
	code, scrape := get(t, s, "/metrics")
	if missing := wants(scrape, "weft_fabric_up 0", "weft_keeper_leading 0"); code != http.StatusOK || missing != nil {
		t.Errorf("code %d, without %q", code, missing)
	}
	if strings.Contains(scrape, "weft_keeper_elected") {
		t.Error("it says what it does not know")
	}
	if get(t, s, "/metrics"); asked != 1 {
		t.Errorf("two scrapes at once have asked %d times", asked)
	}
	if code, text := get(t, s, "/healthz"); code != http.StatusServiceUnavailable || !strings.Contains(text, "RECONNECTING") {
		t.Errorf("healthz: %d %q", code, text)
	}
}

func TestAnAddressThatIsTaken(t *testing.T) {
	t.Parallel()
	s := serve(t, metrics.New("test"), func() error { return nil })
	address := strings.TrimPrefix(s.URL(), "http://")
	_, err := metrics.New("test").Serve(address, nil, slog.New(slog.DiscardHandler))
	if err == nil || !strings.Contains(err.Error(), address) || !strings.Contains(err.Error(), "metrics") {
		t.Errorf("got %v", err)
	}
	if code, text := get(t, s, "/healthz"); code != http.StatusOK || text != "ok\n" {
		t.Errorf("healthz: %d %q", code, text)
	}
}

package app_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weft-fabric/weft/config"
	"github.com/weft-fabric/weft/fabric"
	"github.com/weft-fabric/weft/internal/app"
	"github.com/weft-fabric/weft/internal/embed"
	"github.com/weft-fabric/weft/internal/topology"
	"github.com/weft-fabric/weft/job"
	"github.com/weft-fabric/weft/worker"
)

const patience = 20 * time.Second

var quiet = slog.New(slog.DiscardHandler)

func TestExitCodes(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		err  error
		want int
	}{
		{nil, app.ExitDone},
		{errors.New("anything"), app.ExitFailed},
		{context.Canceled, app.ExitFailed},
		{&app.QuietError{Code: 3}, 3},
		{errors.Join(errors.New("stop"), &app.QuietError{Code: 1}), app.ExitFailed},
		{app.Usage("wrong flag"), app.ExitUsage},
		{app.Usage("wrapped: %w", job.ErrMissingJob), app.ExitUsage},
		{job.Invalid("no stage"), app.ExitUsage},
		{fmt.Errorf("get: %w", &job.Error{Code: job.CodeMissingJob, JobID: "x"}), app.ExitNotFound},
		{fmt.Errorf("output: %w", fabric.ErrAbsent), app.ExitNotFound},
		{fabric.ErrUnopenable, app.ExitFailed},
		{job.ErrDuplicateJob, app.ExitRefused},
		{job.ErrTerminalJob, app.ExitRefused},
		{job.ErrNotFailed, app.ExitRefused},
		{fmt.Errorf("open: %w", &topology.DriftError{}), app.ExitRefused},
		{&app.ServerError{Err: errors.New("none")}, app.ExitNoServer},
		{fmt.Errorf("open: %w", &fabric.ServerError{Reason: "too old", Err: errors.New("old")}), app.ExitNoServer},
		{nats.ErrNoServers, app.ExitNoServer},
		{&jetstream.APIError{Code: 503, ErrorCode: 10008}, app.ExitNoServer},
		{&jetstream.APIError{Code: 503, ErrorCode: 10023}, app.ExitFailed},
		{nats.ErrNoResponders, app.ExitNoServer},
		{fmt.Errorf("get: %w", nats.ErrTimeout), app.ExitNoServer},
		{context.DeadlineExceeded, app.ExitNoServer},
		{jetstream.ErrJetStreamNotEnabled, app.ExitNoServer},
		{&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, app.ExitNoServer},
	} {
		if got := app.ExitCode(test.err); got != test.want {
			t.Errorf("%v: exit %d, want %d", test.err, got, test.want)
		}
	}
}

func TestLineIsOneLine(t *testing.T) {
	t.Parallel()
	if got := app.Line(errors.Join(errors.New("a\nb"), errors.New("c"))); got != "a; b; c" {
		t.Errorf("got %q", got)
	}
}

func TestLoggerFollowsTheSettings(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log, err := app.NewLogger(&out, config.Log{Level: "info", Format: "json"})
	if err != nil {
		t.Fatal(err)
	}
	log.Debug("hidden")
	log.Info("seen")
	if got := out.String(); strings.Contains(got, "hidden") || !strings.HasPrefix(got, "{") || !strings.Contains(got, "seen") {
		t.Errorf("got %q", got)
	}
	if _, err := app.NewLogger(&out, config.Log{Level: "loud"}); err == nil {
		t.Error("level loud was accepted")
	}
}

// freeAddress is an address that nothing listens on.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func TestNoServer(t *testing.T) {
	t.Parallel()
	address := freeAddress(t)
	began := time.Now()
	_, err := app.Connect(config.Connection{Server: "nats://user:secret@" + address}, "weft", "test", quiet)
	if app.ExitCode(err) != app.ExitNoServer || !strings.Contains(err.Error(), address) || !strings.Contains(err.Error(), "weft serve") {
		t.Errorf("got %v", err)
	}
	if strings.Contains(err.Error(), "secret") {
		t.Errorf("%q shows the password", err)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("it took %s", took)
	}
}

// plainServer runs a server without JetStream.
func plainServer(t *testing.T, o *server.Options) *server.Server {
	t.Helper()
	o.Host, o.Port, o.NoSigs, o.NoLog = "127.0.0.1", -1, true, true
	s, err := server.NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	go s.Start()
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	if !s.ReadyForConnections(patience) {
		t.Fatal("the server did not get ready")
	}
	return s
}

func TestServerWithoutJetStream(t *testing.T) {
	t.Parallel()
	s := plainServer(t, &server.Options{})
	c := config.Default()
	c.Connection.Server = s.ClientURL()
	_, err := app.Start(t.Context(), app.Options{Config: c, Logger: quiet, Name: "test"})
	if app.ExitCode(err) != app.ExitNoServer || !strings.Contains(err.Error(), "JetStream") {
		t.Errorf("got %v", err)
	}
}

func TestIdentities(t *testing.T) {
	t.Parallel()
	withUser := plainServer(t, &server.Options{Username: "u", Password: "p"})
	withToken := plainServer(t, &server.Options{Authorization: "token"})
	for _, test := range []struct {
		c    config.Connection
		code int
	}{
		{config.Connection{Server: withUser.ClientURL(), User: "u", Password: "p"}, app.ExitDone},
		{config.Connection{Server: withUser.ClientURL(), User: "u", Password: "q"}, app.ExitNoServer},
		{config.Connection{Server: withUser.ClientURL()}, app.ExitNoServer},
		{config.Connection{Server: withToken.ClientURL(), User: "token"}, app.ExitDone},
		{config.Connection{Server: withUser.ClientURL(), NKey: "/no/such"}, app.ExitUsage},
	} {
		nc, err := app.Connect(test.c, "weft", "test", quiet)
		if nc != nil {
			nc.Close()
		}
		if app.ExitCode(err) != test.code {
			t.Errorf("%+v: %v", test.c, err)
		}
	}
}

// contexts makes a home of the nats program with one context, and selects it.
func contexts(t *testing.T, name, url string) {
	t.Helper()
	home := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", home)
	dir := filepath.Join(home, "nats", "context")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string]string{
		filepath.Join(dir, name+".json"):           fmt.Sprintf(`{"url":%q,"user":"u","password":"p"}`, url),
		filepath.Join(home, "nats", "context.txt"): name,
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestNATSContexts(t *testing.T) {
	s := plainServer(t, &server.Options{Username: "u", Password: "p"})
	contexts(t, "ours", s.ClientURL())
	for name, test := range map[string]struct {
		c    config.Connection
		code int
	}{
		"selected":         {config.Connection{}, app.ExitDone},
		"named":            {config.Connection{Context: "ours"}, app.ExitDone},
		"flags win":        {config.Connection{Context: "ours", User: "x", Password: "y"}, app.ExitNoServer},
		"server wins":      {config.Connection{Context: "ours", Server: freeAddress(t)}, app.ExitNoServer},
		"server alone":     {config.Connection{Server: s.ClientURL()}, app.ExitNoServer}, // the context's user is not for it
		"unknown":          {config.Connection{Context: "other"}, app.ExitUsage},
		"server given too": {config.Connection{Context: "ours", Server: s.ClientURL()}, app.ExitDone},
	} {
		nc, err := app.Connect(test.c, "weft", "test", quiet)
		if nc != nil {
			nc.Close()
		}
		if app.ExitCode(err) != test.code {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// embedded starts a whole process in a temporary directory.
func embedded(t *testing.T, o embed.Options) *app.App {
	t.Helper()
	a, err := app.Start(t.Context(), app.Options{Config: config.Default(), Logger: quiet, Name: "test", Server: &o, Keep: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Stop(); err != nil {
			t.Error(err)
		}
	})
	return a
}

func TestJobGoesThrough(t *testing.T) {
	t.Parallel()
	a := embedded(t, embed.Options{})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	j, err := a.Fabric().Enqueue(ctx, job.Spec{Stage: "s", InputRef: "data:,x"})
	if err != nil {
		t.Fatal(err)
	}
	working, drain := context.WithCancel(ctx)
	worked := make(chan error, 1)
	go func() {
		h := worker.HandlerFunc(func(context.Context, *worker.Task) job.Outcome { return job.CompletedWith([]byte("y")) })
		worked <- a.Work(working, app.Work{Stage: "s", Handler: h, WorkerID: "me"})
	}()
	j, err = a.Fabric().Wait(ctx, j.ID)
	if err != nil || j.State != job.StateSucceeded || j.AttemptsLog[0].Worker != "me" {
		t.Fatalf("%+v, %v", j, err)
	}
	out, err := a.Fabric().Output(ctx, j)
	if err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(out); string(text) != "y" || err != nil {
		t.Errorf("output %q, %v", text, err)
	}
	drain()
	if err := <-worked; err != nil {
		t.Errorf("work: %v", err)
	}
}

func TestAbortCancelsWhatRuns(t *testing.T) {
	t.Parallel()
	a := embedded(t, embed.Options{})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	j, err := a.Fabric().Enqueue(ctx, job.Spec{Stage: "s", InputRef: "data:,x"})
	if err != nil {
		t.Fatal(err)
	}
	working, drain := context.WithCancel(ctx)
	abort, started, worked := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		h := worker.HandlerFunc(func(ctx context.Context, _ *worker.Task) job.Outcome {
			close(started)
			<-ctx.Done()
			return job.Failed("stopped")
		})
		worked <- a.Work(working, app.Work{Stage: "s", Handler: h, Abort: abort})
	}()
	<-started
	drain()
	close(abort)
	if err := <-worked; err != nil {
		t.Errorf("work: %v", err)
	}
	if j, err = a.Fabric().Get(ctx, j.ID); err != nil || j.State != job.StateWaiting || j.Attempt != 0 {
		t.Errorf("the job is %s at attempt %d, %v; want waiting, not charged", j.State, j.Attempt, err)
	}
}

func TestAStartThatFailsLeavesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := config.Default()
	c.Replicas = 3 // one server cannot keep three copies
	if _, err := app.Start(t.Context(), app.Options{Config: c, Logger: quiet, Name: "test", Server: &embed.Options{DataDir: dir}}); err == nil {
		t.Fatal("it started")
	}
	embedded(t, embed.Options{DataDir: dir}) // the directory is free
}

func TestStopTwice(t *testing.T) {
	t.Parallel()
	a := embedded(t, embed.Options{})
	if err := a.Stop(); err != nil {
		t.Error(err)
	}
}

func TestSignals(t *testing.T) {
	ctx, second, stop := app.Signals(t.Context())
	defer stop()
	send := func() {
		if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
	}
	sent := time.Now()
	send()
	send() // as timeout(1) does: the process, then its group
	<-ctx.Done()
	if !errors.Is(context.Cause(ctx), app.ErrSignal) {
		t.Errorf("cause is %v", context.Cause(ctx))
	}
	select {
	case <-second:
		t.Error("the second signal came first")
	default:
	}
	for time.Since(sent) < 100*time.Millisecond { // what comes sooner is the same signal
		runtime.Gosched()
	}
	select {
	case <-second:
		t.Error("one signal sent twice counts as two")
	default:
	}
	send()
	select {
	case <-second:
	case <-time.After(patience):
		t.Error("the second signal was not seen")
	}
}

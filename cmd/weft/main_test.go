package main

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/weft-fabric/weft/config"
	"github.com/weft-fabric/weft/fabric"
	"github.com/weft-fabric/weft/internal/app"
	"github.com/weft-fabric/weft/internal/embed"
	"github.com/weft-fabric/weft/job"
)

// patience bounds every wait of these tests.
const patience = 40 * time.Second

// asProgram makes this test binary be the program, so that tests can signal and
// kill it.
const asProgram = "WEFT_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asFetcher) != "" {
		fetchInput()
	}
	if os.Getenv(asProgram) != "" {
		main()
	}
	os.Exit(withCleanEnvironment(m.Run))
}

// withCleanEnvironment hides the settings and nats contexts of whoever runs the
// tests.
func withCleanEnvironment(run func() int) int {
	for _, pair := range os.Environ() {
		name, _, _ := strings.Cut(pair, "=")
		if strings.HasPrefix(name, "NATS_") || strings.HasPrefix(name, "WEFT_") || strings.HasPrefix(name, "AWS_") || strings.HasPrefix(name, "OTEL_") || strings.HasPrefix(name, "TRACE") {
			_ = os.Unsetenv(name)
		}
	}
	home, err := os.MkdirTemp("", "weft-home-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(home)
	_ = os.Setenv("XDG_CONFIG_HOME", home)
	return run()
}

// result is what a call of the program gave.
type result struct {
	code     int
	out, err string
}

// weft calls the program in this process.
func weft(t *testing.T, stdin string, args ...string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var out, err syncBuffer
	code := Execute(ctx, args, Streams{In: strings.NewReader(stdin), Out: &out, Err: &err})
	return result{code, out.String(), err.String()}
}

// want fails unless the call ended with the code, and stderr has all the parts.
func (r result) want(t *testing.T, code int, parts ...string) result {
	t.Helper()
	if r.code != code {
		t.Errorf("exit %d, want %d\nstdout: %s\nstderr: %s", r.code, code, r.out, r.err)
	}
	for _, part := range parts {
		if !strings.Contains(r.err, part) {
			t.Errorf("stderr does not contain %q:\n%s", part, r.err)
		}
	}
	if code != app.ExitDone && code != app.ExitFailed && strings.Count(r.err, "\n") == 0 {
		t.Errorf("exit %d without a word", code)
	}
	return r
}

// lines are the lines of stdout.
func (r result) lines() []string { return strings.Split(strings.TrimSuffix(r.out, "\n"), "\n") }

// site is a server for one test, and a fabric to look into it.
type site struct {
	url    string
	fabric *fabric.Fabric
	conn   *nats.Conn
}

func newSite(t *testing.T) *site {
	t.Helper()
	server := embed.New(embed.Options{Listen: true, Port: -1})
	if err := server.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	s := &site{url: server.ClientURL()}
	s.connect(t, server.InProcess())
	return s
}

func (s *site) connect(t *testing.T, options ...nats.Option) {
	t.Helper()
	nc, err := nats.Connect(s.url, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	f, err := fabric.Open(t.Context(), nc, app.FabricOptions(config.Default(), slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	s.fabric, s.conn = f, nc
}

// weft calls the program on the site's server.
func (s *site) weft(t *testing.T, args ...string) result {
	t.Helper()
	return weft(t, "", s.args(args)...)
}

// args adds the server before a "--".
func (s *site) args(args []string) []string {
	for i, arg := range args {
		if arg == "--" {
			return append(append(append([]string{}, args[:i]...), "--server", s.url), args[i:]...)
		}
	}
	return append(append([]string{}, args...), "--server", s.url)
}

func (s *site) get(t *testing.T, id string) job.Job {
	t.Helper()
	j, err := s.fabric.Get(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// process is the program in a process of its own.
type process struct {
	t        *testing.T
	cmd      *exec.Cmd
	out, err syncBuffer
	ended    chan struct{}
}

// asProcess is the program in a process that has not begun.
func asProcess(args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), asProgram+"=1")
	return cmd
}

func spawn(t *testing.T, args ...string) *process {
	t.Helper()
	return spawnWith(t, nil, args...)
}

// spawnWith starts the program with more in its environment.
func spawnWith(t *testing.T, env []string, args ...string) *process {
	t.Helper()
	p := &process{t: t, cmd: asProcess(args...), ended: make(chan struct{})}
	p.cmd.Env = append(p.cmd.Env, env...)
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.err
	p.cmd.WaitDelay = patience
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = p.cmd.Wait() // the state says how it ended
		close(p.ended)
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // it may have ended
		<-p.ended
	})
	return p
}

func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatalf("signal: %v\n%s", err, p.err.String())
	}
}

// wait waits for the end.
// signalAgain sends a second signal, late enough not to be taken for the first.
func (p *process) signalAgain(t *testing.T, s syscall.Signal) {
	t.Helper()
	began := time.Now()
	poll(t, "a moment to pass", func() bool { return time.Since(began) > 100*time.Millisecond })
	p.signal(s)
}

func (p *process) wait() result {
	p.t.Helper()
	select {
	case <-p.ended:
	case <-time.After(patience):
		p.t.Fatalf("%v did not end\n%s", p.cmd.Args, p.err.String())
	}
	return result{p.cmd.ProcessState.ExitCode(), p.out.String(), p.err.String()}
}

// url waits for the line with which weft serve says where it is.
func (p *process) url() string {
	p.t.Helper()
	var url string
	poll(p.t, "the server's URL", func() bool {
		select {
		case <-p.ended:
			p.t.Fatalf("%v ended\n%s", p.cmd.Args, p.err.String())
		default:
		}
		line, _, ok := strings.Cut(p.out.String(), "\n")
		url = line
		return ok
	})
	return url
}

// poll waits until something holds.
func poll(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); <-time.After(5 * time.Millisecond) {
		if holds() {
			return
		}
	}
	t.Fatalf("no %s in %s", what, patience)
}

// linesOf reads a file's whole lines; a file that is not there has none.
func linesOf(path string) []string {
	text, _ := os.ReadFile(path)
	whole := string(text[:bytes.LastIndexByte(text, '\n')+1])
	return strings.Fields(whole)
}

func writeFile(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// syncBuffer is a buffer that several goroutines may write.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

package noderunner_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/weft-fabric/weft/fabric"
	"github.com/weft-fabric/weft/internal/natstest"
	"github.com/weft-fabric/weft/job"
	"github.com/weft-fabric/weft/worker"
)

// patience is how long anything may take on a machine that is busy otherwise.
const patience = 60 * time.Second

const stage = "mixed"

// installed is the copy of this folder with its npm packages, made once.
var installed struct {
	once sync.Once
	dir  string
	err  error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if installed.dir != "" {
		os.RemoveAll(installed.dir)
	}
	os.Exit(code)
}

// install gives the folder that the runner can be started in.
func install(t *testing.T) string {
	t.Helper()
	for _, program := range []string{"node", "npm"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("%s is not on the PATH; the JavaScript runner needs Node.js 20 or newer with npm", program)
		}
	}
	installed.once.Do(func() { installed.dir, installed.err = copyWithPackages() })
	if installed.err != nil {
		t.Fatal(installed.err)
	}
	return installed.dir
}

func copyWithPackages() (string, error) {
	dir, err := os.MkdirTemp("", "weft-node-runner")
	if err != nil {
		return "", err
	}
	err = filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.Name() == "node_modules":
			return filepath.SkipDir
		case entry.IsDir():
			return os.MkdirAll(filepath.Join(dir, path), 0o700)
		case filepath.Ext(path) == ".go":
			return nil
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(dir, path), content, 0o600)
	})
	if err != nil {
		return dir, err
	}
	npm := exec.Command("npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts", "--prefer-offline")
	npm.Dir = dir
	if out, err := npm.CombinedOutput(); err != nil {
		return dir, fmt.Errorf("npm ci: %w\n%s", err, out)
	}
	return dir, nil
}

// bench is one server with a fabric and its keeper.
type bench struct {
	*testing.T
	dir    string
	server *natstest.Server
	nc     *nats.Conn
	fabric *fabric.Fabric
}

func setup(t *testing.T, lease time.Duration) *bench {
	t.Helper()
	b := &bench{T: t, dir: install(t), server: natstest.Start(t)}
	b.nc = b.server.Connect()
	ctx, cancel := context.WithCancel(context.Background())
	f, err := fabric.Open(ctx, b.nc, fabric.Options{Stage: fabric.StageSettings{Lease: lease}})
	if err != nil {
		t.Fatal(err)
	}
	b.fabric = f
	if _, err := f.Stage(ctx, stage); err != nil {
		t.Fatal(err)
	}
	kept := make(chan error)
	go func() { kept <- f.Keep(ctx) }()
	t.Cleanup(func() {
		cancel()
		<-kept
		f.Close()
	})
	return b
}

// node is a runner's process.
type node struct {
	b      *bench
	id     string
	cmd    *exec.Cmd
	log    bytes.Buffer // complete once ended is closed
	ended  chan struct{}
	result error // set when ended is closed
}

func (b *bench) start(id string, args ...string) *node {
	b.Helper()
	n := &node{b: b, id: id, ended: make(chan struct{})}
	args = append([]string{"runner.mjs", stage, "testdata/work.mjs", "--server", b.server.URL(), "--id", id}, args...)
	n.cmd = exec.Command("node", args...)
	n.cmd.Dir = b.dir
	n.cmd.Stdout, n.cmd.Stderr = &n.log, &n.log
	if err := n.cmd.Start(); err != nil {
		b.Fatal(err)
	}
	go func() {
		n.result = n.cmd.Wait()
		close(n.ended)
	}()
	b.Cleanup(func() {
		n.signal(syscall.SIGKILL)
		<-n.ended
		if b.Failed() {
			b.Logf("runner %s wrote:\n%s", id, n.log.String())
		}
	})
	natstest.Eventually(b, patience, "runner "+id+" is known", n.known)
	return n
}

// known reports whether the runner has made itself known.
func (n *node) known() bool {
	select {
	case <-n.ended:
		n.b.Fatalf("runner %s ended early: %v", n.id, n.result)
	default:
	}
	for p, err := range n.b.fabric.Workers(n.b.Context()) {
		if err == nil && p.ID == n.id {
			return true
		}
	}
	return false
}

func (n *node) signal(s syscall.Signal) {
	if err := n.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		n.b.Errorf("signal %s to %s: %v", s, n.id, err)
	}
}

// terminated sends SIGTERM and waits until the process has ended well.
func (n *node) terminated() {
	n.b.Helper()
	n.signal(syscall.SIGTERM)
	select {
	case <-n.ended:
		if n.result != nil {
			n.b.Errorf("runner %s ended with %v", n.id, n.result)
		}
	case <-time.After(patience):
		n.b.Fatalf("runner %s did not end", n.id)
	}
}

// startGo runs a Go worker on the same stage until the returned function is called.
func (b *bench) startGo(id string, slots int, takes time.Duration) (stop func()) {
	b.Helper()
	runner, err := b.fabric.Runner(id)
	if err != nil {
		b.Fatal(err)
	}
	options := worker.DefaultOptions()
	options.Concurrency = slots
	w, err := worker.New(runner, options)
	if err != nil {
		b.Fatal(err)
	}
	err = w.Handle(stage, worker.HandlerFunc(func(context.Context, *worker.Task) job.Outcome {
		<-time.After(takes)
		return job.CompletedWith([]byte("go"))
	}))
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	return sync.OnceFunc(func() {
		cancel()
		if err := errors.Join(<-ended, runner.Close()); err != nil {
			b.Errorf("Go worker: %v", err)
		}
	})
}

func (b *bench) enqueue(spec job.Spec) {
	b.Helper()
	spec.Stage = stage
	if spec.InputRef == "" {
		spec.InputRef = "data:,"
	}
	if _, err := b.fabric.Enqueue(b.Context(), spec); err != nil {
		b.Fatal(err)
	}
}

// bare publishes an item as somebody without a client library would.
func (b *bench) bare(id, body string) {
	b.Helper()
	if _, err := b.nc.Request("weft.work."+stage+"."+id, []byte(body), patience); err != nil {
		b.Fatal(err)
	}
}

func (b *bench) get(id string) job.Job {
	b.Helper()
	j, err := b.fabric.Get(b.Context(), id)
	if err != nil {
		b.Fatal(err)
	}
	return j
}

// ends waits for a job's end, and for its record before that.
func (b *bench) ends(id string) job.Job {
	b.Helper()
	natstest.Eventually(b, patience, id+" has a record", func() bool {
		_, err := b.fabric.Get(b.Context(), id)
		return err == nil
	})
	ctx, cancel := context.WithTimeout(b.Context(), patience)
	defer cancel()
	j, err := b.fabric.Wait(ctx, id)
	if err != nil {
		b.Fatalf("wait for %s, which is %s: %v", id, b.get(id).State, err)
	}
	return j
}

func (b *bench) jobs(state ...job.State) []job.Job {
	b.Helper()
	var jobs []job.Job
	for j, err := range b.fabric.List(b.Context(), fabric.Filter{}) {
		if err != nil {
			b.Fatal(err)
		}
		if slices.Contains(state, j.State) {
			jobs = append(jobs, j)
		}
	}
	return jobs
}

// hangs waits until the test's handler has a job and says that it hangs.
func (b *bench) hangs(id string) {
	b.Helper()
	natstest.Eventually(b, patience, id+" hangs", func() bool {
		j := b.get(id)
		return j.State == job.StateLeased && string(j.Progress) == `"hanging"`
	})
}

// emptied waits until the stage's work stream holds nothing.
func (b *bench) emptied() {
	b.Helper()
	natstest.Eventually(b, patience, "the work stream is empty", func() bool {
		js, err := b.nc.JetStream()
		if err != nil {
			b.Fatal(err)
		}
		info, err := js.StreamInfo("WEFT_" + stage)
		return err == nil && info.State.Msgs == 0
	})
}

// heard waits for what the test's handler was told when it was stopped.
func (b *bench) heard(id string) string {
	b.Helper()
	path := filepath.Join(b.dir, "heard-"+id)
	b.Cleanup(func() { os.Remove(path) })
	var text []byte
	natstest.Eventually(b, patience, "the handler of "+id+" is stopped", func() bool {
		text, _ = os.ReadFile(path)
		return len(text) > 0
	})
	return string(text)
}

func (b *bench) wantLog(j job.Job, want string) {
	b.Helper()
	var lines []string
	for _, a := range j.AttemptsLog {
		lines = append(lines, fmt.Sprintf("%d/%d %s %s", a.Number, a.Fence, a.Worker, a.Outcome))
	}
	if got := strings.Join(lines, ", "); got != want {
		b.Errorf("%s has the attempts %s, want %s", j.ID, got, want)
	}
}

func (b *bench) wantOutput(j job.Job, want string) {
	b.Helper()
	if ref := "data:text/plain;charset=utf-8," + want; j.State != job.StateSucceeded || j.OutputRef != ref {
		b.Errorf("%s is %s (%s) with output %q, want %q", j.ID, j.State, j.Reason, j.OutputRef, ref)
	}
}

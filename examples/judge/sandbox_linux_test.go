package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vincent-petithory/dataurl"
	"golang.org/x/sys/unix"
)

// testProblem makes a problems directory with the problem "test" in it.
func testProblem(t *testing.T, answer string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"problem.json": `{"title":"test","time_limit_ms":60000,"memory_limit_mib":256,"checker":"exact"}`,
		"01.in":        "",
		"01.ans":       answer,
	} {
		path := filepath.Join(dir, "test", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func goRecord(t *testing.T, source string) string {
	t.Helper()
	rec, err := json.Marshal(map[string]any{
		"input_ref": dataurl.EncodeBytes([]byte(source)),
		"payload":   map[string]string{"problem": "test", "language": "go"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return string(rec)
}

// TestConfinement lets a submission say what it finds itself in.
func TestConfinement(t *testing.T) {
	const source = `package main

import (
	"fmt"
	"os"
	"syscall"
)

func hard(resource int) uint64 {
	var limit syscall.Rlimit
	syscall.Getrlimit(resource, &limit)
	return limit.Max
}

func main() {
	files, _ := os.ReadDir(".")
	fmt.Println("environment", len(os.Environ()), "files", len(files))
	fmt.Println("leads its group", syscall.Getpgrp() == os.Getpid())
	fmt.Println("core", hard(syscall.RLIMIT_CORE), "cpu", hard(syscall.RLIMIT_CPU))
	fmt.Println("file", hard(syscall.RLIMIT_FSIZE), "open", hard(syscall.RLIMIT_NOFILE), "data", hard(syscall.RLIMIT_DATA))
}
`
	answer := "environment 0 files 0\nleads its group true\ncore 0 cpu 62\n" +
		fmt.Sprintf("file %d open %d data %d\n", outputLimitBytes, maxOpenFiles, (2*256+64+512)<<20)
	got := finish(t, judgeCommand(t, goRecord(t, source), "-problems", testProblem(t, answer)))
	wantVerdict(t, got, accepted)
}

// lingering is a submission that opens the named pipe, says so in it and then
// waits. With a child it starts itself once more.
const lingering = `package main

import (
	"fmt"
	"os"
	"time"
)

func main() {
	child := len(os.Args) > 1
	if !child && %t {
		if _, err := os.StartProcess("/proc/self/exe", []string{"x", "child"}, &os.ProcAttr{}); err != nil {
			panic(err)
		}
	}
	pipe, err := os.OpenFile(%s, os.O_WRONLY, 0)
	if err != nil {
		panic(err)
	}
	pipe.WriteString("x")
	<-time.After(time.Hour)
	fmt.Fprint(pipe)
}
`

// TestSignalsReachTheSubmission ends the judge while a submission runs. The
// processes of the submission hold a pipe open, whose end tells without any
// doubt that none of them is left.
func TestSignalsReachTheSubmission(t *testing.T) {
	tests := map[string]struct {
		signal    syscall.Signal
		withChild bool
		code      int // -1 stands for death by the signal
	}{
		"SIGTERM ends the whole group": {syscall.SIGTERM, true, exitStopped},
		"SIGINT does so too":           {syscall.SIGINT, true, exitStopped},
		"SIGKILL ends the leader":      {syscall.SIGKILL, false, -1},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "pipe")
			pipe := openPipe(t, path)
			source := fmt.Sprintf(lingering, test.withChild, strconv.Quote(path))
			cmd := judgeCommand(t, goRecord(t, source), "-problems", testProblem(t, ""))
			var stderr strings.Builder
			cmd.Stderr = &stderr
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			processes := 1
			if test.withChild {
				processes = 2
			}
			eventually(t, "the submission runs", func() bool { return pipe.received(t) >= processes })
			if err := cmd.Process.Signal(test.signal); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait() // the exit code is looked at instead
			if code := cmd.ProcessState.ExitCode(); code != test.code {
				t.Errorf("exit %d, want %d; stderr %q", code, test.code, stderr.String())
			}
			eventually(t, "no process holds the pipe", func() bool { return pipe.closed(t) })
			if test.signal != syscall.SIGKILL {
				checkNothingLeft(t, cmd)
			}
		})
	}
}

// pipeReader reads a named pipe without ever waiting.
type pipeReader struct {
	fd    int
	count int
}

func openPipe(t *testing.T, path string) *pipeReader {
	t.Helper()
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	return &pipeReader{fd: fd}
}

// received is how many bytes came so far.
func (p *pipeReader) received(t *testing.T) int {
	t.Helper()
	p.closed(t)
	return p.count
}

// closed tells whether no process has the pipe open for writing.
func (p *pipeReader) closed(t *testing.T) bool {
	t.Helper()
	var buffer [16]byte
	n, err := unix.Read(p.fd, buffer[:])
	switch {
	case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EINTR):
		return false
	case err != nil:
		t.Fatal(err)
	}
	p.count += n
	return n == 0
}

// eventually polls until the condition holds. Its deadline is for a test that
// would never end and says nothing of how long things should take.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	deadline := time.After(2 * time.Minute)
	poll := time.NewTicker(5 * time.Millisecond)
	defer poll.Stop()
	for !holds() {
		select {
		case <-deadline:
			t.Fatalf("waited in vain until %s", what)
		case <-poll.C:
		}
	}
}

// TestLauncherFailureIsTheJudges: a program that cannot be started must not
// count as a submission that failed.
func TestLauncherFailureIsTheJudges(t *testing.T) {
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	_, err = runTask(t.Context(), task{
		argv: []string{"/no/such/program"}, dir: t.TempDir(), stdout: out, stderr: out, limits: compilerLimits,
	})
	if err == nil || !strings.Contains(err.Error(), "execve: no such file or directory") {
		t.Errorf("error %v, want one from execve", err)
	}
	if exitStatus(err) != exitFailed {
		t.Errorf("exit status %d, want %d", exitStatus(err), exitFailed)
	}
}

func TestParseUsage(t *testing.T) {
	stat := "42 (a ) b) S 1 42 42 0 -1 0 5 6 7 8 150 25 9 9 20 0 1 0 300 1000000 77 18446744073709551615 1"
	got, err := parseUsage([]byte(stat))
	want := usage{cpu: 1750 * time.Millisecond, memory: 77 * int64(os.Getpagesize())}
	if err != nil || got != want {
		t.Errorf("got %+v, %v; want %+v", got, err, want)
	}
	for _, bad := range []string{"", "42 (x) S 1", strings.Replace(stat, "150", "x", 1)} {
		if got, err := parseUsage([]byte(bad)); err == nil {
			t.Errorf("%q gave %+v and no error", bad, got)
		}
	}
}

// TestRemoveLockedWorkspace covers what a submission can do to its directory.
func TestRemoveLockedWorkspace(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	space, err := newWorkspace()
	if err != nil {
		t.Fatal(err)
	}
	inner := filepath.Join(space.build(), "locked", "inner")
	if err := os.MkdirAll(inner, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Dir(inner), 0); err != nil {
		t.Fatal(err)
	}
	if err := space.remove(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(space.root); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the workspace is still there (%v)", err)
	}
}

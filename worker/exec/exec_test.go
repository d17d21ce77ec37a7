package exec_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/weft-fabric/weft/job"
	"github.com/weft-fabric/weft/worker"
	"github.com/weft-fabric/weft/worker/exec"
)

// patience bounds every wait of these tests.
const patience = 20 * time.Second

// leased is a record such as a worker gets.
func leased(t *testing.T) job.Job {
	t.Helper()
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	j, err := job.New(job.Spec{
		ID: "jb_1", Stage: "hash", InputRef: "data:,a b\tc", Key: "the key", MaxAttempts: 3,
		Payload: json.RawMessage(`{"a" : 1.50}`),
	}, now)
	if err != nil {
		t.Fatal(err)
	}
	j, _, err = j.Claim("rn_1", now, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// script makes a handler that runs a shell script.
func script(t *testing.T, text string, change ...func(*exec.Options)) *exec.Handler {
	t.Helper()
	o := exec.DefaultOptions()
	for _, c := range change {
		c(&o)
	}
	h, err := exec.New([]string{"sh", "-c", text}, o)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func work(t *testing.T, h *exec.Handler) job.Outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	return h.Work(ctx, worker.NewTask(leased(t), nil))
}

func output(t *testing.T, o job.Outcome) []byte {
	t.Helper()
	if o.Kind() != job.KindCompleted {
		t.Fatalf("outcome is %s with reason %q, want completed", o, o.Reason())
	}
	body, err := o.Open()()
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(body)
	if err != nil {
		t.Fatal(err)
	}
	if err := body.Close(); err != nil {
		t.Fatal(err)
	}
	return data
}

func TestExitStatusDecides(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		script string
		kind   job.OutcomeKind
		reason string
	}{
		{"exit 0", job.KindCompleted, ""},
		{"echo broken pipe dream >&2; exit 65", job.KindDiscarded, "broken pipe dream"},
		{"exit 65", job.KindDiscarded, "exit status 65"},
		{"echo later >&2; exit 75", job.KindReturned, "later"},
		{"exit 75", job.KindReturned, "exit status 75"},
		{"exit 3", job.KindFailed, "exit status 3"},
		{"printf 'one\\ntwo\\n' >&2; exit 1", job.KindFailed, "one\ntwo"},
		{"kill -KILL $$", job.KindFailed, "killed by signal SIGKILL"},
		{"kill -SEGV $$", job.KindFailed, "killed by signal SIGSEGV"},
	} {
		t.Run(test.script, func(t *testing.T) {
			t.Parallel()
			o := work(t, script(t, test.script))
			if o.Kind() != test.kind || o.Reason() != test.reason {
				t.Errorf("got %s %q, want kind %d %q", o, o.Reason(), test.kind, test.reason)
			}
		})
	}
}

func TestStdinIsTheRecord(t *testing.T) {
	t.Parallel()
	got := output(t, work(t, script(t, "cat")))
	if want := leased(t).AppendJSON(nil); !bytes.Equal(got, want) {
		t.Errorf("stdin was\n%s\nwant\n%s", got, want)
	}
}

func TestEnvironmentNamesTheAttempt(t *testing.T) {
	t.Setenv("WEFT_KEY", "of an outer attempt")
	got := string(output(t, work(t, script(t, `printf '%s|' "$WEFT_JOB_ID" "$WEFT_STAGE" "$WEFT_ATTEMPT" "$WEFT_FENCE" "$WEFT_INPUT_REF" "$WEFT_KEY" "$WEFT_WORKER_ID"`))))
	if want := "jb_1|hash|1|1|data:,a b\tc|the key|rn_1|"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A command's trace is its attempt's: first what the process gives, then the job's
// own, and never that of the process.
func TestEnvironmentHasTheTraceOfTheAttempt(t *testing.T) {
	t.Setenv("TRACEPARENT", "of the worker")
	t.Setenv("TRACESTATE", "of the worker")
	carried := job.Trace{Parent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", State: "a=1"}
	given := func(o *exec.Options) {
		o.Environ = func(context.Context) []string { return []string{"TRACEPARENT=of the attempt"} }
	}
	for name, test := range map[string]struct {
		trace  job.Trace
		change []func(*exec.Options)
		want   string
	}{
		"none":  {job.Trace{}, nil, "|"},
		"job":   {carried, nil, carried.Parent + "|a=1"},
		"given": {carried, []func(*exec.Options){given}, "of the attempt|a=1"},
	} {
		j := leased(t)
		j.Trace = test.trace
		o := script(t, `printf '%s|%s' "$TRACEPARENT" "$TRACESTATE"`, test.change...).Work(t.Context(), worker.NewTask(j, nil))
		if got := string(output(t, o)); got != test.want {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
}

func TestStdinNeedNotBeRead(t *testing.T) {
	t.Parallel()
	j := leased(t)
	j.Payload = json.RawMessage(`"` + strings.Repeat("x", 1<<20) + `"`)
	for _, text := range []string{"exec 0<&-; echo done", "head -c 10 >/dev/null; echo done"} {
		o := script(t, text).Work(t.Context(), worker.NewTask(j, nil))
		if got := string(output(t, o)); got != "done\n" {
			t.Errorf("%s: got %q", text, got)
		}
	}
}

func TestStdinMayBeReadSlowly(t *testing.T) {
	t.Parallel()
	j := leased(t)
	j.Payload = json.RawMessage(`"` + strings.Repeat("x", 300<<10) + `"`)
	o := script(t, "dd bs=1000 2>/dev/null | wc -c").Work(t.Context(), worker.NewTask(j, nil))
	if got, want := strings.TrimSpace(string(output(t, o))), strconv.Itoa(len(j.AppendJSON(nil))); got != want {
		t.Errorf("the command read %s bytes, want %s", got, want)
	}
}

func TestOutputIsKeptByteForByte(t *testing.T) {
	t.Parallel()
	for _, size := range []int{0, 1, 64 << 10, 64<<10 + 1, 5 << 20} {
		t.Run(strconv.Itoa(size), func(t *testing.T) {
			t.Parallel()
			data := make([]byte, size)
			for i := range data {
				data[i] = byte(i * 7)
			}
			path := filepath.Join(t.TempDir(), "data")
			if err := os.WriteFile(path, data, 0o600); err != nil {
				t.Fatal(err)
			}
			o := work(t, script(t, "cat "+path))
			for range 2 { // the fabric may have to store it twice
				if got := output(t, o); !bytes.Equal(got, data) {
					t.Errorf("%d bytes came out as %d others", size, len(got))
				}
			}
		})
	}
}

func TestLargeOutputLeavesNoFile(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	output(t, work(t, script(t, "head -c 1000000 /dev/zero")))
	left, err := os.ReadDir(dir)
	if err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
}

func TestTooMuchOutputFailsForGood(t *testing.T) {
	t.Parallel()
	h := script(t, "cat /dev/zero", func(o *exec.Options) { o.MaxOutput = 100_000 })
	o := work(t, h)
	if o.Kind() != job.KindDiscarded || !strings.Contains(o.Reason(), "more than 100000 bytes") {
		t.Errorf("got %s %q", o, o.Reason())
	}
}

func TestOutputThatCannotBeSpooledFails(t *testing.T) {
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "missing"))
	o := work(t, script(t, "head -c 1000000 /dev/zero"))
	if o.Kind() != job.KindFailed || !strings.Contains(o.Reason(), "spooling the output") {
		t.Errorf("got %s %q", o, o.Reason())
	}
}

func TestReasonIsTheEndOfStderr(t *testing.T) {
	t.Parallel()
	o := work(t, script(t, "i=0; while [ $i -lt 20000 ]; do echo line $i >&2; i=$((i+1)); done; exit 1"))
	if !strings.HasSuffix(o.Reason(), "line 19998\nline 19999") {
		t.Errorf("the reason ends with %q", o.Reason()[max(0, len(o.Reason())-40):])
	}
	if n := len(o.Reason()); n > job.MaxReasonSize || n < job.MaxReasonSize-20 {
		t.Errorf("the reason has %d bytes, want about %d", n, job.MaxReasonSize)
	}
}

func TestStderrThatIsNoTextMakesAValidReason(t *testing.T) {
	t.Parallel()
	o := work(t, script(t, `printf '\377\376 oops' >&2; exit 1`))
	if want := "\uFFFD oops"; o.Reason() != want {
		t.Errorf("got %q, want %q", o.Reason(), want)
	}
}

func TestLinesOfStderrAreLogged(t *testing.T) {
	t.Parallel()
	var log syncBuffer
	logger := slog.New(slog.NewTextHandler(&log, nil))
	h := script(t, `echo first >&2; head -c 9000 /dev/zero | tr '\0' x >&2; printf '\nlast' >&2`, func(o *exec.Options) { o.StderrLevel = slog.LevelInfo })
	h.Work(t.Context(), worker.NewTask(leased(t), logger))
	text := log.String()
	if strings.Count(text, "msg=stderr") != 5 || !strings.Contains(text, "line=first\n") || !strings.Contains(text, "line=last\n") {
		t.Errorf("the log is\n%.2000s", text)
	}
	if !strings.Contains(text, "job=jb_1") {
		t.Errorf("the log does not name the job")
	}
}

// group starts a script that writes its process id to a file once it is set up,
// and gives a function that ends the attempt and one that waits for its outcome.
func startWork(t *testing.T, text string, cause error) (pid int, outcome func() job.Outcome) {
	t.Helper()
	ready := filepath.Join(t.TempDir(), "ready")
	h := script(t, fmt.Sprintf("READY=%s\n%s", ready, text), func(o *exec.Options) { o.Grace = 200 * time.Millisecond })
	ctx, cancel := context.WithCancelCause(t.Context())
	result := make(chan job.Outcome, 1)
	go func() { result <- h.Work(ctx, worker.NewTask(leased(t), nil)) }()
	pid = awaitPID(t, ready)
	cancel(cause)
	return pid, func() job.Outcome {
		select {
		case o := <-result:
			return o
		case <-time.After(patience):
			t.Fatal("the attempt did not end")
			return job.Outcome{}
		}
	}
}

// awaitPID waits for a file that holds a process id and a newline.
func awaitPID(t *testing.T, path string) int {
	t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); <-time.After(2 * time.Millisecond) {
		text, _ := os.ReadFile(path)
		if line, ok := strings.CutSuffix(string(text), "\n"); ok {
			pid, err := strconv.Atoi(line)
			if err != nil {
				t.Fatal(err)
			}
			return pid
		}
	}
	t.Fatal("the command did not get ready")
	return 0
}

// wantGone fails if the process lives. A zombie that nobody reaps counts as
// gone.
func wantGone(t *testing.T, pid int) {
	t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); <-time.After(2 * time.Millisecond) {
		if !alive(pid) {
			return
		}
	}
	t.Errorf("process %d still lives", pid)
}

func alive(pid int) bool {
	if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return false
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return !os.IsNotExist(err)
	}
	_, after, _ := strings.Cut(string(status), ") ")
	return !strings.HasPrefix(after, "Z")
}

func TestCancelStopsTheCommand(t *testing.T) {
	t.Parallel()
	pid, outcome := startWork(t, `echo $$ > $READY; exec sleep 60`, worker.ErrTimeout)
	o := outcome()
	if want := "attempt timed out: killed by signal SIGTERM"; o.Kind() != job.KindFailed || o.Reason() != want {
		t.Errorf("got %s %q, want failed %q", o, o.Reason(), want)
	}
	wantGone(t, pid)
}

func TestCommandMayEndInTheGrace(t *testing.T) {
	t.Parallel()
	for status, kind := range map[string]job.OutcomeKind{"0": job.KindCompleted, "75": job.KindReturned, "65": job.KindDiscarded, "1": job.KindFailed} {
		_, outcome := startWork(t, `trap 'echo saved; exit `+status+`' TERM; echo $$ > $READY; while :; do sleep 0.01; done`, worker.ErrDraining)
		if o := outcome(); o.Kind() != kind {
			t.Errorf("exit %s: got %s %q", status, o, o.Reason())
		}
	}
}

func TestGrandchildThatIgnoresTheSignalIsKilled(t *testing.T) {
	t.Parallel()
	pid, outcome := startWork(t, `sh -c 'trap "" TERM; echo $$ > '$READY'; while :; do sleep 1; done' & wait`, worker.ErrLeaseLost)
	if o := outcome(); o.Kind() != job.KindFailed {
		t.Errorf("got %s %q", o, o.Reason())
	}
	wantGone(t, pid)
}

func TestCommandThatIgnoresTheSignalIsKilled(t *testing.T) {
	t.Parallel()
	pid, outcome := startWork(t, `trap "" TERM; echo $$ > $READY; while :; do sleep 1; done`, worker.ErrDraining)
	o := outcome()
	if want := "worker is draining: killed by signal SIGKILL"; o.Reason() != want {
		t.Errorf("got %q, want %q", o.Reason(), want)
	}
	wantGone(t, pid)
}

func TestWhatASuccessLeavesBehindIsKilled(t *testing.T) {
	t.Parallel()
	began := time.Now()
	o := work(t, script(t, `sleep 60 & echo $!`, func(o *exec.Options) { o.Linger = 10 * time.Millisecond }))
	pid, err := strconv.Atoi(strings.TrimSpace(string(output(t, o))))
	if err != nil {
		t.Fatal(err)
	}
	wantGone(t, pid)
	if took := time.Since(began); took > patience/2 {
		t.Errorf("the background process held the attempt up for %s", took)
	}
}

func TestALateWriterOfTheGroupIsHeard(t *testing.T) {
	t.Parallel()
	o := work(t, script(t, `(sleep 0.1; echo late) & echo early`, func(o *exec.Options) { o.Linger = patience }))
	if got := string(output(t, o)); got != "early\nlate\n" {
		t.Errorf("got %q", got)
	}
}

func TestAProcessThatLeftTheGroupHoldsNothingUp(t *testing.T) {
	t.Parallel()
	o := work(t, script(t, `setsid sh -c 'echo $$; exec sleep 60' & sleep 0.05; exit 0`, func(o *exec.Options) { o.Linger = 10 * time.Millisecond }))
	pid, err := strconv.Atoi(strings.TrimSpace(string(output(t, o))))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Errorf("the process that left the group: %v", err)
	}
}

func TestManyAttemptsAtOnce(t *testing.T) {
	t.Parallel()
	h := script(t, "cat; exit 0")
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() { output(t, work(t, h)) })
	}
	all.Wait()
}

func TestNewRefusesACommandThatCannotRun(t *testing.T) {
	t.Parallel()
	plain := filepath.Join(t.TempDir(), "plain")
	if err := os.WriteFile(plain, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		argv []string
		want string
	}{
		{nil, "no command is given"},
		{[]string{""}, "no command is given"},
		{[]string{"no-such-command-here"}, `"no-such-command-here" cannot be run: executable file not found in $PATH`},
		{[]string{"./no/such"}, "no such file or directory"},
		{[]string{plain}, "permission denied"},
	} {
		_, err := exec.New(test.argv, exec.DefaultOptions())
		if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: got %v, want %q", test.argv, err, test.want)
		}
	}
}

func TestACommandThatVanishedFails(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "command")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	h, err := exec.New([]string{path}, exec.DefaultOptions())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if o := work(t, h); o.Kind() != job.KindFailed || !strings.Contains(o.Reason(), "no such file") {
		t.Errorf("got %s %q", o, o.Reason())
	}
}

func TestOptionsAreChecked(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*exec.Options){
		"Grace": func(o *exec.Options) { o.Grace = 0 }, "Linger": func(o *exec.Options) { o.Linger = -1 },
		"MaxOutput": func(o *exec.Options) { o.MaxOutput = -1 }, "MemoryOutput": func(o *exec.Options) { o.MemoryOutput = -1 },
	} {
		o := exec.DefaultOptions()
		change(&o)
		if _, err := exec.New([]string{"true"}, o); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: got %v", name, err)
		}
	}
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

func TestInputTakesThePlaceOfTheRecord(t *testing.T) {
	t.Parallel()
	feed := func(text string, err error) func(*exec.Options) {
		return func(o *exec.Options) {
			o.Input = func(context.Context, job.Job) (io.ReadCloser, error) {
				return io.NopCloser(strings.NewReader(text)), err
			}
		}
	}
	if got := output(t, work(t, script(t, "cat", feed("hello", nil)))); string(got) != "hello" {
		t.Errorf("the command got %q", got)
	}
	gone := fmt.Errorf("%w: no such object", job.ErrUnopenable)
	if o := work(t, script(t, "cat", feed("", gone))); o.Kind() != job.KindDiscarded || o.Reason() != gone.Error() {
		t.Errorf("an input that is not there: %s %q", o, o.Reason())
	}
	away := errors.New("server away")
	if o := work(t, script(t, "cat", feed("", away))); o.Kind() != job.KindFailed {
		t.Errorf("an input that could not be asked for: %s %q", o, o.Reason())
	}
}

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// judgeUnderTest makes the test binary behave as the judge, so that the tests
// keep to the contract of processes and need no other binary.
const judgeUnderTest = "JUDGE_UNDER_TEST"

func TestMain(m *testing.M) {
	switch {
	case isLauncher(os.Args):
		os.Exit(launch(os.Args))
	case os.Getenv(judgeUnderTest) != "":
		os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	default:
		os.Exit(m.Run())
	}
}

// judgeCommand prepares a judge at the repository's root with the record on its
// standard input and a directory for temporary files that has to be empty in
// the end.
func judgeCommand(t *testing.T, rec string, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, args...)
	cmd.Dir = filepath.Join("..", "..")
	cmd.Env = append(os.Environ(), judgeUnderTest+"=1", "WEFT_KEY=not-for-compilers", "TMPDIR="+t.TempDir())
	cmd.Stdin = strings.NewReader(rec)
	return cmd
}

type judged struct {
	code           int
	stdout, stderr string
}

func finish(t *testing.T, cmd *exec.Cmd) judged {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	checkNothingLeft(t, cmd)
	return judged{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

func checkNothingLeft(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	var dir string
	for _, entry := range cmd.Env {
		if value, ok := strings.CutPrefix(entry, "TMPDIR="); ok {
			dir = value
		}
	}
	left, err := filepath.Glob(filepath.Join(dir, "judge-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("the judge left %v behind (%v)", left, err)
	}
}

func wantPermanent(t *testing.T, got judged, reason string) {
	t.Helper()
	if got.code != exitPermanent || got.stdout != "" {
		t.Errorf("exit %d, stdout %q; want exit %d and no output", got.code, got.stdout, exitPermanent)
	}
	line, rest, _ := strings.Cut(got.stderr, "\n")
	if !strings.HasPrefix(line, "judge: ") || !strings.Contains(line, reason) || rest != "" {
		t.Errorf("stderr %q; want one line with %q", got.stderr, reason)
	}
}

func wantVerdict(t *testing.T, got judged, want string) verdict {
	t.Helper()
	if got.code != exitJudged {
		t.Fatalf("exit %d: %s", got.code, got.stderr)
	}
	line, rest, _ := strings.Cut(got.stdout, "\n")
	if !strings.HasPrefix(line, `{"verdict":"`) || rest != "" || len(got.stdout) > maxVerdictBytes {
		t.Errorf("stdout is not one short line with the verdict first: %q", got.stdout)
	}
	var v verdict
	if err := json.Unmarshal([]byte(line), &v); err != nil {
		t.Fatal(err)
	}
	if v.Verdict != want {
		t.Errorf("verdict %s, want %s; output %s", v.Verdict, want, line)
	}
	return v
}

// spec is one line of submissions.jsonl, with the attempt that a record has.
type spec struct {
	ID       string          `json:"id"`
	InputRef string          `json:"input_ref"`
	Payload  json.RawMessage `json:"payload"`
	Labels   struct {
		Expect string `json:"expect"`
	} `json:"labels"`
	Attempt int `json:"attempt"`
}

func readSpecs(t *testing.T) []spec {
	t.Helper()
	data, err := os.ReadFile("submissions.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	var specs []spec
	for line := range bytes.Lines(data) {
		var s spec
		decoder := json.NewDecoder(bytes.NewReader(line))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&s); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		specs = append(specs, s)
	}
	return specs
}

func (s spec) payload(t *testing.T) payload {
	t.Helper()
	var p payload
	if err := json.Unmarshal(s.Payload, &p); err != nil {
		t.Fatal(err)
	}
	return p
}

func (s spec) record(t *testing.T, attempt int) string {
	t.Helper()
	s.Attempt = attempt
	data, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestEverySubmission(t *testing.T) {
	for _, s := range readSpecs(t) {
		t.Run(s.ID, func(t *testing.T) {
			t.Parallel()
			if s.payload(t).Fault != "" {
				got := finish(t, judgeCommand(t, s.record(t, 1)))
				if got.code != exitFailed || !strings.Contains(got.stderr, "the runner failed") {
					t.Errorf("attempt 1: exit %d, stderr %q; want a failure of the runner", got.code, got.stderr)
				}
				s.Attempt++
			}
			got := finish(t, judgeCommand(t, s.record(t, s.Attempt+1)))
			if _, err := findToolchain(s.payload(t).Language); err != nil {
				wantPermanent(t, got, err.Error())
				return
			}
			wantVerdict(t, got, s.Labels.Expect)
		})
	}
}

// TestSubmissionsFile keeps the sample worth its name: ids that say what they
// are, and every verdict among the expected ones.
func TestSubmissionsFile(t *testing.T) {
	validID := regexp.MustCompile(`^[A-Za-z0-9_=-]{1,128}$`)
	seen, expected := map[string]bool{}, map[string]bool{}
	for _, s := range readSpecs(t) {
		p := s.payload(t)
		prefix := p.Problem + "-" + p.Language + "-" + s.Labels.Expect
		if !validID.MatchString(s.ID) || !strings.HasPrefix(s.ID, prefix) || seen[s.ID] {
			t.Errorf("id %q is invalid, used twice, or does not begin with %q", s.ID, prefix)
		}
		seen[s.ID], expected[s.Labels.Expect] = true, true
	}
	for _, v := range []string{accepted, wrongAnswer, timeLimit, memoryLimit, runtimeError, compileError, outputLimit} {
		if !expected[v] {
			t.Errorf("no submission is expected to end as %s", v)
		}
	}
}

func TestBadInputIsPermanent(t *testing.T) {
	const good = "examples/judge/submissions/sum/accepted.c"
	rec := func(ref, payload string) string {
		return `{"id":"x","attempt":1,"input_ref":` + strconv.Quote(ref) + `,"payload":` + payload + `}`
	}
	tests := map[string]struct {
		stdin, reason string
		args          []string
	}{
		"empty stdin":       {stdin: "", reason: "not a job record"},
		"not JSON":          {stdin: "hello\nthere", reason: "not a job record"},
		"an array":          {stdin: "[]", reason: "not a job record"},
		"two records":       {stdin: "{}\n{}", reason: "not a job record"},
		"payload is text":   {stdin: rec(good, `"sum"`), reason: "not a job record"},
		"record too long":   {stdin: strings.Repeat(" ", maxRecordBytes+1), reason: "longer than"},
		"no payload":        {stdin: "{}", reason: `problem is ""; the known problems are brackets, grid, polygon, sum`},
		"unknown problem":   {stdin: rec(good, `{"problem":"../judge","language":"c"}`), reason: "known problems are brackets, grid, polygon, sum"},
		"unknown language":  {stdin: rec(good, `{"problem":"sum","language":"cobol"}`), reason: "known languages are c, go, python"},
		"unknown fault":     {stdin: rec(good, `{"problem":"sum","language":"go","fault":"x"}`), reason: `only known fault is "first_attempt"`},
		"no input_ref":      {stdin: rec("", `{"problem":"sum","language":"go"}`), reason: "it is empty"},
		"missing source":    {stdin: rec("no/such\nfile", `{"problem":"sum","language":"go"}`), reason: "cannot be opened"},
		"directory":         {stdin: rec("examples", `{"problem":"sum","language":"go"}`), reason: "not a regular file"},
		"remote source":     {stdin: rec("https://example.org/a.go", `{"problem":"sum","language":"go"}`), reason: `scheme "https"`},
		"broken data URI":   {stdin: rec("data:text/plain", `{"problem":"sum","language":"go"}`), reason: "cannot be opened"},
		"unknown flag":      {args: []string{"-x"}, reason: "judge -h"},
		"stray argument":    {args: []string{"x"}, reason: "unexpected argument"},
		"no problems there": {stdin: rec(good, `{"problem":"sum","language":"c"}`), args: []string{"-problems", "no/such/dir"}, reason: "-problems DIR"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wantPermanent(t, finish(t, judgeCommand(t, test.stdin, test.args...)), test.reason)
		})
	}
}

func TestHelpIsNoFailure(t *testing.T) {
	got := finish(t, judgeCommand(t, "", "-h"))
	if got.code != 0 || !strings.Contains(got.stderr, "-problems") || strings.Contains(got.stderr, "judge: ") {
		t.Errorf("exit %d, stderr %q", got.code, got.stderr)
	}
}

func TestAbsentToolchainIsPermanent(t *testing.T) {
	reasons := map[string]string{
		"c":      `language "c" needs gcc or cc, and neither is on PATH`,
		"go":     `language "go" needs go, and it is not on PATH`,
		"python": `language "python" needs python3, and it is not on PATH`,
	}
	for _, l := range languages {
		t.Run(l.name, func(t *testing.T) {
			cmd := judgeCommand(t, `{"input_ref":"data:,x","payload":{"problem":"sum","language":"`+l.name+`"}}`)
			cmd.Env = append(cmd.Env, "PATH="+t.TempDir())
			wantPermanent(t, finish(t, cmd), reasons[l.name])
		})
	}
}

// TestBrokenToolchainIsPermanent has a python3 on PATH that cannot run.
func TestBrokenToolchainIsPermanent(t *testing.T) {
	dir := t.TempDir()
	script := "#!/bin/sh\necho no interpreter is installed >&2\nexit 127\n"
	if err := os.WriteFile(filepath.Join(dir, "python3"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := judgeCommand(t, `{"input_ref":"data:,x","payload":{"problem":"sum","language":"python"}}`)
	cmd.Env = append(cmd.Env, "PATH="+dir)
	wantPermanent(t, finish(t, cmd), "does not run: no interpreter is installed")
}

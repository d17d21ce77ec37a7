package main

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weft-fabric/weft/internal/app"
	"github.com/weft-fabric/weft/job"
)

func TestRunPrintsWhatBecameOfEachJob(t *testing.T) {
	t.Parallel()
	specs := `{"id":"good","input_ref":"x"}
{"id":"bad","input_ref":"x","max_attempts":1,"labels":{"fail":"yes"}}
{"id":"never","input_ref":"x","labels":{"fail":"65"}}
`
	r := weft(t, specs, "run", "s", "--jobs", "-", "--", "sh", "-c",
		`case $WEFT_JOB_ID in bad) echo oh no >&2; exit 1;; never) echo wrong input >&2; exit 65;; *) printf 'first\tline\nsecond\n';; esac`)
	r.want(t, app.ExitFailed, "3 of 3 jobs have ended, 1 succeeded, 2 failed")
	lines := r.lines()
	if len(lines) != 4 {
		t.Fatalf("stdout is\n%s", r.out)
	}
	for i, want := range []string{"ID STATE ATTEMPTS DURATION OUTPUT OR REASON", "good succeeded 1/3 first line...", "bad failed 1/1 oh no", "never failed 1/3 wrong input"} {
		fields := strings.Fields(lines[i])
		if i > 0 { // the duration differs from run to run
			fields = append(fields[:3], fields[4:]...)
		}
		if got := strings.Join(fields, " "); got != want {
			t.Errorf("line %d is %q, want %q", i, got, want)
		}
	}
}

func TestRunAsJSON(t *testing.T) {
	t.Parallel()
	r := weft(t, `{"id":"b","input_ref":"x"}`+"\n"+`{"id":"a","input_ref":"x"}`, "run", "s", "--jobs", "-", "--json", "--timeout", "1m", "--max-attempts", "7", "--", "true")
	r.want(t, app.ExitDone)
	for i, line := range r.lines() {
		var j job.Job
		if err := json.Unmarshal([]byte(line), &j); err != nil {
			t.Fatal(err)
		}
		if j.ID != []string{"b", "a"}[i] || j.State != job.StateSucceeded || j.MaxAttempts != 7 || j.Timeout.String() != "1m0s" {
			t.Errorf("line %d is %s", i, line)
		}
	}
}

func TestRunOfNothing(t *testing.T) {
	t.Parallel()
	if r := weft(t, "\n", "run", "s", "--jobs", "-", "--", "false").want(t, app.ExitDone); r.out != "" {
		t.Errorf("stdout is %q", r.out)
	}
}

func TestRunLeavesNothingBehind(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	weft(t, `{"input_ref":"x"}`, "run", "s", "--jobs", "-", "--", "true").want(t, app.ExitDone)
	weft(t, `{`, "run", "s", "--jobs", "-", "--", "true").want(t, app.ExitUsage)
	left, err := os.ReadDir(dir)
	if err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
}

func TestRunKeepsGoing(t *testing.T) {
	t.Parallel()
	specs := `{"id":"a","input_ref":"x"}
broken
{"id":"b","input_ref":"x","dependencies":["nobody"]}
{"id":"c","input_ref":"x"}`
	r := weft(t, specs, "run", "s", "--jobs", "-", "--keep-going", "--", "true").want(t, app.ExitFailed, "stdin:2:", "stdin:3:", "missing_dependency")
	if strings.Count(r.out, " succeeded ") != 2 {
		t.Errorf("stdout is\n%s", r.out)
	}
	weft(t, strings.Replace(specs, "broken\n", "", 1), "run", "s", "--jobs", "-", "--", "true").want(t, app.ExitRefused, "stdin:2:", "missing_dependency")
}

func TestRunFollowsDependencies(t *testing.T) {
	t.Parallel()
	log := filepath.Join(t.TempDir(), "log")
	var specs strings.Builder
	for i := range 5 {
		fmt.Fprintf(&specs, `{"id":"j%d","input_ref":"x"`, i)
		if i > 0 {
			fmt.Fprintf(&specs, `,"dependencies":["j%d"]`, i-1)
		}
		specs.WriteString("}\n")
	}
	weft(t, specs.String(), "run", "s", "--jobs", "-", "--concurrency", "4", "--", "sh", "-c", "echo $WEFT_JOB_ID >> "+log).want(t, app.ExitDone)
	if got := strings.Join(linesOf(log), " "); got != "j0 j1 j2 j3 j4" {
		t.Errorf("ran in the order %s", got)
	}
}

func TestRunEndsWhenWhatIsLeftCannotRun(t *testing.T) {
	t.Parallel()
	specs := `{"id":"bad","input_ref":"x","max_attempts":1}
{"id":"blocked","input_ref":"x","dependencies":["bad"]}
{"id":"deeper","input_ref":"x","dependencies":["blocked"]}
{"id":"cancelled","input_ref":"x","dependencies":["bad"],"on_dependency_failure":"cancel"}`
	r := weft(t, specs, "run", "s", "--jobs", "-", "--", "false").want(t, app.ExitFailed, "2 jobs wait for others")
	for _, part := range []string{"waits for bad", "waits for blocked", "cancelled"} {
		if !strings.Contains(r.out, part) {
			t.Errorf("stdout does not contain %q:\n%s", part, r.out)
		}
	}
}

func TestRunResumes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	log, data := filepath.Join(dir, "log"), filepath.Join(dir, "data")
	file := writeFile(t, filepath.Join(dir, "jobs.jsonl"), `{"input_ref":"good"}`+"\n"+`{"input_ref":"bad","max_attempts":1}`+"\n")
	call := func(more ...string) result {
		args := append([]string{"run", "s", "--jobs", file, "--data", data}, more...)
		return weft(t, "", append(args, "--", "sh", "-c", "echo $WEFT_INPUT_REF >> "+log+"; test $WEFT_INPUT_REF != bad")...)
	}
	first := call().want(t, app.ExitFailed)
	again := call().want(t, app.ExitFailed)
	if first.out != again.out || len(linesOf(log)) != 2 {
		t.Errorf("the second call ran %v and printed\n%swant\n%s", linesOf(log)[2:], again.out, first.out)
	}
	call("--lease", "5s").want(t, app.ExitFailed, "stage s exists with lease 30s")
	call("--timeout", "10m").want(t, app.ExitFailed, "2 jobs exist with another --timeout")
	writeFile(t, file, `{"input_ref":"good"}`+"\n"+`{"input_ref":"good"}`+"\n"+`{"input_ref":"new"}`+"\n")
	call().want(t, app.ExitDone)
	if got := strings.Join(linesOf(log), " "); !strings.HasPrefix(got, "good bad ") && !strings.HasPrefix(got, "bad good ") || len(linesOf(log)) != 4 {
		t.Errorf("ran %s, want the second good and the new one only", got)
	}
}

func TestRunRefusesAnIDOfAnotherJob(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	weft(t, `{"id":"one","input_ref":"x"}`, "run", "s", "--jobs", "-", "--data", data, "--", "true").want(t, app.ExitDone)
	weft(t, `{"id":"one","input_ref":"y"}`, "run", "s", "--jobs", "-", "--data", data, "--", "true").want(t, app.ExitRefused, "stdin:1:", "duplicate_job")
}

func TestRunListensIfToldTo(t *testing.T) {
	t.Parallel()
	weft(t, `{"input_ref":"x"}`, "run", "s", "--jobs", "-", "--listen", "127.0.0.1:-1", "--", "true").want(t, app.ExitDone, "listens at nats://127.0.0.1:")
}

func TestRunOfThousands(t *testing.T) {
	t.Parallel()
	const jobs = 2000
	r := weft(t, strings.Repeat(`{"input_ref":"x"}`+"\n", jobs), "run", "s", "--jobs", "-", "--concurrency", "8", "--", "true").want(t, app.ExitDone)
	if n := strings.Count(r.out, " succeeded "); n != jobs {
		t.Errorf("%d jobs succeeded, want %d", n, jobs)
	}
}

// The hash of the input itself is what a command gets to see with --stdin input.
func TestRunFeedsTheInput(t *testing.T) {
	t.Parallel()
	jobs := writeFile(t, "jobs.jsonl", `{"id":"hello","input_ref":"data:,hello"}
{"id":"elsewhere","input_ref":"s3://bucket/key"}
{"id":"nowhere","input_ref":"nats-obj://no-bucket/name"}
`)
	r := weft(t, "", "run", "hash", "--jobs", jobs, "--json", "--stdin", "input", "--", "sha256sum")
	r.want(t, app.ExitFailed)
	ended := map[string]job.Job{}
	for _, line := range r.lines() {
		var j job.Job
		if err := json.Unmarshal([]byte(line), &j); err != nil {
			t.Fatal(err)
		}
		ended[j.ID] = j
	}
	if got, want := ended["hello"].OutputRef, fmt.Sprintf("%x", sha256.Sum256([]byte("hello"))); !strings.Contains(got, want) {
		t.Errorf("output %q, want the hash %s", got, want)
	}
	for _, id := range []string{"elsewhere", "nowhere"} {
		if j := ended[id]; j.State != job.StateFailed || j.Attempt != 1 || !strings.Contains(j.Reason, "cannot be opened") {
			t.Errorf("job %s: %s after attempt %d with reason %q, want failed at once", id, j.State, j.Attempt, j.Reason)
		}
	}
}

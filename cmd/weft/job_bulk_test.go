package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/weft-fabric/weft/fabric"
	"github.com/weft-fabric/weft/internal/app"
	"github.com/weft-fabric/weft/job"
)

// mixed enqueues jobs of two stages, tenants and keys.
func mixed(t *testing.T, s *site) {
	t.Helper()
	for _, spec := range []job.Spec{
		{ID: "a1", Stage: "a", Labels: map[string]string{"tenant": "x"}},
		{ID: "a2", Stage: "a", Labels: map[string]string{"tenant": "y"}},
		{ID: "a3", Stage: "a", Labels: map[string]string{"tenant": "x", "rush": "1"}},
		{ID: "b1", Stage: "b", Labels: map[string]string{"tenant": "x"}},
		{ID: "b2", Stage: "b", Key: "k"},
	} {
		spec.InputRef, spec.MaxAttempts = "x", 1
		if _, err := s.fabric.Enqueue(t.Context(), spec); err != nil {
			t.Fatal(err)
		}
	}
}

// take takes jobs of a stage until there are n of them.
func (s *site) take(t *testing.T, stage string, n int) (r *fabric.Runner, claims []job.Claim) {
	t.Helper()
	r, err := s.fabric.Runner("")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	for len(claims) < n {
		more, err := r.Claim(t.Context(), stage, n-len(claims))
		if err != nil {
			t.Fatal(err)
		}
		claims = append(claims, more...)
	}
	return r, claims
}

func (s *site) states(t *testing.T) string {
	t.Helper()
	var all []string
	for _, line := range s.weft(t, "job", "ls", "--json").want(t, app.ExitDone).lines() {
		var j job.Job
		if err := json.Unmarshal([]byte(line), &j); err != nil {
			t.Fatal(err)
		}
		all = append(all, j.ID+" "+string(j.State))
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

func sortedLines(r result) string {
	lines := r.lines()
	slices.Sort(lines)
	return strings.Join(lines, ", ")
}

func TestBulkCancelByFilter(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	mixed(t, s)
	r := s.weft(t, "job", "cancel", "--stage", "a", "--label", "tenant=x", "--dry-run").want(t, app.ExitDone, "2 jobs match")
	if got := sortedLines(r); got != "a1, a3" {
		t.Errorf("dry, it prints %s", got)
	}
	s.weft(t, "job", "cancel", "--key", "nobody's", "--dry-run").want(t, app.ExitDone, "no job matches")
	r = s.weft(t, "job", "cancel", "--stage", "a", "--label", "tenant=x", "--yes", "--reason", "for the test").want(t, app.ExitDone, "cancelled 2, ended or changed meanwhile 0, refused 0")
	if got := sortedLines(r); got != "a1 cancelled, a3 cancelled" {
		t.Errorf("it prints %s", got)
	}
	if j := s.get(t, "a1"); j.Reason != "for the test" {
		t.Errorf("the reason is %q", j.Reason)
	}
	r = s.weft(t, "job", "cancel", "--key", "k", "--yes", "--json").want(t, app.ExitDone, "cancelled 1")
	var j job.Job
	if err := json.Unmarshal([]byte(r.out), &j); err != nil || j.ID != "b2" || j.State != job.StateCancelled {
		t.Errorf("it prints %q: %v", r.out, err)
	}
	if got := s.states(t); got != "a1 cancelled, a2 waiting, a3 cancelled, b1 waiting, b2 cancelled" {
		t.Errorf("the jobs are %s", got)
	}
	s.weft(t, "job", "cancel", "--label", "tenant=x", "--label", "rush=1", "--yes").want(t, app.ExitDone, "cancelled 0")
	s.weft(t, "job", "cancel", "--state", "waiting,retry_waiting", "--limit", "1", "--yes").want(t, app.ExitDone, "cancelled 1")
}

func TestBulkCancelSparesWhatRunsIfToldSo(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	mixed(t, s)
	_, claims := s.take(t, "a", 1)
	running := claims[0].Job.ID
	s.weft(t, "job", "cancel", "--stage", "a", "--state", "waiting", "--yes").want(t, app.ExitDone, "cancelled 2")
	if j := s.get(t, running); j.State != job.StateLeased {
		t.Errorf("%s is %s", running, j.State)
	}
	_, err := s.fabric.CancelIn(t.Context(), running, "no", job.StateWaiting)
	if err == nil || !strings.Contains(err.Error(), "another state: leased") {
		t.Errorf("%v", err)
	}
	s.weft(t, "job", "cancel", "--stage", "a", "--yes").want(t, app.ExitDone, "cancelled 1")
}

func TestBulkRetryGoesOnAfterRefusals(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	mixed(t, s)
	r, claims := s.take(t, "a", 3)
	for _, c := range claims {
		if err := r.Settle(t.Context(), c, job.Failed("it broke")); err != nil {
			t.Fatal(err)
		}
	}
	rejected := job.Rejected("r1", "a", "no spec", s.fabric.Now())
	s.putRecord(t, rejected.ID, string(rejected.AppendJSON(nil)))
	s.putRecord(t, "garbled", "garbage")
	dry := s.weft(t, "job", "retry", "--stage", "a", "--dry-run", "--json").want(t, app.ExitDone, "4 jobs match", "garbled")
	if len(dry.lines()) != 4 {
		t.Errorf("it prints %s", dry.out)
	}
	got := s.weft(t, "job", "retry", "--stage", "a", "--state", "failed", "--yes").want(t, app.ExitFailed, "retried 3, ended or changed meanwhile 0, refused 1", "r1", "nothing to run", "garbled")
	if got := sortedLines(got); got != "a1 retry_waiting, a2 retry_waiting, a3 retry_waiting" {
		t.Errorf("it prints %s", got)
	}
	s.weft(t, "job", "retry", "--stage", "b", "--yes").want(t, app.ExitDone, "retried 0")
}

// TestBulkRetryEndsWhereJobsFailAtOnce has each job that is tried again fail again
// while the command runs; it must not try them for ever.
func TestBulkRetryEndsWhereJobsFailAtOnce(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	var ids []string
	for i := range 300 {
		j, err := s.fabric.Enqueue(t.Context(), job.Spec{ID: fmt.Sprint("j", i), Stage: "bad", InputRef: "x", MaxAttempts: 1})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, j.ID)
	}
	spawn(t, s.args([]string{"work", "bad", "--concurrency", "8", "--", "false"})...)
	s.weft(t, append([]string{"job", "wait"}, ids...)...).want(t, app.ExitFailed)
	s.weft(t, "job", "retry", "--stage", "bad", "--yes").want(t, app.ExitDone, "retried 300, ")
	s.weft(t, append([]string{"job", "wait"}, ids...)...).want(t, app.ExitFailed)
	for _, id := range ids {
		if j := s.get(t, id); j.Attempt != 2 {
			t.Errorf("%s is at attempt %d", id, j.Attempt)
		}
	}
}

// TestBulkStopsBetweenJobs signals the program while it cannot get rid of what it
// prints, so that it is not done before.
func TestBulkStopsBetweenJobs(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	ids := enqueueMany(t, s, 3000)
	reader, writer, err := os.Pipe() // which has room for about half of it
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	var stderr syncBuffer
	cmd := exec.Command(os.Args[0], s.args([]string{"job", "cancel", "--stage", "slow", "--yes"})...)
	cmd.Env = append(os.Environ(), asProgram+"=1")
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = writer, &stderr, patience
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = writer.Close()
	out := bufio.NewReader(reader)
	if _, err := out.ReadString('\n'); err != nil {
		t.Fatalf("%v: %s", err, stderr.String())
	}
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	rest, err := io.ReadAll(out)
	if err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // the state says how it ended
	done := 1 + strings.Count(string(rest), " cancelled\n")
	r := result{cmd.ProcessState.ExitCode(), string(rest), stderr.String()}
	r.want(t, app.ExitFailed, fmt.Sprintf("stopped before the end; cancelled %d, ended or changed meanwhile 0, refused 0", done))
	cancelled := 0
	for _, id := range ids {
		if s.get(t, id).State == job.StateCancelled {
			cancelled++
		}
	}
	if cancelled != done || done == len(ids) {
		t.Errorf("%d of %d are cancelled, and %d were told", cancelled, len(ids), done)
	}
}

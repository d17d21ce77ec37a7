package main

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/weft-fabric/weft/config"
	"github.com/weft-fabric/weft/fabric"
	"github.com/weft-fabric/weft/internal/app"
	"github.com/weft-fabric/weft/internal/embed"
	"github.com/weft-fabric/weft/job"
)

// TestServeEnqueueWork is the first thing a reader of the manual does, with a
// process for each part.
func TestServeEnqueueWork(t *testing.T) {
	t.Parallel()
	serve := spawn(t, "serve", "--data", t.TempDir(), "--listen", "127.0.0.1:-1")
	s := &site{url: serve.url()}
	s.connect(t)
	var leased syncBuffer // the record as it was when the command got it
	_, err := s.conn.Subscribe("weft.event.job.>", func(m *nats.Msg) {
		var j job.Job
		if json.Unmarshal(m.Data, &j) == nil && j.State == job.StateLeased {
			_, _ = leased.Write(m.Data)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.conn.Flush(); err != nil {
		t.Fatal(err)
	}
	id := s.weft(t, "enqueue", "hash", "--input-ref", "data:,hello").want(t, app.ExitDone).lines()[0]
	work := spawn(t, s.args([]string{"work", "hash", "--", "sha256sum"})...)
	waited := s.weft(t, "job", "wait", id, "--timeout", patience.String()).want(t, app.ExitDone)
	if want := id + " succeeded\n"; waited.out != want {
		t.Errorf("wait printed %q, want %q", waited.out, want)
	}
	poll(t, "event of the lease", func() bool { return leased.String() != "" })
	output := s.weft(t, "job", "output", id).want(t, app.ExitDone)
	if want := fmt.Sprintf("%x  -\n", sha256.Sum256([]byte(leased.String()))); output.out != want {
		t.Errorf("the output is %q, want %q, the hash of the record", output.out, want)
	}
	work.signal(syscall.SIGTERM)
	work.wait().want(t, app.ExitDone)
	serve.signal(syscall.SIGTERM)
	serve.wait().want(t, app.ExitDone, "power loss", "stopping")
}

// TestServeAnswersRequests: a backend and a runner that speak the API alone.
func TestServeAnswersRequests(t *testing.T) {
	t.Parallel()
	serve := spawn(t, "serve", "--data", t.TempDir(), "--listen", "127.0.0.1:-1", "--namespace", "other")
	nc, err := nats.Connect(serve.url())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	ask := func(subject, request string) string {
		msg, err := nc.Request(subject, []byte(request), patience)
		if err != nil {
			t.Fatalf("%s: %v", subject, err)
		}
		if code := msg.Header.Get("Nats-Service-Error-Code"); code != "" {
			t.Fatalf("%s: %s: %s", subject, code, msg.Data)
		}
		return string(msg.Data)
	}
	ask("other.api.enqueue", `{"id":"a","stage":"hash","input_ref":"data:,x"}`)
	var got struct {
		Claims []struct{ Token json.RawMessage }
	}
	if err := json.Unmarshal([]byte(ask("other.api.claim", `{"stage":"hash","worker":"w","wait":"20s"}`)), &got); err != nil || len(got.Claims) != 1 {
		t.Fatalf("%+v, %v", got, err)
	}
	ask("other.api.complete", `{"output":"y","token":`+string(got.Claims[0].Token)+`}`)
	if j := ask("other.api.get", `{"id":"a"}`); !strings.Contains(j, `"state":"succeeded"`) {
		t.Errorf("%s", j)
	}
	for _, verb := range []string{"PING", "INFO", "STATS"} { // what nats micro ls, info and stats ask
		if text := ask("$SRV."+verb, ""); !strings.Contains(text, `"name":"other"`) {
			t.Errorf("%s: %s", verb, text)
		}
	}
	serve.signal(syscall.SIGTERM)
	serve.wait().want(t, app.ExitDone, "stopping")
}

func TestTermDrainsAWorker(t *testing.T) {
	t.Parallel()
	s, started := newSite(t), filepath.Join(t.TempDir(), "started")
	ids := enqueueMany(t, s, 8)
	work := spawn(t, s.args([]string{"work", "slow", "--concurrency", "8", "--", "sh", "-c", "echo $WEFT_JOB_ID >> " + started + "; sleep 0.5"})...)
	poll(t, "eight running jobs", func() bool { return len(linesOf(started)) == 8 })
	work.signal(syscall.SIGTERM)
	work.wait().want(t, app.ExitDone)
	for _, id := range ids {
		if j := s.get(t, id); j.State != job.StateSucceeded {
			t.Errorf("job %s is %s", id, j.State)
		}
	}
}

func TestSecondTermGivesJobsBack(t *testing.T) {
	t.Parallel()
	s, started := newSite(t), filepath.Join(t.TempDir(), "started")
	ids := enqueueMany(t, s, 3)
	work := spawn(t, s.args([]string{"work", "slow", "--concurrency", "3", "--", "sh", "-c", "echo $$ >> " + started + "; exec sleep 600"})...)
	poll(t, "three running jobs", func() bool { return len(linesOf(started)) == 3 })
	work.signal(syscall.SIGTERM)
	poll(t, "word of the drain", func() bool { return strings.Contains(work.err.String(), "draining") })
	work.signalAgain(t, syscall.SIGTERM)
	work.wait().want(t, app.ExitDone)
	for _, id := range ids {
		if j := s.get(t, id); j.State != job.StateWaiting || j.Attempt != 0 {
			t.Errorf("job %s is %s after attempt %d, want waiting and not charged", id, j.State, j.Attempt)
		}
	}
	wantNoProcess(t, linesOf(started))
}

func TestAKilledWorkerTakesItsCommandsAlong(t *testing.T) {
	t.Parallel()
	s, started := newSite(t), filepath.Join(t.TempDir(), "started")
	enqueueMany(t, s, 2)
	work := spawn(t, s.args([]string{"work", "slow", "--concurrency", "2", "--", "sh", "-c", "echo $$ >> " + started + "; exec sleep 600"})...)
	poll(t, "two running jobs", func() bool { return len(linesOf(started)) == 2 })
	work.signal(syscall.SIGKILL)
	work.wait()
	wantNoProcess(t, linesOf(started))
}

func wantNoProcess(t *testing.T, pids []string) {
	t.Helper()
	for _, text := range pids {
		pid, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		poll(t, "end of process "+text, func() bool {
			stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
			return err != nil || strings.Contains(string(stat), ") Z ")
		})
	}
}

func enqueueMany(t *testing.T, s *site, n int) []string {
	t.Helper()
	var ids []string
	for i := range n {
		j, err := s.fabric.Enqueue(t.Context(), job.Spec{Stage: "slow", InputRef: fmt.Sprintf("data:,%d", i)})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, j.ID)
	}
	return ids
}

// TestKilledRunGoesOn kills a run half-way and gives the same command again.
func TestKilledRunGoesOn(t *testing.T) {
	t.Parallel()
	const jobs = 60
	dir := t.TempDir()
	data, ran := filepath.Join(dir, "data"), filepath.Join(dir, "ran")
	specs := writeFile(t, filepath.Join(dir, "jobs.jsonl"), strings.Repeat(`{"input_ref":"data:,same"}`+"\n", jobs))
	args := []string{"run", "slow", "--jobs", specs, "--data", data, "--concurrency", "4", "--lease", "1s", "--",
		"sh", "-c", "sleep 0.02; echo $WEFT_JOB_ID >> " + ran + "; echo $WEFT_ATTEMPT"}
	first := spawn(t, args...)
	poll(t, "a third of the jobs", func() bool { return len(linesOf(ran)) >= jobs/3 })
	first.signal(syscall.SIGKILL)
	first.wait()
	before := succeededIn(t, data)
	if len(before) == 0 || len(before) == jobs {
		t.Fatalf("%d of %d jobs had succeeded at the kill", len(before), jobs)
	}
	ranBefore := len(linesOf(ran))

	second := spawn(t, args...).wait().want(t, app.ExitDone)
	if n := strings.Count(second.out, " succeeded "); n != jobs {
		t.Errorf("%d jobs succeeded, want %d\n%s", n, jobs, second.out)
	}
	for _, id := range linesOf(ran)[ranBefore:] {
		if slices.Contains(before, id) {
			t.Errorf("job %s had succeeded and ran again", id)
		}
	}
	third := spawn(t, args...).wait().want(t, app.ExitDone)
	if third.out != second.out {
		t.Errorf("a third call prints something else:\n%s\n%s", third.out, second.out)
	}
}

// succeededIn looks into a data directory that nobody serves.
func succeededIn(t *testing.T, data string) []string {
	t.Helper()
	a, err := app.Start(t.Context(), app.Options{
		Config: config.Default(), Logger: slog.New(slog.DiscardHandler), Name: "test", Server: &embed.Options{DataDir: data},
	})
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for j, err := range a.Fabric().List(t.Context(), fabric.Filter{States: []job.State{job.StateSucceeded}}) {
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, j.ID)
	}
	if err := a.Stop(); err != nil {
		t.Fatal(err)
	}
	return ids
}

func TestTermStopsARunAndSaysHowToGoOn(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ran := filepath.Join(dir, "ran")
	specs := writeFile(t, filepath.Join(dir, "jobs.jsonl"), strings.Repeat(`{"input_ref":"data:,same"}`+"\n", 20))
	run := spawn(t, "run", "slow", "--jobs", specs, "--data", filepath.Join(dir, "data"), "--concurrency", "2", "--",
		"sh", "-c", "echo $WEFT_JOB_ID >> "+ran+"; sleep 0.3")
	poll(t, "two jobs", func() bool { return len(linesOf(ran)) >= 2 })
	run.signal(syscall.SIGTERM)
	r := run.wait().want(t, app.ExitFailed, "the same command goes on")
	if ended, began := strings.Count(r.out, " succeeded "), len(linesOf(ran)); ended != began {
		t.Errorf("%d jobs began and %d succeeded; a drain lets them end", began, ended)
	}
}

func TestServeAfterKill(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := spawn(t, "serve", "--data", dir, "--listen", "127.0.0.1:-1", "--sync-interval", "always")
	id := weft(t, "", "enqueue", "s", "--input-ref", "data:,x", "--server", first.url()).want(t, app.ExitDone).lines()[0]
	weft(t, "", "serve", "--data", dir, "--listen", "127.0.0.1:-1").want(t, app.ExitFailed,
		dir, fmt.Sprintf("process %d", first.cmd.Process.Pid), "--data")
	first.signal(syscall.SIGKILL)
	first.wait().want(t, -1, "loses nothing")
	second := spawn(t, "serve", "--data", dir, "--listen", "127.0.0.1:-1")
	weft(t, "", "job", "get", id, "--server", second.url()).want(t, app.ExitDone)
}

func TestWatchPrintsChanges(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	first := enqueueMany(t, s, 1)[0]
	watch := spawn(t, s.args([]string{"job", "watch", "--stage", "slow"})...)
	poll(t, "the job as it is", func() bool { return strings.Contains(watch.out.String(), first+" slow waiting\n") })
	s.weft(t, "job", "cancel", first, "--reason", "enough").want(t, app.ExitDone)
	poll(t, "the change", func() bool { return strings.Contains(watch.out.String(), first+" slow cancelled enough\n") })
	watch.signal(syscall.SIGINT)
	watch.wait().want(t, app.ExitDone)
}

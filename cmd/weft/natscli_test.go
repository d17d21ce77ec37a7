package main

// These tests drive the nats command as an operator would, against processes of
// weft, and look at what it prints. It is the release that
// internal/tools/natscli/go.mod names.

import (
	"encoding/json"
	"io"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/creack/pty"

	"github.com/weft-fabric/weft/internal/app"
	"github.com/weft-fabric/weft/internal/natstest"
	"github.com/weft-fabric/weft/job"
)

// natsCLI is the nats command, for one server.
type natsCLI struct {
	path, url string
}

func newNATSCLI(t *testing.T, url string) natsCLI {
	t.Helper()
	return natsCLI{natstest.Command(t), url}
}

func (n natsCLI) command(t *testing.T, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(t.Context(), n.path, append(args, "--server", n.url)...)
	cmd.WaitDelay = patience
	return cmd
}

// run gives what a call of the command prints.
func (n natsCLI) run(t *testing.T, args ...string) string {
	t.Helper()
	out, err := n.command(t, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("nats %v: %v\n%s", args, err, out)
	}
	return string(out)
}

// onTerminal is run with a terminal, which some commands ask for.
func (n natsCLI) onTerminal(t *testing.T, args ...string) string {
	t.Helper()
	cmd := n.command(t, args...)
	return onTerminal(t, cmd)
}

func onTerminal(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	terminal, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 400, Cols: 400})
	if err != nil {
		t.Fatal(err)
	}
	defer terminal.Close()
	out, _ := io.ReadAll(terminal) // the end of the process is an error of the read
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
	}
	return string(out)
}

// record reads a job's record.
func (n natsCLI) record(t *testing.T, id string) (j job.Job) {
	t.Helper()
	if err := json.Unmarshal([]byte(n.run(t, "kv", "get", "weft", "job."+id, "--raw")), &j); err != nil {
		t.Fatal(err)
	}
	return j
}

// reaches waits until the record that the nats command reads has the state.
func (n natsCLI) reaches(t *testing.T, id string, state job.State) job.Job {
	t.Helper()
	poll(t, "state "+string(state)+" of job "+id, func() bool {
		out, err := n.command(t, "kv", "get", "weft", "job."+id, "--raw").Output()
		return err == nil && strings.Contains(string(out), `"state":"`+string(state)+`"`)
	})
	return n.record(t, id)
}

// wantWords fails unless the text has the words of each part next to each other,
// however they are spaced.
func wantWords(t *testing.T, text string, parts ...string) {
	t.Helper()
	spaced := strings.Join(strings.Fields(text), " ")
	for _, part := range parts {
		if !strings.Contains(spaced, part) {
			t.Errorf("it does not print %q:\n%s", part, text)
		}
	}
}

// TestTheNATSCommandAlone publishes jobs and reads all there is to know of them
// with the nats command.
func TestTheNATSCommandAlone(t *testing.T) {
	t.Parallel()
	serve := spawn(t, "serve", "--data", t.TempDir(), "--listen", "127.0.0.1:-1")
	s := &site{url: serve.url()}
	s.connect(t)
	cli := newNATSCLI(t, s.url)
	wantWords(t, cli.run(t, "--version"), "v0.5.0")
	spawn(t, s.args([]string{"work", "hash", "--id", "rn", "--lease", "45s", "--", "sh", "-c", `test "$WEFT_JOB_ID" != bad || { echo no good >&2; exit 65; }; echo done`})...)
	poll(t, "the stage", func() bool { return strings.Contains(cli.run(t, "stream", "ls", "-n"), "WEFT_hash") })

	events := &process{t: t}
	sub := cli.command(t, "sub", "weft.event.>")
	sub.Stdout, sub.Stderr = &events.out, &events.err
	if err := sub.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = sub.Process.Signal(syscall.SIGTERM) // it may have ended
		_ = sub.Wait()
	})
	poll(t, "subscription of nats sub", func() bool {
		return s.conn.Publish("weft.event.probe", nil) == nil && strings.Contains(events.out.String(), "weft.event.probe")
	})

	cli.run(t, "pub", "weft.work.hash.raw1", `{"input_ref":"data:,hi"}`)
	cli.run(t, "pub", "weft.work.hash.bad", `{"input_ref":"data:,hi"}`)
	s.weft(t, "enqueue", "hash", "--input-ref", "data:,x", "--id", "kept").want(t, app.ExitDone)
	s.weft(t, "enqueue", "idle", "--input-ref", "data:,x", "--id", "waits").want(t, app.ExitDone)

	if j := cli.reaches(t, "raw1", job.StateSucceeded); j.Stage != "hash" || j.Attempt != 1 || j.Fence != 1 || !strings.HasPrefix(j.OutputRef, "data:") {
		t.Errorf("the record of raw1 is %+v", j)
	}
	if j := cli.reaches(t, "bad", job.StateFailed); !strings.Contains(j.Reason, "no good") {
		t.Errorf("the record of bad is %+v", j)
	}
	cli.reaches(t, "kept", job.StateSucceeded)
	cli.reaches(t, "waits", job.StateWaiting)

	t.Run("sub", func(t *testing.T) {
		for id, want := range map[string][]string{
			"raw1": {"leased", "succeeded"}, "bad": {"leased", "failed"}, "kept": {"waiting", "leased", "succeeded"}, "waits": {"waiting"},
		} {
			poll(t, "events of job "+id, func() bool { return len(eventsOf(events.out.String(), id)) >= len(want) })
			if got := eventsOf(events.out.String(), id); !slices.Equal(got, want) {
				t.Errorf("sub prints the states %v of job %s, want %v", got, id, want)
			}
		}
	})
	t.Run("kv", func(t *testing.T) {
		wantWords(t, cli.run(t, "kv", "ls", "weft"), "job.raw1", "job.bad", "job.kept", "job.waits", "stage.hash", "worker.rn", "leader.keeper")
		wantWords(t, cli.run(t, "kv", "history", "weft", "job.raw1"), "History for weft > job.raw1", "│ PUT │", `{"id":"raw1"`)
		s.weft(t, "job", "cancel", "waits", "--reason", "enough").want(t, app.ExitDone)
		wantWords(t, cli.run(t, "kv", "get", "weft", "job.waits", "--raw"), `"state":"cancelled"`, `"reason":"enough"`)
	})
	t.Run("consumer", func(t *testing.T) {
		s.weft(t, "stage", "set", "hash", "--concurrency", "7").want(t, app.ExitDone)
		wantWords(t, cli.run(t, "consumer", "info", "WEFT_hash", "runners"),
			"Pull Mode: true", "Filter Subject: weft.work.hash.*", "Ack Policy: Explicit", "Ack Wait: 45.00s", "Max Ack Pending: 7",
			"weft.version: 1", "Unprocessed Messages: 0", "Outstanding Acks: 0")
	})
	t.Run("stream", func(t *testing.T) {
		view := cli.onTerminal(t, "stream", "view", "KV_weft", "100")
		wantWords(t, view, "Subject: $KV.weft.job.raw1", `{"id":"raw1","stage":"hash"`, "Subject: $KV.weft.stage.hash", "Reached apparent end of data")
		s.weft(t, "enqueue", "idle", "--input-ref", "data:,x", "--id", "item").want(t, app.ExitDone)
		wantWords(t, cli.run(t, "stream", "get", "WEFT_idle", "--last-for", "weft.work.idle.item"),
			"Subject weft.work.idle.item", "Weft-Revision:", `{"id":"item","stage":"idle"`)
		wantWords(t, cli.run(t, "stream", "info", "WEFT_idle"), "Weft work of stage idle", "Retention: WorkQueue", "weft.later.idle.*", "Messages: 1")
	})
	t.Run("micro", func(t *testing.T) {
		if got := cli.run(t, "req", "weft.api.get", `{"id":"raw1"}`, "--raw"); !strings.Contains(got, `"state":"succeeded"`) {
			t.Errorf("the service answers %s", got)
		}
		wantWords(t, cli.run(t, "micro", "ls"), "│ weft │", "Weft: enqueue jobs and read them")
		wantWords(t, cli.run(t, "micro", "info", "weft"), "Subject: weft.api.enqueue", "Subject: weft.api.claim", "weft.namespace: weft")
		wantWords(t, cli.run(t, "micro", "stats", "weft"), "│ get │ 1 │", "│ claim │ 0 │")
	})
}

var eventLine = regexp.MustCompile(`(?m)^\{"id":"([^"]+)".*?"state":"([a-z_]+)"`)

// eventsOf are a job's states in the order in which nats sub printed them.
func eventsOf(printed, id string) (states []string) {
	for _, found := range eventLine.FindAllStringSubmatch(printed, -1) {
		if found[1] == id {
			states = append(states, found[2])
		}
	}
	return states
}

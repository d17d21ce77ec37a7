package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/weft-fabric/weft/internal/app"
	"github.com/weft-fabric/weft/job"
)

// TestBackupDestroyRestore follows the manual: a backup by the nats command of a
// fabric that works, the loss of everything, and a restore. Every job of the backup
// comes to one outcome; one that had its outcome before the backup does not run
// again, one that got it after that does, and a work stream that is not restored at
// all is made anew.
func TestBackupDestroyRestore(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	backup, ran := filepath.Join(dir, "backup"), filepath.Join(dir, "ran")
	gate := filepath.Join(dir, "gate")
	// A held job runs until its gate is there. What it prints is more than a record
	// takes, and so an object.
	work := []string{"work", "hash", "--drain", "1s", "--concurrency", "4", "--", "sh", "-c",
		`echo $WEFT_JOB_ID.$WEFT_FENCE >> ` + ran + `; case $WEFT_JOB_ID in held*) until test -e ` + gate + `; do sleep 0.05; done;; esac; head -c 9000 /dev/zero`}

	first := spawn(t, "serve", "--data", filepath.Join(dir, "first"), "--listen", "127.0.0.1:-1")
	s := &site{url: first.url()}
	s.connect(t)
	cli := newNATSCLI(t, s.url)
	enqueue := func(stage, id string, more ...string) {
		s.weft(t, append([]string{"enqueue", stage, "--input-ref", "data:,x", "--id", id}, more...)...).want(t, app.ExitDone)
	}
	enqueue("hash", "done")
	s.weft(t, "stage", "set", "hash", "--lease", "2s").want(t, app.ExitDone)
	worker := spawn(t, s.args(work)...)
	s.weft(t, "job", "wait", "done", "--timeout", patience.String()).want(t, app.ExitDone)
	enqueue("hash", "held1")
	enqueue("hash", "held2")
	poll(t, "two running jobs", func() bool { return len(linesOf(ran)) == 3 })
	enqueue("other", "other")
	enqueue("hash", "after", "--after", "held1")
	enqueue("hash", "later", "--in", "1h")
	enqueue("other", "first", "--priority", "1")

	cli.run(t, "backup", "account", backup, "--force")
	wantWords(t, cli.run(t, "backup", "validate", filepath.Join(backup, "KV_weft")), "OK:")

	writeFile(t, gate, "")
	s.weft(t, "job", "wait", "held1", "held2", "after", "--timeout", patience.String()).want(t, app.ExitDone)
	enqueue("hash", "young") // is not in the backup
	worker.signal(syscall.SIGTERM)
	worker.wait().want(t, app.ExitDone)
	first.signal(syscall.SIGKILL)
	first.wait()

	second := spawn(t, "serve", "--data", filepath.Join(dir, "second"), "--listen", "127.0.0.1:-1")
	cli = newNATSCLI(t, second.url())
	cli.run(t, "stream", "rm", "KV_weft", "-f")
	if err := os.RemoveAll(filepath.Join(backup, "WEFT_other")); err != nil { // the audit makes it anew
		t.Fatal(err)
	}
	wantWords(t, cli.run(t, "backup", "restore", "account", backup), `Restored stream "KV_weft"`, `Restored stream "WEFT_hash"`, `Restored stream "OBJ_weft-output"`)
	s = &site{url: second.url()}
	s.connect(t)
	outcomes := outcomesOn(t, s.conn)
	for id, state := range map[string]job.State{"done": job.StateSucceeded, "held1": job.StateLeased, "held2": job.StateLeased, "other": job.StateWaiting} {
		if j := cli.record(t, id); j.State != state && j.State.Terminal() != (state == job.StateSucceeded) {
			t.Errorf("job %s is restored as %s, want %s", id, j.State, state)
		}
	}
	s.weft(t, "job", "get", "young").want(t, app.ExitNotFound)

	before := len(linesOf(ran))
	spawn(t, s.args(work)...)
	other := slices.Clone(work)
	other[1] = "other"
	spawn(t, s.args(other)...)
	s.weft(t, "job", "wait", "held1", "held2", "after", "other", "first", "--timeout", patience.String()).want(t, app.ExitDone)
	s.weft(t, "job", "get", "later").want(t, app.ExitDone)
	if j := cli.record(t, "later"); j.State != job.StateWaiting {
		t.Errorf("the job of an hour later is %s", j.State)
	}
	if out := s.weft(t, "job", "output", "done").want(t, app.ExitDone).out; len(out) != 9000 {
		t.Errorf("the output from before the backup has %d bytes", len(out))
	}
	again := linesOf(ran)[before:]
	slices.Sort(again)
	// The two that ran during the backup had fence 1 and lost their lease. What came
	// after the backup is forgotten: a fence of it is handed out once more.
	if want := []string{"after.1", "first.1", "held1.2", "held2.2", "other.1"}; !slices.Equal(again, want) {
		t.Errorf("after the restore there ran %v, want %v", again, want)
	}
	for _, id := range []string{"after", "first", "held1", "held2", "other"} {
		poll(t, "event of job "+id, func() bool { return len(outcomes(id)) > 0 })
		if got := outcomes(id); !slices.Equal(got, []string{"succeeded"}) {
			t.Errorf("job %s has the outcomes %v", id, got)
		}
	}
	if got := outcomes("done"); len(got) > 0 {
		t.Errorf("the job that was done has the outcomes %v again", got)
	}
	s.weft(t, "doctor").want(t, app.ExitDone)
}

// outcomesOn hears every record that says how a job ended.
func outcomesOn(t *testing.T, nc *nats.Conn) func(id string) []string {
	t.Helper()
	var mu sync.Mutex
	seen := map[string][]string{}
	_, err := nc.Subscribe("weft.event.job.>", func(m *nats.Msg) {
		var j job.Job
		if json.Unmarshal(m.Data, &j) == nil && j.State.Terminal() {
			mu.Lock()
			defer mu.Unlock()
			seen[j.ID] = append(seen[j.ID], string(j.State))
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	return func(id string) []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(seen[id])
	}
}

// TestFencesAreRaisedAfterARestore does what the manual says to whoever has fenced
// writes elsewhere: the next fence is above all that were handed out.
func TestFencesAreRaisedAfterARestore(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	cli := newNATSCLI(t, s.url)
	s.weft(t, "enqueue", "hash", "--input-ref", "data:,x", "--id", "one").want(t, app.ExitDone)
	raised := strings.Replace(cli.run(t, "kv", "get", "weft", "job.one", "--raw"), `"fence":0`, `"fence":1000000`, 1)
	cli.run(t, "kv", "put", "weft", "job.one", raised)
	spawn(t, s.args([]string{"work", "hash", "--", "sh", "-c", "echo $WEFT_FENCE"})...)
	s.weft(t, "job", "wait", "one", "--timeout", patience.String()).want(t, app.ExitDone)
	if got := s.weft(t, "job", "output", "one").want(t, app.ExitDone).out; got != fmt.Sprintln(1000001) {
		t.Errorf("the fence is %s", got)
	}
}

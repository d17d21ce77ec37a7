package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/weft-fabric/weft/internal/app"
)

func TestErrorsDoNotShowWhoAsks(t *testing.T) {
	t.Parallel()
	for secret, server := range map[string]string{
		"s3cret": "u:s3cret@127.0.0.1:1",
		"s3CRET": "nats://u:s3CRET@127.0.0.1:1",
		"t0ken":  "nats://t0ken@127.0.0.1:1",
		"t0KEN":  "t0KEN@127.0.0.1:1,127.0.0.1:2",
	} {
		r := weft(t, "", "job", "ls", "-s", server).want(t, app.ExitNoServer, "127.0.0.1:1")
		if strings.Contains(r.out+r.err, secret) {
			t.Errorf("-s %s prints %s%s", server, r.out, r.err)
		}
	}
}

func TestServeRefusesEmptySettings(t *testing.T) {
	t.Parallel()
	for _, flag := range []string{"--data", "--listen"} {
		// The other flag keeps a server that starts after all out of the way.
		args := []string{"serve", "--data", t.TempDir(), "--listen", "127.0.0.1:-1", flag, ""}
		r := weft(t, "", args...).want(t, app.ExitUsage, flag+" is empty")
		if strings.Count(r.err, "\n") != 1 || r.out != "" {
			t.Errorf("%s: stdout %q, stderr %q", flag, r.out, r.err)
		}
	}
}

// putRecord writes what stands under a job's id, past all checks.
func (s *site) putRecord(t *testing.T, id, text string) {
	t.Helper()
	if _, err := s.conn.Request("$KV.weft.job."+id, []byte(text), patience); err != nil {
		t.Fatal(err)
	}
}

func TestJobGetPrintsNoControlBytes(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	id := s.weft(t, "enqueue", "hash", "--input-ref", "data:,x").want(t, app.ExitDone).lines()[0]
	record := s.weft(t, "job", "get", id, "--json").want(t, app.ExitDone).out
	evil := `a\u001b[2J\u009b1m\nstate                  succeeded\r\u0007\u202eb`
	for _, member := range []string{
		`"labels":{"l":"` + evil + `","` + evil + `":"v"}`,
		`"reason":"` + evil + `"`,
		`"payload":{"p":"x` + "\u009b" + `"}`,
		`"key":"` + evil + `"`,
		`"output_ref":"` + evil + `"`,
		`"` + evil + `":1`,
		`"attempts_log":[{"attempt":1,"fence":1,"worker":"` + evil + `","started":"2026-05-01T12:00:00Z","ended":"2026-05-01T12:00:01Z","outcome":"` + evil + `","reason":"` + evil + `"}]`,
	} {
		s.putRecord(t, id, strings.Replace(record, "{", "{"+member+",", 1))
		r := s.weft(t, "job", "get", id).want(t, app.ExitDone)
		if i := strings.IndexFunc(r.out, func(c rune) bool { return c != '\n' && !unicode.IsPrint(c) }); i >= 0 {
			t.Errorf("%s prints %q", member, r.out)
		}
		if slices.Contains(r.lines(), "state                  succeeded") {
			t.Errorf("%s passes for a line of its own:\n%s", member, r.out)
		}
	}
}

func TestJobListGoesOnAfterARecordThatCannotBeRead(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for _, id := range []string{"one", "three"} {
		s.weft(t, "enqueue", "hash", "--id", id, "--input-ref", "data:,x").want(t, app.ExitDone)
	}
	s.putRecord(t, "two", "garbage")
	for _, flags := range [][]string{nil, {"--json"}} {
		r := s.weft(t, append([]string{"job", "ls"}, flags...)...).want(t, app.ExitDone, "two")
		for _, id := range []string{"one", "three"} {
			if !strings.Contains(r.out, id) {
				t.Errorf("%v: stdout has no %s:\n%s", flags, id, r.out)
			}
		}
	}
}

// As `weft run --jobs - | head -1` does when head has gone.
func TestRunLeavesNothingBehindWhenStdoutIsClosed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	var stderr syncBuffer
	cmd := exec.Command(os.Args[0], "run", "s", "--jobs", "-", "--", "echo", "hello")
	cmd.Env = append(os.Environ(), asProgram+"=1", "TMPDIR="+dir)
	cmd.Stdin = strings.NewReader(strings.Repeat(`{"input_ref":"x"}`+"\n", 20))
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = writer, &stderr, patience
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = reader.Close()
	_ = writer.Close()
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case <-ended:
	case <-time.After(patience):
		t.Fatalf("the run did not end\n%s", stderr.String())
	}
	if code := cmd.ProcessState.ExitCode(); code <= app.ExitDone {
		t.Errorf("exit %d: %s", code, stderr.String())
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
}

func TestJobOutputSaysTheWholeReason(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	endedJob(t, s, "one", "hash")
	record := s.weft(t, "job", "get", "one", "--json").want(t, app.ExitDone).out
	long := strings.Repeat("a line of the trace, ", 10)
	s.putRecord(t, "one", strings.Replace(record, `"reason":"enough"`, `"reason":"`+long+`\n\n  at last the cause\u001b[2J\n"`, 1))
	r := s.weft(t, "job", "output", "one").want(t, app.ExitRefused, "no output: "+strings.TrimSpace(long)+"; at last the cause[2J\n")
	if strings.Count(r.err, "\n") != 1 {
		t.Errorf("stderr is %q", r.err)
	}
}

func TestJobOutputThatIsGone(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.weft(t, "enqueue", "hash", "--id", "one", "--input-ref", "data:,x").want(t, app.ExitDone)
	spawn(t, s.args([]string{"work", "hash", "--", "head", "-c", "20000", "/dev/zero"})...)
	s.weft(t, "job", "output", "one", "--wait").want(t, app.ExitDone)
	js, err := jetstream.New(s.conn)
	if err != nil {
		t.Fatal(err)
	}
	objects, err := js.ObjectStore(t.Context(), "weft-output")
	if err != nil {
		t.Fatal(err)
	}
	all, err := objects.List(t.Context())
	if err != nil || len(all) != 1 {
		t.Fatalf("%d objects, %v", len(all), err)
	}
	if err := objects.Delete(t.Context(), all[0].Name); err != nil {
		t.Fatal(err)
	}
	s.weft(t, "job", "output", "one").want(t, app.ExitNotFound, "weft: output of one: reference ", "nats-obj://weft-output/", "it is not there")
	if err := js.DeleteObjectStore(t.Context(), "weft-output"); err != nil {
		t.Fatal(err)
	}
	s.weft(t, "job", "output", "one").want(t, app.ExitNotFound, "it is not there")
}

// What a misspelt name would be the cause of is said, but not to a program.
func TestEmptyTablesSayWhy(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for _, table := range []string{"job", "stage"} {
		s.weft(t, table, "ls").want(t, app.ExitDone, "weft: there is no stage in namespace weft\n")
	}
	s.weft(t, "enqueue", "hash", "--input-ref", "data:,x").want(t, app.ExitDone)
	s.weft(t, "job", "ls", "--stage", "nosuch").want(t, app.ExitDone, "weft: there is no stage \"nosuch\"\n")
	for _, flags := range [][]string{{"--stage", "nosuch", "--json"}, {"--stage", "hash", "--state", "failed"}} {
		if r := s.weft(t, append([]string{"job", "ls"}, flags...)...).want(t, app.ExitDone); r.err != "" {
			t.Errorf("%v: stderr %q", flags, r.err)
		}
	}
}

func TestFileWithoutSpecsIsSaid(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	file := writeFile(t, filepath.Join(t.TempDir(), "jobs.jsonl"), "\n  \n")
	s.weft(t, "enqueue", "hash", "--jobs", file).want(t, app.ExitDone, "weft: no specs in "+file)
	weft(t, "", "run", "hash", "--jobs", "-", "--", "cat").want(t, app.ExitDone, "weft: no specs in stdin")
}

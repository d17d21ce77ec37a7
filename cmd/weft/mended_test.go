package main

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

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

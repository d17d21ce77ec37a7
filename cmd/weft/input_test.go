package main

// These tests prove that an input comes to a command whatever its reference is, with
// the worker in a process of its own, and that no link and no credential shows.

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/weft-fabric/weft/internal/app"
	"github.com/weft-fabric/weft/internal/s3test"
	"github.com/weft-fabric/weft/job"
)

// asFetcher makes this test binary be a command that reads its input by its link:
// it says the link on stderr, fails the first attempt, and prints the input.
const asFetcher = "WEFT_TEST_AS_FETCHER"

func fetchInput() {
	link := os.Getenv("WEFT_INPUT_URL")
	_, _ = fmt.Fprintln(os.Stderr, "fetching "+link)
	if os.Getenv("WEFT_ATTEMPT") == "1" {
		os.Exit(1)
	}
	answer, err := http.Get(link)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = errors.New(answer.Status)
	}
	if err == nil {
		_, err = io.Copy(os.Stdout, answer.Body)
	}
	if err != nil {
		os.Exit(1)
	}
	os.Exit(0)
}

// bulky is an input of several messages and more than 5 MB.
var bulky = strings.Repeat("0123456789abcdef", 6<<20/16)

func hashOf(text string) string { return fmt.Sprintf("%x  -\n", sha256.Sum256([]byte(text))) }

// outcome waits for a job's end and gives its record.
func (s *site) outcome(t *testing.T, id string) job.Job {
	t.Helper()
	r := s.weft(t, "job", "wait", id, "--timeout", patience.String())
	if r.code != app.ExitDone && r.code != app.ExitFailed {
		t.Fatalf("wait: %s", r.err)
	}
	return s.get(t, id)
}

func (s *site) wantHash(t *testing.T, id, text string) {
	t.Helper()
	if j := s.outcome(t, id); j.State != job.StateSucceeded {
		t.Fatalf("job %s is %s: %s", id, j.State, j.Reason)
	}
	if r := s.weft(t, "job", "output", id).want(t, app.ExitDone); r.out != hashOf(text) {
		t.Errorf("%s: the output is %q, want %q", id, r.out, hashOf(text))
	}
}

func TestAFileIsTheInput(t *testing.T) {
	t.Parallel()
	s, dir := newSite(t), t.TempDir()
	large := writeFile(t, filepath.Join(dir, "large"), bulky)
	small := writeFile(t, filepath.Join(dir, "small"), "hello")
	ids := map[string]string{}
	enqueue := func(stdin string, args ...string) string {
		t.Helper()
		id := weft(t, stdin, s.args(append([]string{"enqueue", "hash"}, args...))...).want(t, app.ExitDone).lines()[0]
		return id
	}
	ids[enqueue("", "--input", small)] = "hello"
	ids[enqueue("", "--input", large, "--id", "large")] = bulky
	ids[enqueue("", "--input", large, "--id", "large")] = bulky // once more, nothing new
	ids[enqueue("piped"+bulky, "--input", "-")] = "piped" + bulky
	if len(ids) != 3 {
		t.Errorf("%d jobs, want 3", len(ids))
	}
	if ref, want := s.get(t, "large").InputRef, fmt.Sprintf("nats-obj://weft-input/%x", sha256.Sum256([]byte(bulky))); ref != want {
		t.Errorf("the reference is %s, want %s", ref, want)
	}
	spawn(t, s.args([]string{"work", "hash", "--stdin", "input", "--", "sha256sum"})...)
	for id, text := range ids {
		s.wantHash(t, id, text)
	}
}

func TestAnInputFileIsThereForItsAttemptAlone(t *testing.T) {
	t.Parallel()
	s, temp := newSite(t), t.TempDir()
	path := filepath.Join(t.TempDir(), "path")
	s.weft(t, "enqueue", "hash", "--id", "large", "--input", writeFile(t, filepath.Join(t.TempDir(), "large"), bulky)).want(t, app.ExitDone)
	s.weft(t, "enqueue", "hash", "--id", "text", "--input-ref", "data:,hello").want(t, app.ExitDone)
	work := spawnWith(t, []string{"TMPDIR=" + temp}, s.args([]string{"work", "hash", "--input-file", "--", "sh", "-c",
		`grep -q '"input_ref"' && echo "$WEFT_INPUT_FILE" >> ` + path + ` && sha256sum < "$WEFT_INPUT_FILE"`})...)
	s.wantHash(t, "large", bulky)
	s.wantHash(t, "text", "hello")
	work.signal(syscall.SIGTERM)
	work.wait().want(t, app.ExitDone)
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
	for _, name := range linesOf(path) {
		if filepath.Dir(name) != temp {
			t.Errorf("the file was %s, not in %s", name, temp)
		}
	}
}

func TestEnqueueOfAFileLeavesNothingHalfDone(t *testing.T) {
	t.Parallel()
	s, dir := newSite(t), t.TempDir()
	large := writeFile(t, filepath.Join(dir, "large"), bulky)
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"--input", filepath.Join(dir, "none")}, app.ExitUsage, "--input: open " + filepath.Join(dir, "none")},
		{[]string{"--input", dir}, app.ExitUsage, "is a folder"},
		{[]string{"--input="}, app.ExitUsage, "--input is empty"},
		{[]string{"--input", large, "--input-ref", "x"}, app.ExitUsage, "give --input or --input-ref, not both"},
		{[]string{"--input", large, "--jobs", large}, app.ExitUsage, "jobs"},
		{[]string{"--input", large, "--id", "a.b"}, app.ExitUsage, "id"},
		{[]string{"--input", large, "--priority", "9"}, app.ExitUsage, "priority 9"},
		{[]string{"--input", large, "--max-input", "1000"}, app.ExitUsage, "more than 1000 bytes"},
		{[]string{"--input", large, "--max-input", "0"}, app.ExitUsage, "max_input 0"},
	} {
		r := s.weft(t, append([]string{"enqueue", "hash"}, c.args...)...).want(t, c.code, c.says)
		if strings.Count(r.err, "\n") != 1 || r.out != "" {
			t.Errorf("%v: stdout %q, stderr %q", c.args, r.out, r.err)
		}
	}
	if r := s.weft(t, "job", "ls", "--json").want(t, app.ExitDone); r.out != "" {
		t.Errorf("there are jobs: %s", r.out)
	}
	if _, err := s.conn.Request("$JS.API.STREAM.INFO.OBJ_weft-input", nil, patience); err != nil {
		t.Fatal(err)
	}
	info, _ := s.conn.Request("$JS.API.STREAM.INFO.OBJ_weft-input", nil, patience)
	if !strings.Contains(string(info.Data), "10059") { // stream not found
		t.Errorf("something was uploaded: %s", info.Data)
	}
}

func TestReferencesThatCannotBeOpenedEndTheirJobs(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	web := httptest.NewServer(http.NotFoundHandler())
	defer web.Close()
	host := strings.TrimPrefix(web.URL, "http://")
	spawn(t, s.args([]string{"work", "hash", "--stdin", "input", "--max-input", "4", "--http-hosts", host, "--", "cat"})...)
	for ref, says := range map[string]string{
		"nats-obj://weft-input/none":        "nats-obj://weft-input/none",
		"nats-obj://nobody/none":            "nats-obj://nobody/none",
		"s3://photos/1.jpg":                 `scheme "s3" is not enabled`,
		"gopher://h/x":                      `scheme "gopher" is not enabled`,
		"just text":                         "it has no scheme",
		web.URL + "/none?token=s3cret":      "404",
		"http://127.0.0.1:1/x?token=s3cret": "is not among those",
		"data:,hello":                       "more than 4 bytes",
	} {
		id := s.weft(t, "enqueue", "hash", "--input-ref", ref).want(t, app.ExitDone).lines()[0]
		j := s.outcome(t, id)
		if j.State != job.StateFailed || j.Attempt != 1 || !strings.Contains(j.Reason, says) || strings.Contains(j.Reason, "s3cret") || strings.Contains(j.Reason, "\n") {
			t.Errorf("%s: %s after attempt %d: %s", ref, j.State, j.Attempt, j.Reason)
		}
	}
}

func TestAnHTTPInputStreams(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, bulky) }))
	defer web.Close()
	id := s.weft(t, "enqueue", "hash", "--input-ref", web.URL+"/bulky").want(t, app.ExitDone).lines()[0]
	spawn(t, s.args([]string{"work", "hash", "--stdin", "input", "--http-hosts", strings.TrimPrefix(web.URL, "http://"), "--", "sha256sum"})...)
	s.wantHash(t, id, bulky)
}

// TestS3InputsAndOutputs has the command fetch its input by link. It fails once, with
// the link as its reason; the record, the items and the log have it nowhere.
func TestS3InputsAndOutputs(t *testing.T) {
	t.Parallel()
	server := s3test.Start(t, "photos")
	server.Put(t, "photos", "in/1.jpg", []byte(bulky))
	s := newSite(t)
	var wire syncBuffer // all that is written, by whomever
	for _, subject := range []string{"$KV.weft.>", "weft.work.*.*", "weft.later.*.*", "weft.event.>"} {
		if _, err := s.conn.Subscribe(subject, func(m *nats.Msg) { _, _ = wire.Write(m.Data) }); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.conn.Flush(); err != nil {
		t.Fatal(err)
	}
	keys := []string{"AWS_ACCESS_KEY_ID=" + s3test.AccessKey, "AWS_SECRET_ACCESS_KEY=" + s3test.SecretKey}
	flags := []string{"--s3-endpoint", server.URL}
	args := append([]string{"work", "hash", "--log-level", "debug", "--s3-output", "s3://photos/out"}, flags...)
	work := spawnWith(t, append(keys, "WEFT_BACKOFF_INITIAL=10ms"), s.args(append(args, "--", "env", asFetcher+"=1", os.Args[0]))...)
	s.weft(t, "enqueue", "hash", "--id", "one", "--input-ref", "s3://photos/in/1.jpg").want(t, app.ExitDone)
	j := s.outcome(t, "one")
	if j.State != job.StateSucceeded || j.Attempt != 2 || j.OutputRef != "s3://photos/out/one/2" || j.InputRef != "s3://photos/in/1.jpg" {
		t.Fatalf("%s after attempt %d: %s %s\n%s", j.State, j.Attempt, j.OutputRef, j.Reason, work.err.String())
	}
	s.weft(t, "job", "output", "one").want(t, app.ExitFailed, "not enabled")
	read := spawnWith(t, keys, s.args(append([]string{"job", "output", "one"}, flags...))...).wait().want(t, app.ExitDone)
	if read.out != bulky {
		t.Errorf("the output has %d bytes of %d", len(read.out), len(bulky))
	}
	work.signal(syscall.SIGTERM)
	work.wait().want(t, app.ExitDone, "fetching s3://photos/in/1.jpg")
	if !strings.Contains(string(j.AppendJSON(nil)), "fetching s3://photos/in/1.jpg") {
		t.Errorf("the log of attempts does not say what failed: %s", j.AppendJSON(nil))
	}
	for where, text := range map[string]string{"record": string(j.AppendJSON(nil)), "wire": wire.String(), "log": work.err.String() + work.out.String()} {
		for _, secret := range []string{"X-Amz", "Signature", s3test.AccessKey, s3test.SecretKey, server.URL} {
			if strings.Contains(text, secret) {
				t.Errorf("the %s shows %s", where, secret)
			}
		}
	}
}

func TestSourcesThatCannotWorkAreRefused(t *testing.T) {
	t.Parallel()
	for args, says := range map[string]string{
		"--http-hosts http://h/":                     "http.hosts",
		"--http-hosts *":                             "http.hosts",
		"--s3-endpoint here":                         "http://HOST[:PORT]",
		"--s3-endpoint http://u:s3cret@h":            "http://HOST[:PORT]",
		"--s3-output s3://b/x":                       "needs s3.endpoint",
		"--s3-endpoint http://h --s3-output b/x":     "s3://BUCKET",
		"--s3-endpoint http://h --s3-link-life 1ms":  "within 1s",
		"--stdin input --input-file":                 "give one",
		"--s3-endpoint http://h --s3-link-life soon": "is not a duration",
		"--max-input 0":                              "max_input 0",
	} {
		r := weft(t, "", append(append([]string{"work", "hash", "--server", "127.0.0.1:1"}, strings.Fields(args)...), "--", "true")...).want(t, app.ExitUsage, says)
		if strings.Count(r.err, "\n") != 1 || strings.Contains(r.err, "s3cret") {
			t.Errorf("%s: %s", args, r.err)
		}
	}
}

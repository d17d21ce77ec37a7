package main

import (
	"encoding/json"
	"strings"
	"syscall"
	"testing"

	"github.com/weft-fabric/weft/internal/app"
	"github.com/weft-fabric/weft/job"
)

// endedJob makes a job that has ended.
func endedJob(t *testing.T, s *site, id, stage string) {
	t.Helper()
	if _, err := s.fabric.Enqueue(t.Context(), job.Spec{ID: id, Stage: stage, InputRef: "data:,x", Payload: json.RawMessage(`{"a":"<1>"}`)}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.fabric.Cancel(t.Context(), id, "enough"); err != nil {
		t.Fatal(err)
	}
}

// TestOutcomesGoOnWhereTheyWere runs the command twice: what ended meanwhile is
// printed by the second, and what the first has printed is not.
func TestOutcomesGoOnWhereTheyWere(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	endedJob(t, s, "one", "hash")
	endedJob(t, s, "other", "else")
	first := spawn(t, s.args([]string{"job", "outcomes", "billing", "--stage", "hash"})...)
	poll(t, "the job that had ended", func() bool { return strings.HasSuffix(first.out.String(), " one hash cancelled enough\n") })
	first.signal(syscall.SIGINT)
	first.wait().want(t, app.ExitDone)
	endedJob(t, s, "another", "else")
	endedJob(t, s, "two", "hash")

	second := spawn(t, s.args([]string{"job", "outcomes", "billing", "--json"})...) // with the filter that it has
	poll(t, "the job that ended meanwhile", func() bool { return strings.Contains(second.out.String(), "\n") })
	var line struct {
		ID         string
		Revision   uint64
		Deliveries uint64
		Job        json.RawMessage
	}
	if err := json.Unmarshal([]byte(second.out.String()), &line); err != nil {
		t.Fatalf("%q: %v", second.out.String(), err)
	}
	stored, err := s.fabric.Raw(t.Context(), "two")
	if err != nil || string(line.Job) != string(stored) || !strings.HasPrefix(line.ID, "two/") || line.Revision == 0 || line.Deliveries != 1 {
		t.Errorf("%+v of the record %s, %v", line, stored, err)
	}
	poll(t, "the feed with one taker and nothing left", func() bool {
		var f feedLine
		r := s.weft(t, "job", "outcomes", "ls", "--json").want(t, app.ExitDone)
		return json.Unmarshal([]byte(r.out), &f) == nil && f.Name == "billing" && f.Stage == "hash" && f.Takers == 1 && f.Pending == 0 && f.Unacked == 0 && !f.LastAck.IsZero()
	})
	if r := s.weft(t, "job", "outcomes", "ls").want(t, app.ExitDone); !strings.HasSuffix(r.lines()[1], "  ok") {
		t.Errorf("the table is\n%s", r.out)
	}
	s.weft(t, "job", "outcomes", "billing", "--stage", "else").want(t, app.ExitRefused, "weft: feed billing was made with stage hash, not else", "weft job outcomes rm billing")
	s.weft(t, "job", "outcomes", "rm", "billing").want(t, app.ExitDone)
	second.wait().want(t, app.ExitNotFound, "there is no such feed of outcomes")
	s.weft(t, "job", "outcomes", "rm", "billing").want(t, app.ExitNotFound, "there is no such feed of outcomes")
	if r := s.weft(t, "job", "outcomes", "ls", "--json").want(t, app.ExitDone); r.out != "" {
		t.Errorf("removed, and %s", r.out)
	}
}

// TestOutcomesOfNobodyWhoReads: a line that cannot be written ends the command, and
// its outcome is the next one's.
func TestOutcomesOfNobodyWhoReads(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	endedJob(t, s, "one", "hash")
	var err syncBuffer
	code := Execute(t.Context(), s.args([]string{"job", "outcomes", "billing"}), Streams{In: strings.NewReader(""), Out: brokenPipe{}, Err: &err})
	result{code, "", err.String()}.want(t, app.ExitFailed, "broken pipe")
	next := spawn(t, s.args([]string{"job", "outcomes", "billing"})...)
	poll(t, "the outcome", func() bool { return strings.Contains(next.out.String(), " one hash cancelled") })
	next.signal(syscall.SIGTERM)
	next.wait().want(t, app.ExitDone)
}

type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, syscall.EPIPE }

func TestWatchOfAJobThatIsNotThere(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	endedJob(t, s, "one", "hash")
	r := s.weft(t, "job", "watch", "one", "nosuch").want(t, app.ExitNotFound, "nosuch")
	if got := s.weft(t, "job", "get", "nosuch"); got.err != r.err || r.out != "" {
		t.Errorf("watch says %q and prints %q, get says %q", r.err, r.out, got.err)
	}
}

package main

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode"

	"github.com/weft-fabric/weft/fabric"
	"github.com/weft-fabric/weft/internal/app"
	"github.com/weft-fabric/weft/job"
)

// TestJobExplain follows the commands that it proposes, until the job has ended.
func TestJobExplain(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	id := enqueueMany(t, s, 1)[0]
	s.weft(t, "stage", "pause", "slow", "--reason", "the disk\x1b[2J is full").want(t, app.ExitDone)
	r := s.weft(t, "job", "explain", id).want(t, app.ExitDone)
	lines := r.lines()
	if !strings.HasPrefix(lines[0], id+" does not run: stage slow is paused since ") || !strings.HasSuffix(lines[0], ": the disk[2J is full") {
		t.Errorf("the verdict is %q", lines[0])
	}
	for _, line := range []string{"findings", "what would move it", "  begin its jobs again: weft stage resume slow", "  a worker of the stage: weft work slow -- CMD"} {
		if strings.Count(r.out, "\n"+line+"\n") != 1 {
			t.Errorf("there is not one line %q:\n%s", line, r.out)
		}
	}
	if i := strings.IndexFunc(r.out, func(c rune) bool { return c != '\n' && !unicode.IsPrint(c) }); i >= 0 {
		t.Errorf("it prints %q", r.out)
	}
	s.weft(t, "stage", "resume", "slow").want(t, app.ExitDone)
	spawn(t, s.args([]string{"work", "slow", "--", "true"})...)
	s.weft(t, "job", "wait", id).want(t, app.ExitDone)
	r = s.weft(t, "job", "explain", id).want(t, app.ExitDone)
	if !strings.HasPrefix(r.out, id+" has succeeded: it ended at ") || !strings.Contains(r.out, "weft job output "+id) {
		t.Errorf("it prints %q", r.out)
	}
}

// TestJobExplainJSON reads the objects of several jobs as a program would.
func TestJobExplainJSON(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	ids := enqueueMany(t, s, 2)
	blocked, err := s.fabric.Enqueue(t.Context(), job.Spec{Stage: "slow", InputRef: "x", Dependencies: ids})
	if err != nil {
		t.Fatal(err)
	}
	s.putRecord(t, "broken", "garbage")
	r := s.weft(t, "job", "explain", "--json", ids[1], blocked.ID, "nobody", "broken").want(t, app.ExitNotFound, "missing_job", "nobody")
	var got []string
	for _, line := range r.lines() {
		var e fabric.Explanation
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		text := e.State
		for _, c := range e.Findings {
			text += " " + string(c.Code)
			if c.Text == "" || c.Moves == nil || c.Fields == nil {
				t.Errorf("%+v", c)
			}
		}
		got = append(got, text)
	}
	want := "waiting no_worker queued no_keeper\n" +
		"waiting waits_on waits_on no_worker no_keeper\n" +
		"unreadable record_unreadable no_keeper"
	if text := strings.Join(got, "\n"); text != want {
		t.Errorf("got\n%s\nwant\n%s", text, want)
	}
	var members map[string]any
	if err := json.Unmarshal([]byte(r.lines()[0]), &members); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"id", "stage", "state", "at", "verdict", "findings"} {
		if members[name] == nil {
			t.Errorf("no member %s in %s", name, r.lines()[0])
		}
	}
}

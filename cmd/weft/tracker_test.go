package main

import (
	"strings"
	"testing"
	"time"

	"github.com/weft-fabric/weft/job"
)

// at makes a job in a state, which waits on others.
func at(id string, state job.State, waitingOn ...string) job.Job {
	return job.Job{Spec: job.Spec{ID: id}, State: state, WaitingOn: waitingOn}
}

// obedient makes a job that is cancelled when a dependency fails.
func obedient(j job.Job) job.Job {
	j.OnDependencyFailure = job.CancelOnFailure
	return j
}

func TestTrackerIsDone(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		jobs []job.Job
		want bool
	}{
		"nothing seen":           {nil, false},
		"all ended":              {[]job.Job{at("a", job.StateSucceeded), at("b", job.StateFailed)}, true},
		"one unseen":             {[]job.Job{at("a", job.StateSucceeded)}, false},
		"one runs":               {[]job.Job{at("a", job.StateSucceeded), at("b", job.StateLeased)}, false},
		"one waits":              {[]job.Job{at("a", job.StateFailed), at("b", job.StateRetryWaiting)}, false},
		"one is blocked":         {[]job.Job{at("a", job.StateFailed), at("b", job.StateWaiting, "a")}, true},
		"one is about to go":     {[]job.Job{at("a", job.StateSucceeded), at("b", job.StateWaiting, "a")}, false},
		"each waits for another": {[]job.Job{at("a", job.StateWaiting, "b"), at("b", job.StateWaiting, "a")}, true},
		"waits for itself":       {[]job.Job{at("a", job.StateSucceeded), at("b", job.StateWaiting, "b")}, true},
		"other is missing":       {[]job.Job{at("a", job.StateSucceeded), at("b", job.StateWaiting, "c")}, true},
		"other runs":             {[]job.Job{at("c", job.StateLeased), at("a", job.StateSucceeded), at("b", job.StateWaiting, "c")}, false},
		"other failed":           {[]job.Job{at("c", job.StateFailed), at("a", job.StateSucceeded), at("b", job.StateWaiting, "c")}, true},
		"about to be cancelled":  {[]job.Job{at("a", job.StateFailed), obedient(at("b", job.StateWaiting, "a"))}, false},
		"retried after failing":  {[]job.Job{at("a", job.StateFailed), at("b", job.StateFailed), at("a", job.StateRetryWaiting)}, false},
	} {
		tr := newTracker()
		tr.want("a")
		tr.want("b")
		tr.want("a")
		for _, j := range test.jobs {
			tr.see(j)
		}
		if got := tr.done(); got != test.want {
			t.Errorf("%s: done is %t", name, got)
		}
	}
}

func TestTrackerForgets(t *testing.T) {
	t.Parallel()
	tr := newTracker()
	tr.want("a")
	tr.want("b")
	tr.see(at("a", job.StateSucceeded))
	tr.see(at("b", job.StateWaiting))
	tr.forget("b")
	tr.forget("nobody")
	if !tr.done() || !tr.succeeded() || tr.total() != 1 {
		t.Errorf("done %t, succeeded %t, total %d", tr.done(), tr.succeeded(), tr.total())
	}
}

func TestPlainProgressComesNowAndThen(t *testing.T) {
	t.Parallel()
	var out syncBuffer
	tr := newTracker()
	tr.want("a")
	tr.want("b")
	tr.see(at("a", job.StateFailed))
	p := newProgress(&out, 2)
	p.show(tr)
	if out.String() != "" {
		t.Errorf("at once: %q", out.String())
	}
	p.last = time.Now().Add(-plainPause)
	p.show(tr)
	p.show(tr)
	p.finish()
	if want := "weft: 1 of 2 jobs have ended, 1 failed\n"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}

func TestTablesStream(t *testing.T) {
	t.Parallel()
	var out syncBuffer
	table := newTable(&out, "A", "B")
	for range pageRows {
		if err := table.row("short", "x"); err != nil {
			t.Fatal(err)
		}
	}
	if !strings.HasPrefix(out.String(), "A      B\nshort  x\n") {
		t.Errorf("the first page is %.60q", out.String())
	}
	_ = table.row("much longer", "y")
	if err := table.flush(); err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(out.String(), "\nmuch longer  y\n") {
		t.Errorf("the end is %q", out.String()[len(out.String())-40:])
	}
}

func TestTablesPaintStates(t *testing.T) {
	t.Parallel()
	var out syncBuffer
	table := newTable(&out, "STATE")
	table.color = true
	_ = table.row("failed")
	if err := table.flush(); err != nil || !strings.Contains(out.String(), "\x1b[31mfailed\x1b[0m") {
		t.Errorf("got %q, %v", out.String(), err)
	}
}

func TestPreview(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                                  "",
		"one":                               "one",
		"one\ntwo":                          "one...",
		"\x1b[2Jred\x07":                    "[2Jred",
		"\xff":                              "\uFFFD",
		strings.Repeat("é", previewWidth+1): strings.Repeat("é", previewWidth) + "...",
	} {
		if got := preview(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
	for ref, want := range map[string]string{
		"data:,a%20b": "a b", "data:application/octet-stream;base64,AAAA": "(3 bytes)", "nats-obj://b/n": "nats-obj://b/n", "data:broken": "data:broken",
	} {
		if got := outputPreview(ref); got != want {
			t.Errorf("%s: got %q, want %q", ref, got, want)
		}
	}
}

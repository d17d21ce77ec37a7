package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weft-fabric/weft/internal/app"
)

// stageLine is stage ls --json of one stage.
func stageLine(t *testing.T, s *site, name string) (line stageStatus, r result) {
	t.Helper()
	r = s.weft(t, "stage", "ls", "--json").want(t, app.ExitDone)
	for _, text := range r.lines() {
		var one stageStatus
		if err := json.Unmarshal([]byte(text), &one); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		if one.Stage == name {
			return one, r
		}
	}
	t.Fatalf("no stage %s in %q", name, r.out)
	return line, r
}

// TestStageLs counts what waits and what has ended, and says when nobody counts.
func TestStageLs(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	if r := s.weft(t, "stage", "ls", "--json").want(t, app.ExitDone); r.out != "" {
		t.Errorf("no stage yet, and %q", r.out)
	}
	ids := enqueueMany(t, s, 3)
	line, r := stageLine(t, s, "slow")
	if line.Waiting != 3 || !line.CountsStale || !strings.Contains(r.err, "no keeper runs, so nobody has counted") {
		t.Errorf("%+v, and on stderr %q", line, r.err)
	}
	if table := s.weft(t, "stage", "ls").want(t, app.ExitDone); !strings.Contains(table.out, "?") {
		t.Errorf("uncounted, the table is\n%s", table.out)
	}
	work := spawn(t, s.args([]string{"work", "slow", "--", "true"})...)
	poll(t, "counts of the jobs that have ended", func() bool {
		line, r = stageLine(t, s, "slow")
		return line.Waiting == 0 && line.Succeeded == len(ids) && !line.CountsStale && r.err == ""
	})
	table := s.weft(t, "stage", "ls").want(t, app.ExitDone)
	if got := strings.Fields(table.lines()[1]); fmt.Sprint(got) != "[slow 0 0 0 0 3 0 0 no 30s - - -]" {
		t.Errorf("the table is\n%s", table.out)
	}
	work.signal(syscall.SIGTERM)
	work.wait().want(t, app.ExitDone)
	poll(t, "a word that nobody counts", func() bool {
		line, r = stageLine(t, s, "slow")
		return line.CountsStale && line.Succeeded == len(ids) && strings.Contains(r.err, "as counted")
	})
}

// TestStagePauseResumeSet drives a stage by its commands, and doctor has nothing to
// say of it.
func TestStagePauseResumeSet(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	enqueueMany(t, s, 2)
	s.weft(t, "stage", "pause", "slow", "--reason", "the disk is full").want(t, app.ExitDone)
	line, _ := stageLine(t, s, "slow")
	if !line.Paused || line.PauseReason != "the disk is full" || line.PausedBy == "" || time.Since(line.PausedAt) > patience {
		t.Errorf("%+v", line)
	}
	info := s.weft(t, "stage", "info", "slow").want(t, app.ExitDone)
	for _, part := range []string{"paused       yes, since ", ": the disk is full", "waiting      2, the first for ", "runners (priority 3): 2 waiting", "stream       WEFT_slow", "worker       none"} {
		if !strings.Contains(info.out, part) {
			t.Errorf("info lacks %q:\n%s", part, info.out)
		}
	}
	s.weft(t, "doctor").want(t, app.ExitDone, "all is as it should be")
	s.weft(t, "stage", "set", "slow", "--lease", "45s", "--concurrency", "4").want(t, app.ExitDone)
	s.weft(t, "doctor").want(t, app.ExitDone, "all is as it should be")
	s.weft(t, "stage", "resume", "slow").want(t, app.ExitDone)
	s.weft(t, "doctor").want(t, app.ExitDone, "all is as it should be")
	var report stageReport
	r := s.weft(t, "stage", "info", "slow", "--json").want(t, app.ExitDone)
	if err := json.Unmarshal([]byte(r.out), &report); err != nil {
		t.Fatal(err)
	}
	if report.Paused || !report.PausedAt.IsZero() || report.Lease != "45s" || report.Concurrency != 4 || len(report.Drift) > 0 || report.OldestWaiting.IsZero() || len(report.Consumers) != 1 {
		t.Errorf("%s", r.out)
	}
}

// TestStageRefusals gives commands that cannot be done.
func TestStageRefusals(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	enqueueMany(t, s, 1)
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"stage", "info", "nobody"}, app.ExitNotFound, "there is no such stage"},
		{[]string{"stage", "pause", "nobody"}, app.ExitNotFound, "there is no such stage"},
		{[]string{"stage", "resume", "nobody"}, app.ExitNotFound, "there is no such stage"},
		{[]string{"stage", "set", "nobody", "--lease", "1m"}, app.ExitNotFound, "there is no such stage"},
		{[]string{"stage", "set", "slow"}, app.ExitUsage, "give --lease, --concurrency, --rate, --per-label or --per-key"},
		{[]string{"stage", "set", "slow", "--lease", "10ms"}, app.ExitUsage, "lease 10ms must be at least 1s"},
		{[]string{"stage", "set", "slow", "--lease", "480h"}, app.ExitUsage, "must be at most 16h48m0s"},
		{[]string{"stage", "set", "slow", "--concurrency", "99999999999"}, app.ExitUsage, "must be at most 1000000"},
		{[]string{"stage", "pause", "slow", "--reason", strings.Repeat("x", 5000)}, app.ExitUsage, "longer than 4096"},
		{[]string{"stage", "set", "slow", "--concurrency", "-1"}, app.ExitUsage, "concurrency -1 must not be negative"},
		{[]string{"stage", "set", "slow", "--rate", "10/d"}, app.ExitUsage, "give one like 100/s, 30/m or 5/h"},
		{[]string{"stage", "set", "slow", "--per-label", "tenant"}, app.ExitUsage, `--per-label "tenant" is not NAME=NUMBER`},
		{[]string{"stage", "set", "slow", "--per-label", "tenant=-1"}, app.ExitUsage, "limit -1 of label \"tenant\" is not within 0"},
		{[]string{"stage", "set", "slow", "--per-key", "1000"}, app.ExitUsage, "limit 1000 of a key is not within 0"},
		{[]string{"stage", "set", "slow", "--burst", "10"}, app.ExitUsage, "give --rate too"},
		{[]string{"stage", "set", "slow", "--rate", "10/s", "--burst", "0"}, app.ExitUsage, "burst 0 is not within 1 and 100000"},
		{[]string{"stage", "pause"}, app.ExitUsage, "give one stage"},
	} {
		s.weft(t, c.args...).want(t, c.code, c.says)
	}
}

// TestJobLsGoesOnAfterACursor pages through a list.
func TestJobLsGoesOnAfterACursor(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	ids := enqueueMany(t, s, 5)
	var got []string
	args := []string{"job", "ls", "--json", "--limit", "2"}
	for range 3 {
		r := s.weft(t, args...).want(t, app.ExitDone)
		for _, line := range r.lines() {
			var j struct{ ID string }
			if err := json.Unmarshal([]byte(line), &j); err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			got = append(got, j.ID)
		}
		_, cursor, more := strings.Cut(strings.TrimSpace(r.err), "--after ")
		if !more {
			break
		}
		args = []string{"job", "ls", "--json", "--limit", "2", "--after", cursor}
	}
	if fmt.Sprint(got) != fmt.Sprint(ids) {
		t.Errorf("paged %v, want %v", got, ids)
	}
}

// TestStageLimits sets limits, looks at them and lifts them.
func TestStageLimits(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	enqueueMany(t, s, 1)
	says := func(r result, parts ...string) {
		t.Helper()
		r.want(t, app.ExitDone)
		for _, part := range parts {
			if !strings.Contains(r.out, part) {
				t.Errorf("no %q in\n%s", part, r.out)
			}
		}
	}
	s.weft(t, "stage", "set", "slow", "--rate", "5/m", "--burst", "7").want(t, app.ExitDone)
	says(s.weft(t, "stage", "ls"), "RATE", "5/m")
	says(s.weft(t, "stage", "info", "slow"), "5/m, 7 at once")
	says(s.weft(t, "stage", "info", "slow", "--json"), `"rate":"5/m","burst":7`)
	s.weft(t, "stage", "set", "slow", "--lease", "1m").want(t, app.ExitDone)
	says(s.weft(t, "stage", "info", "slow"), "5/m, 7 at once")
	s.weft(t, "stage", "set", "slow", "--per-label", "tenant=3,zone=2", "--per-key", "1").want(t, app.ExitDone)
	says(s.weft(t, "stage", "ls"), "1 a key, 3 a tenant, 2 a zone")
	s.weft(t, "stage", "set", "slow", "--per-label", "zone=0", "--per-key", "0").want(t, app.ExitDone)
	says(s.weft(t, "stage", "info", "slow", "--json"), `"per_label":{"tenant":3}`)
	s.weft(t, "stage", "set", "slow", "--per-label", "tenant=0").want(t, app.ExitDone)
	s.weft(t, "stage", "set", "slow", "--rate", "0").want(t, app.ExitDone)
	says(s.weft(t, "stage", "info", "slow"), "no limit")
}

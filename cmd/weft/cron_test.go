package main

import (
	"encoding/json"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weft-fabric/weft/internal/app"
)

// cronAdd is weft cron add of an entry, with more flags.
func cronAdd(schedule string, more ...string) []string {
	return append([]string{"cron", "add", "nightly", "report", "--schedule", schedule, "--input-ref", "db:all"}, more...)
}

// TestCronAddLsRm takes an entry through its life.
func TestCronAddLsRm(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	if r := s.weft(t, "cron", "ls", "--json").want(t, app.ExitDone); r.out != "" {
		t.Errorf("no entry yet, and %q", r.out)
	}
	add := func(want string, args ...string) {
		t.Helper()
		if r := s.weft(t, args...).want(t, app.ExitDone); r.out != "nightly "+want+"\n" {
			t.Errorf("%q, want %s", r.out, want)
		}
	}
	daily := cronAdd("30 2 * * *", "--tz", "Europe/Berlin", "--payload", `{"a":1}`, "--label", "from=cron")
	add("added", daily...)
	add("unchanged", daily...)
	add("replaced", cronAdd("30 2 * * *", "--tz", "Asia/Kathmandu", "--key", "report", "--on-conflict", "reject")...)
	var line cronLine
	r := s.weft(t, "cron", "ls", "--json").want(t, app.ExitDone)
	if err := json.Unmarshal([]byte(r.out), &line); err != nil {
		t.Fatal(err)
	}
	if line.Name != "nightly" || line.Spec.Stage != "report" || line.Spec.Key != "report" || line.OnConflict != "reject" || line.Next.Format(time.TimeOnly+"Z07:00") != "02:30:00+05:45" || line.Drift != "" {
		t.Errorf("%s", r.out)
	}
	table := s.weft(t, "cron", "ls").want(t, app.ExitDone, "no keeper runs, so no tick becomes a job")
	if row := table.lines()[1]; !strings.Contains(row, "30 2 * * *  Asia/Kathmandu  ") || !strings.HasSuffix(row, "  -     -         ok") {
		t.Errorf("the table is\n%s", table.out)
	}
	s.weft(t, "doctor").want(t, app.ExitDone, "all is as it should be")
	s.weft(t, "cron", "rm", "nightly").want(t, app.ExitDone)
	s.weft(t, "cron", "rm", "nightly").want(t, app.ExitNotFound, "there is no such cron entry")
	if r := s.weft(t, "cron", "ls", "--json").want(t, app.ExitDone); r.out != "" {
		t.Errorf("removed, and %q", r.out)
	}
}

// TestCronEntryRuns has a worker, whose process keeps, run the jobs of an entry.
func TestCronEntryRuns(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.weft(t, cronAdd("@every 1s")...).want(t, app.ExitDone)
	work := spawn(t, s.args([]string{"work", "report", "--", "true"})...)
	poll(t, "jobs of the entry that succeeded", func() bool {
		r := s.weft(t, "job", "ls", "--stage", "report", "--state", "succeeded", "--json").want(t, app.ExitDone)
		return strings.Count(r.out, `"nightly-2`) >= 2
	})
	work.signal(syscall.SIGTERM)
	work.wait().want(t, app.ExitDone)
}

// TestCronDryRun prints times in the entry's zone, and asks no server.
func TestCronDryRun(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.weft(t, cronAdd("0 9 * * *", "--tz", "Europe/Berlin", "--dry-run")...).want(t, app.ExitDone)
	if len(r.lines()) != dryTimes {
		t.Fatalf("%q", r.out)
	}
	for _, line := range r.lines() {
		at, err := time.Parse(time.RFC3339, line)
		if err != nil || !strings.Contains(line, "T09:00:00+0") || at.Before(time.Now()) {
			t.Errorf("%q: %v", line, err)
		}
	}
	if r := s.weft(t, "cron", "ls", "--json").want(t, app.ExitDone); r.out != "" {
		t.Errorf("it was added: %s", r.out)
	}
	nowhere := weft(t, "", cronAdd("@every 10m", "--dry-run", "--json", "--server", "nats://127.0.0.1:1")...).want(t, app.ExitDone)
	if len(nowhere.lines()) != dryTimes || !strings.HasPrefix(nowhere.out, `{"at":"2`) {
		t.Errorf("%q", nowhere.out)
	}
	once := weft(t, "", cronAdd("@at 2099-12-01T10:00:00Z", "--dry-run")...).want(t, app.ExitDone)
	if once.out != "2099-12-01T10:00:00Z\n" {
		t.Errorf("%q", once.out)
	}
	weft(t, "", cronAdd("0 4 * * *", "--tz", "Asia/Beirut", "--dry-run")...).want(t, app.ExitDone, "in Asia/Beirut the day of 20", "has no midnight")
}

// TestCronRefusals gives commands that cannot be done, none of which needs a server.
func TestCronRefusals(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{cronAdd("* * *"), app.ExitUsage, `schedule "* * *" has 3 fields; give 5 fields: minute hour day month weekday`},
		{cronAdd("61 * * * *"), app.ExitUsage, "end of range (61) above maximum (59)"},
		{cronAdd("0 4 * * *", "--tz", "Mars"), app.ExitUsage, `has the time zone "Mars", which is not known; give a name such as Europe/Berlin`},
		{cronAdd("@every 10m", "--tz", "Europe/Berlin"), app.ExitUsage, "only expressions have one; leave it out"},
		{cronAdd("@every 5ms"), app.ExitUsage, "give one of whole seconds"},
		{cronAdd("@at 2020-01-01T00:00:00Z", "--dry-run"), app.ExitUsage, "is in the past; give a time to come"},
		{cronAdd("@daily", "--on-conflict", "reject"), app.ExitUsage, "on_conflict reject needs a key"},
		{cronAdd("@daily", "--on-conflict", "maybe"), app.ExitUsage, `--on-conflict "maybe" is none of`},
		{cronAdd("@daily", "--payload", "text"), app.ExitUsage, "is not JSON"},
		{cronAdd("@daily", "--label", "x"), app.ExitUsage, "is not NAME=VALUE"},
		{cronAdd("@daily", "--id", "x"), app.ExitUsage, "unknown flag: --id"},
		{cronAdd("@daily", "*"), app.ExitUsage, "give a name and a stage, not 3 arguments"},
		{[]string{"cron", "add", "Night.ly", "report", "--schedule", "@daily", "--input-ref", "x"}, app.ExitUsage, `cron name "Night.ly" is not`},
		{[]string{"cron", "add", "nightly", "Report", "--schedule", "@daily", "--input-ref", "x"}, app.ExitUsage, "stage"},
		{[]string{"cron", "add", "nightly", "report", "--schedule", "@daily", "--input-ref", "data:x"}, app.ExitUsage, "no data: URI"},
		{[]string{"cron", "add", "nightly", "report", "--input-ref", "x"}, app.ExitUsage, `required flag(s) "schedule" not set`},
		{[]string{"cron", "rm"}, app.ExitUsage, "give one name of a cron entry"},
	} {
		r := weft(t, "", append(append([]string{}, c.args...), "--server", "nats://127.0.0.1:1")...).want(t, c.code, c.says)
		if strings.Count(r.err, "\n") != 1 || r.out != "" {
			t.Errorf("%v: more than a line: %q, %q", c.args, r.err, r.out)
		}
	}
}

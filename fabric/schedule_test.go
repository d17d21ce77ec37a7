package fabric_test

// These tests prove when a schedule says that it fires, above all where the clock
// is changed, and that what is no schedule is refused in one line that helps.

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weft-fabric/weft/fabric"
)

func parseSchedule(t *testing.T, expression, zone string) fabric.Schedule {
	t.Helper()
	s, err := fabric.ParseSchedule(expression, zone)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func instant(t *testing.T, text string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

func TestScheduleTimes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ expression, zone, from, want string }{
		{"*/5 * * * *", "", "2026-12-01T10:02:03Z", "2026-12-01T10:05:00Z 2026-12-01T10:10:00Z 2026-12-01T10:15:00Z"},
		{"30 */5 * * * *", "", "2026-12-01T10:05:00Z", "2026-12-01T10:05:30Z 2026-12-01T10:10:30Z 2026-12-01T10:15:30Z"},
		{"@daily", "Asia/Kathmandu", "2026-12-01T10:02:03Z", "2026-12-02T00:00:00+05:45 2026-12-03T00:00:00+05:45 2026-12-04T00:00:00+05:45"},
		{"@weekly", "", "2026-12-01T10:02:03Z", "2026-12-06T00:00:00Z 2026-12-13T00:00:00Z 2026-12-20T00:00:00Z"},
		{"0 9 * * mon-fri", "", "2026-12-03T10:00:00Z", "2026-12-04T09:00:00Z 2026-12-07T09:00:00Z 2026-12-08T09:00:00Z"},
		// The hour that spring leaves out has no half past two, and the one that autumn
		// repeats has two.
		{"30 2 * * *", "Europe/Berlin", "2027-03-26T12:00:00Z", "2027-03-27T02:30:00+01:00 2027-03-29T02:30:00+02:00 2027-03-30T02:30:00+02:00"},
		{"30 2 * * *", "Europe/Berlin", "2027-10-30T12:00:00Z", "2027-10-31T02:30:00+02:00 2027-10-31T02:30:00+01:00 2027-11-01T02:30:00+01:00"},
		{"0 9 * * *", "Europe/Berlin", "2027-03-27T12:00:00Z", "2027-03-28T09:00:00+02:00 2027-03-29T09:00:00+02:00 2027-03-30T09:00:00+02:00"},
		{"0 9 * * *", "America/New_York", "2026-10-31T14:00:00Z", "2026-11-01T09:00:00-05:00 2026-11-02T09:00:00-05:00 2026-11-03T09:00:00-05:00"},
		{"0 0 29 2 *", "", "2026-12-01T00:00:00Z", "2028-02-29T00:00:00Z 2032-02-29T00:00:00Z 2036-02-29T00:00:00Z"},
		{"@every 90s", "", "2026-12-01T10:00:00Z", "2026-12-01T10:01:30Z 2026-12-01T10:03:00Z 2026-12-01T10:04:30Z"},
		{"@at 2026-12-01T11:00:00+01:00", "", "2026-12-01T09:00:00Z", "2026-12-01T10:00:00Z"},
		{"@at 2026-12-01T11:00:00+01:00", "", "2026-12-01T10:00:00Z", ""},
	} {
		var got []string
		for _, at := range parseSchedule(t, c.expression, c.zone).Upcoming(instant(t, c.from), 3) {
			got = append(got, at.Format(time.RFC3339))
		}
		if !slices.Equal(got, strings.Fields(c.want)) {
			t.Errorf("%s %s from %s: %s, want %s", c.expression, c.zone, c.from, got, c.want)
		}
	}
}

// The latest time is that of a tick which was stored late, however late.
func TestScheduleLatest(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ expression, zone, at, want string }{
		{"*/5 * * * *", "", "2026-12-01T10:05:00Z", "2026-12-01T10:05:00Z"},
		{"*/5 * * * *", "", "2026-12-01T10:05:01Z", "2026-12-01T10:05:00Z"},
		{"*/5 * * * *", "", "2026-12-01T10:09:59Z", "2026-12-01T10:05:00Z"},
		{"* * * * * *", "", "2026-12-01T10:09:59Z", "2026-12-01T10:09:59Z"},
		{"* * 9 * * *", "", "2026-12-02T08:59:59Z", "2026-12-01T09:59:59Z"},
		{"30 2 * * *", "Europe/Berlin", "2027-10-31T01:00:00Z", "2027-10-31T00:30:00Z"},
		{"30 2 * * *", "Europe/Berlin", "2027-10-31T01:30:07Z", "2027-10-31T01:30:00Z"},
		{"0 0 29 2 *", "", "2027-12-01T00:00:00Z", "2024-02-29T00:00:00Z"},
	} {
		if got := fabric.Latest(parseSchedule(t, c.expression, c.zone), instant(t, c.at)); !got.Equal(instant(t, c.want)) {
			t.Errorf("%s %s at %s: %s, want %s", c.expression, c.zone, c.at, got, c.want)
		}
	}
}

func TestParseScheduleRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ expression, zone, says string }{
		{"", "", "is empty; give 5 fields"},
		{"* * *", "", "has 3 fields; give 5 fields"},
		{"* * * * * * *", "", "has 7 fields; give 5 fields"},
		{"61 * * * *", "", "end of range (61) above maximum (59)"},
		{"0 0 * * 7", "", "(0 to 6, 0 is Sunday)"},
		{"0 0 L * *", "", "is wrong: failed to parse int from L"},
		{"*/0 * * * *", "", "step of range should be a positive number"},
		{"0 0 30 2 *", "", "no time within five years"},
		{"0 0 , * *", "", "no time within five years"},
		{"TZ=UTC 0 0 * *", "", "names a time zone within"},
		{"CRON_TZ=UTC 0 0 * * *", "", "names a time zone within"},
		{"TZ=", "", "names a time zone within"},
		{"@fortnightly", "", "is none of @hourly"},
		{"@reboot", "", "is none of @hourly"},
		{"@every", "", "has no interval; give a duration"},
		{"@every day", "", "has no interval; give a duration"},
		{"@every 10ms", "", "whole seconds, from 1s to"},
		{"@every 1500ms", "", "whole seconds, from 1s to"},
		{"@every -1m", "", "whole seconds, from 1s to"},
		{"@every 100000h", "", "whole seconds, from 1s to"},
		{"@every 10m", "Europe/Berlin", "only expressions have one; leave it out"},
		{"@at tomorrow", "", "has no time; give one in whole seconds with its offset"},
		{"@at 2026-12-01T10:00:00", "", "with its offset"},
		{"@at 2026-12-01T10:00:00.5Z", "", "in whole seconds"},
		{"@at 0001-01-01T00:00:00Z", "", "has no time"},
		{"@at 2026-12-01T10:00:00Z", "UTC", "leave it out"},
		{"0 4 * * *", "Europe/Berln", `has the time zone "Europe/Berln", which is not known; give a name such as`},
		{"0 4 * * *", "Local", "differs from machine to machine"},
		{"0 4 * * *", "../etc/passwd", "which is not known"},
	} {
		_, err := fabric.ParseSchedule(c.expression, c.zone)
		wrong, ok := errors.AsType[*fabric.ScheduleError](err)
		if !ok || wrong.Expression != c.expression || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q %q: %v, want %q", c.expression, c.zone, err, c.says)
		}
	}
}

// Zones in which a day may begin at one o'clock, after which the server goes wrong.
func TestScheduleKnowsDaysWithoutMidnight(t *testing.T) {
	t.Parallel()
	from := instant(t, "2026-12-01T00:00:00Z")
	for _, c := range []struct{ expression, zone, want string }{
		{"0 4 * * *", "", ""},
		{"0 4 * * *", "Europe/Berlin", ""},
		{"0 4 * * *", "Asia/Beirut", "2027-03-28"},
		{"0 4 * * *", "America/Havana", "2027-03-14"},
		{"@every 1h", "", ""},
	} {
		got := ""
		if day := parseSchedule(t, c.expression, c.zone).SkipsMidnight(from); !day.IsZero() {
			got = day.Format(time.DateOnly)
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.zone, got, c.want)
		}
	}
}

func TestCronRefusesAnOldServerByName(t *testing.T) {
	t.Parallel()
	for version, says := range map[string]string{
		"2.15.2": "", "2.14.0": "", "2.14.0-RC.1": "", "3.0.0": "",
		"2.13.9":  "server nats://here is nats-server 2.13.9; cron needs 2.14 or newer",
		"2.12.0":  "server nats://here is nats-server 2.12.0; cron needs 2.14 or newer",
		"1.99.0":  "cron needs 2.14 or newer",
		"unknown": `tells its version as "unknown"`,
	} {
		err := fabric.CheckCronVersion(version)
		if _, ok := errors.AsType[*fabric.ServerError](err); ok != (says != "") || ok && !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", version, err, says)
		}
	}
}

package fabric

import (
	"fmt"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
)

// ScheduleError is a schedule that nothing could fire by.
type ScheduleError struct {
	Expression string
	Rule       string // what it breaks, and the way out
}

// Error is one line that names the expression, the rule and the way out.
func (e *ScheduleError) Error() string { return fmt.Sprintf("schedule %q %s", e.Expression, e.Rule) }

// Schedule is when a cron entry fires. Its times are computed as the server does,
// by the code that the server's was taken from.
type Schedule struct {
	expression string // in the server's form
	zone       string // as given; empty is UTC
	location   *time.Location

	// One of the three is set.
	fields cron.Schedule
	every  time.Duration
	at     time.Time
}

// longestEvery bounds an interval as the server bounds the search for the next
// time of an expression.
const longestEvery = 5 * 365 * 24 * time.Hour

// named are the expressions that the server has names for.
var named = map[string]string{
	"@yearly":   "0 0 0 1 1 *",
	"@annually": "0 0 0 1 1 *",
	"@monthly":  "0 0 0 1 * *",
	"@weekly":   "0 0 0 * * 0",
	"@daily":    "0 0 0 * * *",
	"@midnight": "0 0 0 * * *",
	"@hourly":   "0 0 * * * *",
}

const fieldsWanted = `give 5 fields: minute hour day month weekday (0 to 6, 0 is Sunday), or 6 with seconds first, as in "*/5 * * * *"`

// ParseSchedule reads a schedule: a cron expression of 5 fields, or of 6 that begin
// with seconds; @hourly, @daily, @weekly, @monthly or @yearly; "@every 10m"; or
// "@at 2026-12-01T10:00:00Z", which fires once. zone is the IANA time zone of an
// expression, empty for UTC. It fails with a *ScheduleError.
func ParseSchedule(expression, zone string) (Schedule, error) {
	bad := func(format string, args ...any) (Schedule, error) {
		return Schedule{}, &ScheduleError{expression, fmt.Sprintf(format, args...)}
	}
	s := Schedule{zone: zone, location: time.UTC}
	kind, rest, _ := strings.Cut(strings.TrimSpace(expression), " ")
	rest = strings.TrimSpace(rest)
	switch {
	case zone != "" && (kind == "@every" || kind == "@at"):
		return bad("cannot have the time zone %s: only expressions have one; leave it out", zone)
	case zone == "Local":
		return bad("cannot have the time zone Local, which differs from machine to machine; give a name such as Europe/Berlin")
	case kind == "@every":
		return s.parseEvery(expression, rest)
	case kind == "@at":
		return s.parseAt(expression, rest)
	}
	location, err := time.LoadLocation(zone)
	if err != nil {
		return bad("has the time zone %q, which is not known; give a name such as Europe/Berlin", zone)
	}
	s.location = location
	return s.parseFields(expression)
}

func (s Schedule) parseEvery(expression, interval string) (Schedule, error) {
	d, err := time.ParseDuration(interval)
	switch {
	case err != nil:
		return s, &ScheduleError{expression, `has no interval; give a duration after @every, as in "@every 10m"`}
	case d < time.Second || d%time.Second != 0 || d > longestEvery:
		return s, &ScheduleError{expression, fmt.Sprintf("has the interval %s; give one of whole seconds, from 1s to %s", d, longestEvery)}
	}
	s.every, s.expression = d, "@every "+d.String()
	return s, nil
}

func (s Schedule) parseAt(expression, text string) (Schedule, error) {
	at, err := time.Parse(time.RFC3339, text)
	if err != nil || at.Nanosecond() != 0 || at.Unix() <= 0 {
		return s, &ScheduleError{expression, `has no time; give one in whole seconds with its offset, as in "@at 2026-12-01T10:00:00Z" or "@at 2026-12-01T11:00:00+01:00"`}
	}
	s.at, s.expression = at.UTC(), "@at "+at.UTC().Format(time.RFC3339)
	return s, nil
}

// fieldParser reads the server's form: six fields and nothing else.
var fieldParser = cron.NewParser(cron.Second | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow)

func (s Schedule) parseFields(expression string) (Schedule, error) {
	text := strings.Join(strings.Fields(expression), " ")
	if long, ok := named[text]; ok {
		text = long
	}
	switch fields := strings.Count(text, " ") + 1; {
	case strings.HasPrefix(text, "@"):
		return s, &ScheduleError{expression, "is none of @hourly, @daily, @weekly, @monthly, @yearly, @every and @at"}
	case strings.Contains(text, "="):
		return s, &ScheduleError{expression, "names a time zone within; give it apart"}
	case text == "":
		return s, &ScheduleError{expression, "is empty; " + fieldsWanted}
	case fields == 5:
		text = "0 " + text
	case fields != 6:
		return s, &ScheduleError{expression, fmt.Sprintf("has %d fields; %s", fields, fieldsWanted)}
	}
	fields, err := fieldParser.Parse(text)
	if err != nil {
		return s, &ScheduleError{expression, fmt.Sprintf("is wrong: %s; %s", err, fieldsWanted)}
	}
	s.fields, s.expression = fields, text
	if s.Next(time.Now()).IsZero() {
		return s, &ScheduleError{expression, "has no time within five years; there is no such day"}
	}
	return s, nil
}

// Next is the first time after t, in the schedule's zone; zero if there is none.
// An interval is counted from t, as the server does from the moment it is told.
func (s Schedule) Next(t time.Time) time.Time {
	switch {
	case s.fields != nil:
		return s.fields.Next(t.In(s.location))
	case s.every > 0:
		return t.UTC().Round(time.Second).Add(s.every)
	case s.at.After(t):
		return s.at
	}
	return time.Time{}
}

// Upcoming gives the next n times after t, or as many as there are.
func (s Schedule) Upcoming(t time.Time, n int) (times []time.Time) {
	for t = s.Next(t); len(times) < n && !t.IsZero(); t = s.Next(t) {
		times = append(times, t)
	}
	return times
}

// latest is the last time of a cron expression that is not after t; zero if there
// is none in the years before. It looks back further and further, so that it does
// not walk through the times of a year for one that is a second old.
func (s Schedule) latest(t time.Time) (last time.Time) {
	const step, limit = 4, 6 * 365 * 24 * time.Hour
	for back := 2 * time.Second; back < step*limit; back *= step {
		next := s.Next(t.Add(-back))
		if next.IsZero() || next.After(t) {
			continue
		}
		for ; !next.IsZero() && !next.After(t); next = s.Next(next) {
			last = next
		}
		return last
	}
	return last
}

// SkipsMidnight tells the first day from t on, within a year, that has no midnight
// in the schedule's zone, since the clock is put forward then; zero if none has.
// The server (2.15.2) goes wrong there: searching for a later day it comes out of
// such a day an hour late, and misses the next time if that lies in a day's first
// hour, or the weekday looked for.
func (s Schedule) SkipsMidnight(t time.Time) (day time.Time) {
	if s.fields == nil {
		return day
	}
	t = t.In(s.location)
	for i := range 366 {
		midnight := time.Date(t.Year(), t.Month(), t.Day()+i, 0, 0, 0, 0, s.location)
		if midnight.Hour() != 0 {
			return time.Date(t.Year(), t.Month(), t.Day()+i, 12, 0, 0, 0, s.location)
		}
	}
	return day
}

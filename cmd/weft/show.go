package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/vincent-petithory/dataurl"

	"github.com/weft-fabric/weft/job"
)

// ending is the one line that says how a job ended: the beginning of its output,
// or why there is none.
func ending(j job.Job) string {
	switch {
	case j.State == job.StateSucceeded:
		return outputPreview(j.OutputRef)
	case len(j.WaitingOn) > 0:
		return preview("waits for " + strings.Join(j.WaitingOn, ", "))
	}
	return preview(j.Reason)
}

// outputPreview shows what an inline output holds, or names the output.
func outputPreview(ref string) string {
	if !strings.HasPrefix(ref, "data:") {
		return preview(ref)
	}
	uri, err := dataurl.DecodeString(ref)
	if err != nil {
		return preview(ref)
	}
	if uri.Type == "application" {
		return fmt.Sprintf("(%d bytes)", len(uri.Data))
	}
	return preview(string(uri.Data))
}

// took is how long the last attempt ran, "-" if none has ended.
func took(j job.Job) string {
	for i := len(j.AttemptsLog) - 1; i >= 0; i-- {
		if a := j.AttemptsLog[i]; !a.Ended.IsZero() {
			return short(a.Ended.Sub(a.Started))
		}
	}
	return "-"
}

// short rounds a duration to what a person reads.
func short(d time.Duration) string {
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

// ago says when something was, or will be, as a person would: 5m ago, in 2h. The
// zero time is "-".
func ago(now, t time.Time) string {
	switch d := now.Sub(t); {
	case t.IsZero():
		return "-"
	case d < 0:
		return "in " + roughly(-d)
	default:
		return roughly(d) + " ago"
	}
}

// roughly is a duration in its greatest unit.
func roughly(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d < 2*day:
		return fmt.Sprintf("%dh", d/time.Hour)
	}
	return fmt.Sprintf("%dd", d/day)
}

// dated is a time for a person who may have to find it in a log. The zero time is
// empty.
func dated(now, t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return stamp(t) + " (" + ago(now, t) + ")"
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z")
}

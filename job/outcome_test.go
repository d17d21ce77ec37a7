package job_test

// The outcome constructors: each asks for one transition and carries what that
// transition needs, nothing else.

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/weft-fabric/weft/job"
)

func TestOutcomes(t *testing.T) {
	t.Parallel()
	type want struct {
		kind   job.OutcomeKind
		name   string
		ref    string
		reason string
		delay  time.Duration
		timed  bool
		opens  bool
	}
	tests := []struct {
		outcome job.Outcome
		want    want
	}{
		{job.Outcome{}, want{name: "no outcome"}},
		{job.Completed("s3://out"), want{kind: job.KindCompleted, name: "completed", ref: "s3://out"}},
		{job.CompletedWith([]byte("out")), want{kind: job.KindCompleted, name: "completed", opens: true}},
		{job.Failed("why"), want{kind: job.KindFailed, name: "failed", reason: "why"}},
		{job.FailedAfter("why", time.Hour), want{kind: job.KindFailed, name: "failed", reason: "why", delay: time.Hour, timed: true}},
		{job.FailedAfter("why", 0), want{kind: job.KindFailed, name: "failed", reason: "why", timed: true}},
		{job.Discarded("why"), want{kind: job.KindDiscarded, name: "discarded", reason: "why"}},
		{job.Returned("why"), want{kind: job.KindReturned, name: "returned", reason: "why"}},
		{job.Snoozed("why", time.Hour), want{kind: job.KindReturned, name: "returned", reason: "why", delay: time.Hour, timed: true}},
		{job.Released(), want{kind: job.KindReleased, name: "released"}},
	}
	for _, tt := range tests {
		delay, timed := tt.outcome.Delay()
		got := want{
			kind: tt.outcome.Kind(), name: tt.outcome.String(), ref: tt.outcome.OutputRef(),
			reason: tt.outcome.Reason(), delay: delay, timed: timed, opens: tt.outcome.Open() != nil,
		}
		if got != tt.want {
			t.Errorf("got %+v, want %+v", got, tt.want)
		}
	}
}

func TestCompletedWithCanBeReadAgain(t *testing.T) {
	t.Parallel()
	data := []byte("output")
	open := job.CompletedWith(data).Open()
	for range 2 { // a second try at storing reads from the start
		reader, err := open()
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(reader); err != nil || !bytes.Equal(got, data) {
			t.Errorf("read %q, %v", got, err)
		}
		if err := reader.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestCompletedFromPassesErrorsOn(t *testing.T) {
	t.Parallel()
	broken := errors.New("disk gone")
	open := job.CompletedFrom(func() (io.ReadCloser, error) { return nil, broken }).Open()
	if _, err := open(); !errors.Is(err, broken) {
		t.Errorf("got %v, want %v", err, broken)
	}
}

package fabric

// These tests prove when a clock counts as set: not because an answer was slow,
// and for as long as there may be leases of the time before.

import (
	"context"
	"log/slog"
	"testing"
	"time"
)

// fakeTimes are a local clock, and a server whose clock is ahead of it and whose
// answers take their time on the way back.
type fakeTimes struct {
	now   time.Time
	ahead time.Duration
	back  time.Duration
}

func (f *fakeTimes) local() time.Time { return f.now }

func (f *fakeTimes) server(context.Context) (time.Time, error) {
	at := f.now.Add(f.ahead)
	f.now = f.now.Add(f.back)
	return at, nil
}

func (f *fakeTimes) clock(t *testing.T) *clock {
	c := newClock(f.local, f.server, slog.New(slog.DiscardHandler))
	if err := c.measure(t.Context()); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestSlowAnswerIsNoStepOfTheClock(t *testing.T) {
	times := &fakeTimes{now: time.Unix(1e9, 0), ahead: time.Second}
	c := times.clock(t)
	times.back = 5 * time.Second
	if err := c.measure(t.Context()); err != nil {
		t.Fatal(err)
	}
	if c.distrusted(time.Second) {
		t.Error("a slow answer counts as a step")
	}
	if got, want := c.now(), times.now.Add(time.Second).UTC(); !got.Equal(want) {
		t.Errorf("it is %s, not %s", got, want)
	}
}

func TestStepIsDistrustedWhileLeasesMayBeOfTheOldTime(t *testing.T) {
	const lease = 10 * time.Second
	times := &fakeTimes{now: time.Unix(1e9, 0), ahead: time.Second}
	c := times.clock(t)
	times.ahead = 2 * time.Minute
	if err := c.measure(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, want := c.now(), times.now.Add(2*time.Minute).UTC(); !got.Equal(want) {
		t.Errorf("it is %s, not %s", got, want)
	}
	for _, step := range []struct {
		after time.Duration
		want  bool
	}{{0, true}, {clockEvery + lease - time.Millisecond, true}, {time.Millisecond, false}} {
		times.now = times.now.Add(step.after)
		if got := c.distrusted(lease); got != step.want {
			t.Errorf("%s later it is distrusted: %v", step.after, got)
		}
	}
}

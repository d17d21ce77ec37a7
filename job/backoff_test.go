package job_test

// Backoff: which policies are refused, and that a delay lies within the policy's
// bounds for any attempt, never negative and never zero.

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weft-fabric/weft/job"
)

func TestBackoffValidate(t *testing.T) {
	t.Parallel()
	tests := []struct {
		rule   string
		change func(*job.Backoff)
		want   string
	}{
		{"the default is good", func(*job.Backoff) {}, ""},
		{"initial and max may be equal", func(b *job.Backoff) { b.Max = b.Initial }, ""},
		{"factor 1 is a constant delay", func(b *job.Backoff) { b.Factor = 1 }, ""},
		{"jitter may be none", func(b *job.Backoff) { b.Jitter = 0 }, ""},
		{"initial zero", func(b *job.Backoff) { b.Initial = 0 }, "backoff.initial 0s is not positive; the default is 1s"},
		{"initial negative", func(b *job.Backoff) { b.Initial = -1 }, "backoff.initial -1ns is not positive; the default is 1s"},
		{"max below initial", func(b *job.Backoff) { b.Max = time.Millisecond }, "backoff.max 1ms is below backoff.initial 1s"},
		{"factor below 1", func(b *job.Backoff) { b.Factor = 0.5 }, "backoff.factor 0.5 is below 1"},
		{"factor not a number", func(b *job.Backoff) { b.Factor = math.NaN() }, "backoff.factor NaN is below 1"},
		{"jitter negative", func(b *job.Backoff) { b.Jitter = -0.1 }, "backoff.jitter -0.1 is not within 0 and 1"},
		{"jitter of the whole delay", func(b *job.Backoff) { b.Jitter = 1 }, "backoff.jitter 1 is not within 0 and 1"},
		{"jitter not a number", func(b *job.Backoff) { b.Jitter = math.NaN() }, "backoff.jitter NaN is not within 0 and 1"},
	}
	for _, tt := range tests {
		t.Run(tt.rule, func(t *testing.T) {
			t.Parallel()
			b := job.DefaultBackoff()
			tt.change(&b)
			wantInvalid(t, b.Validate(), tt.want)
		})
	}
	t.Run("factor infinite", func(t *testing.T) {
		t.Parallel()
		b := job.DefaultBackoff()
		b.Factor = math.Inf(1)
		wantCode(t, b.Validate(), job.CodeInvalidJob)
	})
}

func TestBackoffDelay(t *testing.T) {
	t.Parallel()
	fallback := job.DefaultBackoff()
	tiny := job.Backoff{Initial: time.Microsecond, Max: time.Microsecond, Factor: 1}
	endless := job.Backoff{Initial: math.MaxInt64, Max: math.MaxInt64, Factor: 2, Jitter: 0.9}
	tests := []struct {
		rule    string
		backoff job.Backoff
		attempt int64
		random  float64
		want    time.Duration
	}{
		{"the first waits initial", fallback, 1, 0.5, time.Second},
		{"the second waits twice as long", fallback, 2, 0.5, 2 * time.Second},
		{"the ninth still grows", fallback, 9, 0.5, 256 * time.Second},
		{"the tenth waits max", fallback, 10, 0.5, 5 * time.Minute},
		{"the last attempt of all waits max", fallback, math.MaxInt64, 0.5, 5 * time.Minute},
		{"attempt zero waits initial", fallback, 0, 0.5, time.Second},
		{"the lowest jitter", fallback, 1, 0, 800 * time.Millisecond},
		{"the jitter goes around max too", fallback, 99, 0, 4 * time.Minute},
		{"a delay below the grain is one grain", tiny, 5, 0.5, time.Millisecond},
		{"the longest delay does not overflow", endless, 3, 0.99, time.Duration(math.MaxInt64).Truncate(time.Millisecond)},
	}
	for _, tt := range tests {
		t.Run(tt.rule, func(t *testing.T) {
			t.Parallel()
			if got := tt.backoff.Delay(tt.attempt, tt.random); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

func TestBackoffDelayStaysWithinBounds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		b := job.Backoff{Initial: time.Duration(rapid.Int64Range(1, math.MaxInt64).Draw(t, "initial"))}
		b.Max = time.Duration(rapid.Int64Range(int64(b.Initial), math.MaxInt64).Draw(t, "max"))
		b.Factor = rapid.Float64Range(1, 1e300).Draw(t, "factor")
		b.Jitter = rapid.Float64Range(0, 0.999).Draw(t, "jitter")
		if err := b.Validate(); err != nil {
			t.Fatalf("a good policy was refused: %v", err)
		}
		attempt := rapid.Int64().Draw(t, "attempt")
		delay := b.Delay(attempt, rapid.Float64Range(0, 0.9999).Draw(t, "random"))

		const grain = time.Millisecond
		lowest := float64(b.Initial)*(1-b.Jitter)*(1-1e-9) - float64(grain)
		highest := float64(b.Max)*(1+b.Jitter)*(1+1e-9) + float64(grain)
		switch {
		case delay < grain || delay%grain != 0:
			t.Fatalf("%s is not a positive number of whole milliseconds", delay)
		case float64(delay) < lowest || float64(delay) > highest:
			t.Fatalf("%s is not within %g and %g ns", delay, lowest, highest)
		}
	})
}

package job

import (
	"math"
	"time"
)

// Backoff is how long a failed attempt waits before the next: exponential from
// Initial, times Factor for each further attempt, at most Max, and spread by
// ±Jitter of itself so that jobs that failed together do not return together.
type Backoff struct {
	Initial time.Duration `json:"initial"`
	Max     time.Duration `json:"max"`
	Factor  float64       `json:"factor"`
	Jitter  float64       `json:"jitter"`
}

// DefaultBackoff waits 1 s after the first failure, doubles, stops at 5 min and
// spreads by 20 percent.
func DefaultBackoff() Backoff {
	return Backoff{Initial: time.Second, Max: 5 * time.Minute, Factor: 2, Jitter: 0.2}
}

// Validate refuses a policy that would retry without pause or never.
func (b Backoff) Validate() error {
	switch {
	case b.Initial <= 0:
		return Invalid("backoff.initial %s is not positive; the default is 1s", b.Initial)
	case b.Max < b.Initial:
		return Invalid("backoff.max %s is below backoff.initial %s", b.Max, b.Initial)
	case !(b.Factor >= 1) || math.IsInf(b.Factor, 0):
		return Invalid("backoff.factor %v is below 1", b.Factor)
	case !(b.Jitter >= 0 && b.Jitter < 1):
		return Invalid("backoff.jitter %v is not within 0 and 1", b.Jitter)
	}
	return nil
}

// Delay is the wait after the given attempt, which counts from 1. random is a
// number from 0 up to 1 that the caller draws; 0.5 gives the delay without
// jitter. The result is whole milliseconds, the record's grain, and at least one.
func (b Backoff) Delay(attempt int64, random float64) time.Duration {
	exponent := math.Max(0, float64(attempt-1))
	base := math.Min(float64(b.Max), float64(b.Initial)*math.Pow(b.Factor, exponent))
	spread := 1 + b.Jitter*(2*random-1)
	if base*spread >= math.MaxInt64 { // beyond what a duration can hold
		return time.Duration(math.MaxInt64).Truncate(time.Millisecond)
	}
	return max(time.Millisecond, time.Duration(base*spread).Truncate(time.Millisecond))
}

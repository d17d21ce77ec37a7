package fabric

import (
	"math/rand/v2"
	"testing"
	"time"
)

// Whoever asks whenever for however many: in no stretch of time begin more than a
// burst and what the rate gives in that time, and asking all the time gets it all.
func TestGrantsNeverExceedTheRate(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, r := range []Rate{{100, time.Second, 10}, {1, time.Hour, 1}, {7, time.Minute, 20}, {3, time.Second, 1}} {
		began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		now, tat := began, time.Time{}
		var starts []time.Time
		for range 2000 {
			n, next, wait := r.grant(tat, now, 1+rng.IntN(2*r.Burst))
			for range n {
				starts = append(starts, now)
			}
			tat = next
			if n == 0 {
				if early, _, _ := r.grant(tat, now.Add(wait-time.Nanosecond), 1); early != 0 {
					t.Fatalf("%s: one more may begin before the wait of %s is over", r, wait)
				}
				if in, _, _ := r.grant(tat, now.Add(wait), 1); in != 1 {
					t.Fatalf("%s: none may begin after the wait of %s", r, wait)
				}
			}
			now = now.Add(time.Duration(rng.Int64N(int64(4 * r.interval()))))
		}
		for i := range starts {
			for j := i; j < min(len(starts), i+300); j++ {
				if most := r.Burst + int(starts[j].Sub(starts[i])/r.interval()); j-i+1 > most {
					t.Fatalf("%s: %d began within %s", r, j-i+1, starts[j].Sub(starts[i]))
				}
			}
		}
		if all := int(now.Sub(began) / r.interval()); len(starts) < all/4 {
			t.Errorf("%s: only %d of %d began", r, len(starts), all)
		}
	}
}

// A key that was written under a slower rate does not hold a faster one back.
func TestGrantAfterTheRateWasRaised(t *testing.T) {
	now := time.Now()
	slow, fast := Rate{1, time.Hour, 1}, Rate{100, time.Second, 10}
	_, tat, _ := slow.grant(time.Time{}, now, 1)
	if _, _, wait := fast.grant(tat, now, 1); wait > fast.interval() {
		t.Fatalf("the next may begin only after %s", wait)
	}
}

package history

import "time"

// clock tells the time since a round began. It is the same in every process of
// this machine: what is written down in several of them can be put in order.
type clock struct {
	Start  time.Time     // by the wall clock
	Origin time.Duration // by the system's monotonic clock
}

// startClock reads the monotonic clock first. If the process is kept waiting in
// between, all that is told by the wall, as what servers stored, seems to have
// been earlier, and the judge is milder for it.
func startClock() clock {
	origin := monotonic()
	return clock{Start: time.Now().Round(0), Origin: origin}
}

func (c clock) now() time.Duration { return monotonic() - c.Origin }

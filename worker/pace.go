package worker

import "time"

// A job that takes a millisecond is over before the next one can be claimed, since
// a claim is a round trip or two. A stage therefore claims ahead of its slots what
// its handlers, at the pace that they had just now, will have begun within aheadFor.
// Handlers that take long have no pace to speak of: nothing is claimed ahead for
// them, and no job waits here that another worker could run.

const (
	// aheadFor is how long a job that was claimed ahead is expected to wait.
	aheadFor = 25 * time.Millisecond
	// aheadMost bounds what is claimed ahead.
	aheadMost = 512
	// paceFor is how long starts are counted before the pace is reckoned anew.
	paceFor = 50 * time.Millisecond
	// staleAfter is how long a job may have been waiting for a slot before it is
	// given back, because the handlers have become slow.
	staleAfter = time.Second
)

// pace reckons how many jobs to claim ahead.
type pace struct {
	since  time.Time // when the starts that are counted began
	last   time.Time // the last start
	starts int
	ahead  int
}

// start counts a handler that begins. It reports whether less is to be claimed ahead
// than before.
func (p *pace) start(now time.Time) (less bool) {
	p.starts++
	p.last = now
	took := now.Sub(p.since)
	if took < paceFor {
		return false
	}
	before := p.ahead
	p.ahead = min(aheadMost, int(time.Duration(p.starts)*aheadFor/took))
	p.since, p.starts = now, 0
	return p.ahead < before
}

// rested forgets the pace when nothing has started for a while.
func (p *pace) rested(now time.Time) bool {
	if now.Sub(p.last) < 2*paceFor {
		return false
	}
	p.ahead = 0
	return true
}

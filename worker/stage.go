package worker

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"time"

	"github.com/weft-fabric/weft/job"
)

// stage is one stage's handler, its slots and its dispatcher.
type stage struct {
	worker      *Worker
	name        string
	handler     Handler
	concurrency int
	// wake has room for one: sent when there may be room for more claims, received
	// by the dispatcher.
	wake chan struct{}

	mu       sync.Mutex
	running  int             // guarded by mu: slots that are taken
	queue    []*attempt      // guarded by mu: claimed ahead, in the order of their claims
	pace     pace            // guarded by mu
	review   bool            // guarded by mu: the queue is to be looked at for stale claims
	watched  bool            // guarded by mu: the pace is looked at from time to time
	asking   int             // guarded by mu: for how many claims a call is under way, 0 without one
	told     int             // guarded by mu: how many of them the fabric knows to be wanted
	settling int             // guarded by mu: settlements under way whose slots are free
	resting  []chan *attempt // guarded by mu: goroutines that wait for a slot to serve, the latest last
	over     bool            // guarded by mu: nobody needs to rest any more
}

// HandleOption is a setting of one stage.
type HandleOption func(*stage)

// WithConcurrency gives the stage n slots in place of Options.Concurrency: 1 to
// 65536.
func WithConcurrency(n int) HandleOption {
	return func(s *stage) { s.concurrency = n }
}

func (s *stage) open() { s.wake = make(chan struct{}, 1) }

// dispatch takes jobs as long as there is room for them, until taking ends. It
// fails only if the fabric says that asking again is of no use.
func (s *stage) dispatch() error {
	defer s.wakeAll()
	defer s.giveBack()
	taking := s.worker.taking
	for failures := int64(0); ; {
		n := s.awaitRoom()
		if n == 0 || s.worker.stopped() {
			return nil
		}
		claims, err := s.worker.fabric.Claim(taking, s.name, n)
		if s.start(claims, n) {
			// Asking again is a write on the connection, behind which handlers that
			// could begin would wait.
			runtime.Gosched()
		}
		switch {
		case s.worker.stopped():
			return nil
		case errors.Is(err, job.ErrInvalidJob):
			return fmt.Errorf("claim jobs of stage %s: %w", s.name, err)
		case err != nil || len(claims) == 0:
			failures++
			s.pause(failures, err)
		case failures > 0:
			s.worker.log.Info("jobs can be claimed again", "stage", s.name, "failures", failures)
			failures = 0
		}
	}
}

// awaitRoom waits until there is room for claims and tells for how many; 0 means
// that taking has ended.
func (s *stage) awaitRoom() int {
	for {
		s.mu.Lock()
		n := s.room()
		s.asks(n)
		s.mu.Unlock()
		if n > 0 {
			return n
		}
		select {
		case <-s.worker.taking.Done():
			return 0
		case <-s.wake:
		}
	}
}

// room is how many claims are wanted: for slots that are free, and ahead of those
// that are taken. While some wait that were claimed ahead, a few more are not worth
// a call of their own. mu is held.
func (s *stage) room() int {
	n := s.wanted()
	if len(s.queue) > 0 && n <= s.pace.ahead/4 {
		return 0
	}
	return n
}

// wanted is room to the last claim. mu is held.
func (s *stage) wanted() int {
	return max(0, s.concurrency+s.pace.ahead-s.running-len(s.queue))
}

// begins counts a handler that begins, and has the pace looked at for as long as
// something is claimed ahead. mu is held.
func (s *stage) begins(now time.Time) {
	if s.pace.start(now) {
		s.tellWanted()
	}
	if s.pace.ahead > 0 && !s.watched {
		s.watched = true
		time.AfterFunc(2*paceFor, s.watchPace)
	}
}

// watchPace ends the claiming ahead when nothing begins any more.
func (s *stage) watchPace() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.watched = s.pace.ahead > 0 && !s.pace.rested(time.Now()); s.watched {
		time.AfterFunc(2*paceFor, s.watchPace)
	} else {
		s.tellWanted()
	}
}

// asks notes that a call for n claims begins, or with 0 that it has ended. mu is held.
func (s *stage) asks(n int) { s.asking, s.told = n, n }

// tellWanted tells the fabric how many claims are wanted still, of those that were
// asked for. mu is held, so that it is not told later than of a call that asks anew.
func (s *stage) tellWanted() {
	if wanter, ok := s.worker.fabric.(Wanter); ok {
		s.told = s.wanted()
		wanter.Want(s.name, s.told)
	}
}

// wantAgain takes tellWanted back as far as there is room again, for a call that is
// still under way. mu is held.
func (s *stage) wantAgain() {
	if s.told < min(s.asking, s.wanted()) {
		s.tellWanted()
	}
}

// start gives each claim a slot, or lets it wait for one if it was claimed ahead.
// Claims that came when taking had ended already, or that are more than was asked
// for, go back. It reports whether a handler begins.
func (s *stage) start(claims []job.Claim, n int) (begins bool) {
	stopped := s.worker.stopped()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asks(0)
	for i := range claims {
		a := newAttempt(s, &claims[i])
		switch {
		case stopped || i >= n:
			go a.release()
		case s.running < s.concurrency && len(s.queue) == 0:
			s.running++
			s.begins(a.since)
			s.employ(a)
			begins = true
		default:
			s.queue = append(s.queue, a)
			s.reviewLater()
		}
	}
	return begins
}

// restMost is how many goroutines without a slot are kept for the next claims. A
// new one costs more than to wake one, since its stack has to grow first.
const restMost = 64

// employ has a goroutine serve a slot that was taken, a rested one if there is any.
// mu is held.
func (s *stage) employ(a *attempt) {
	last := len(s.resting) - 1
	if last < 0 {
		go s.serve(a)
		return
	}
	s.resting[last] <- a
	s.resting[last] = nil
	s.resting = s.resting[:last]
}

// serve works in slots for as long as there are claims. A handler that leaves by
// runtime.Goexit ends the goroutine, and another takes over.
func (s *stage) serve(a *attempt) {
	defer func() {
		if a != nil && a.keepsSlot() {
			s.handOn()
		}
	}()
	var place chan *attempt
	for a != nil {
		a.run()
		if !a.keepsSlot() {
			return
		}
		if a = s.next(); a == nil {
			a = s.rest(&place)
		}
	}
}

// rest waits for another slot to serve. place is where a goroutine is woken, which
// it makes when it rests first. It gives nil if the goroutine is to end.
func (s *stage) rest(place *chan *attempt) *attempt {
	s.mu.Lock()
	if s.over || len(s.resting) >= restMost {
		s.mu.Unlock()
		return nil
	}
	if *place == nil {
		*place = make(chan *attempt, 1)
	}
	s.resting = append(s.resting, *place)
	s.mu.Unlock()
	return <-*place
}

// wakeAll ends the goroutines that rest, and has no more of them rest.
func (s *stage) wakeAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	for _, place := range s.resting {
		place <- nil
	}
	s.resting = nil
}

// handOn has another goroutine go on in a slot.
func (s *stage) handOn() {
	if next := s.next(); next != nil {
		go s.serve(next)
	}
}

// next takes the claim out that has waited longest for a slot. Without one the slot
// is free, and nil is returned.
func (s *stage) next() (a *attempt) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue) > 0 && !s.worker.stopped() {
		a, s.queue[0] = s.queue[0], nil
		s.queue = s.queue[1:]
		a.since = time.Now()
		s.begins(a.since)
	} else {
		s.running--
	}
	if s.room() > 0 {
		s.poke()
	}
	s.wantAgain()
	return a
}

func (s *stage) poke() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// reviewLater has stale claims looked for. mu is held.
func (s *stage) reviewLater() {
	if !s.review {
		s.review = true
		time.AfterFunc(staleAfter, s.lookForStale)
	}
}

// lookForStale gives back what has been waiting too long for a slot.
func (s *stage) lookForStale() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.review = false
	for len(s.queue) > 0 && time.Since(s.queue[0].since) >= staleAfter {
		go s.queue[0].release()
		s.queue = s.queue[1:]
		s.pace.ahead = 0
		s.tellWanted()
	}
	if len(s.queue) > 0 {
		s.reviewLater()
	} else {
		s.queue = nil
	}
}

// giveBack gives back what has no slot when taking has ended.
func (s *stage) giveBack() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.queue {
		go a.release()
	}
	s.queue = nil
}

// settlingMost is how many settlements of a stage may be under way, at least, whose
// slots are in use again.
const settlingMost = 256

// settleFreely reports whether a slot need not wait for its attempt's settlement,
// which is one write that needs no more of this process than to be waited for. It
// reports false when very many are under way already: then it is the server that is
// slow. settled must follow.
func (s *stage) settleFreely() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.settling >= max(s.concurrency, settlingMost) {
		return false
	}
	s.settling++
	return true
}

func (s *stage) settledFreely() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settling--
}

// pause waits after a refused claim: 100 ms, doubling up to 5 s, spread so that
// the workers of a server that comes back do not all ask at once.
func (s *stage) pause(failures int64, err error) {
	policy := job.Backoff{Initial: 100 * time.Millisecond, Max: 5 * time.Second, Factor: 2, Jitter: 0.2}
	wait := policy.Delay(failures, rand.Float64())
	s.worker.log.Warn("jobs could not be claimed, trying again", "stage", s.name, "error", err, "wait", wait)
	select {
	case <-s.worker.taking.Done():
	case <-time.After(wait):
	}
}

// stopped reports whether no more jobs may be taken. Stop counts from the moment
// it is called, though taking ends only when Run has seen it.
func (w *Worker) stopped() bool {
	select {
	case <-w.stopping:
		return true
	default:
		return w.taking.Err() != nil
	}
}

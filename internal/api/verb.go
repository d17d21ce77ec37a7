package api

import (
	"context"
	"sync"
	"time"
)

// verbNames are the endpoints in the order in which they are shown.
var verbNames = []string{
	"enqueue", "get", "list", "cancel", "retry", "wait",
	"claim", "renew", "complete", "fail", "release",
}

func (s *Service) newVerbs() map[string]*verb {
	calls := map[string]func(context.Context, []byte) (answer, error){
		"enqueue": s.enqueue, "get": s.get, "list": s.list, "cancel": s.cancel, "retry": s.retry,
		"renew": s.renew, "complete": s.complete, "fail": s.fail, "release": s.release,
	}
	waits := map[string]func(context.Context, []byte) (answer, error){"wait": s.wait, "claim": s.claim}
	verbs := map[string]*verb{}
	for name, run := range calls {
		verbs[name] = &verb{name: name, run: run, places: make(chan struct{}, maxCalls)}
	}
	for name, run := range waits {
		verbs[name] = &verb{name: name, run: run, waits: true, places: make(chan struct{}, maxWaits)}
	}
	return verbs
}

// verb is one endpoint.
type verb struct {
	name   string
	run    func(context.Context, []byte) (answer, error)
	waits  bool          // its requests wait for something to happen
	places chan struct{} // one for each request at work

	mu      sync.Mutex
	tally   tally         // guarded by mu
	working time.Duration // guarded by mu
}

// tally is what the service protocol's statistics show of a verb as data. Their
// own counts of errors and times do not cover requests that are answered later.
type tally struct {
	Answered  int64         `json:"answered"`
	Errors    int64         `json:"errors"`
	LastError string        `json:"last_error,omitempty"`
	InFlight  int           `json:"in_flight"`
	Average   time.Duration `json:"average_time"` // nanoseconds, of those answered
}

// answer is what a verb gives: a JSON object, and how to take back what was done
// if nobody is there to get it.
type answer struct {
	body []byte
	undo func()
}

func (a answer) revoke() {
	if a.undo != nil {
		a.undo()
	}
}

// enter takes a place for a request: at once or not at all if the verb waits,
// else when there is one.
func (v *verb) enter(ctx context.Context) bool {
	if v.waits {
		select {
		case v.places <- struct{}{}:
			return true
		default:
			return false
		}
	}
	select {
	case v.places <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// full is why a request got no place.
func (v *verb) full() error {
	if v.waits {
		return errBusy
	}
	return errStopping
}

func (v *verb) leave() { <-v.places }

// count notes a request that was answered.
func (v *verb) count(took time.Duration, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.tally.Answered++
	v.working += took
	if err != nil {
		v.tally.Errors++
		v.tally.LastError = oneLine(err.Error())
	}
}

func (v *verb) counts() tally {
	v.mu.Lock()
	defer v.mu.Unlock()
	t := v.tally
	t.InFlight = len(v.places)
	if t.Answered > 0 {
		t.Average = v.working / time.Duration(t.Answered)
	}
	return t
}

package api

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/weft-fabric/weft/fabric"
	"github.com/weft-fabric/weft/job"
)

// lapsed is for how many leases after its end a claim is kept for a worker that
// says nothing. A later token still works, by way of the record.
const lapsed = 3

// seats has a runner for each worker that this instance acts for.
type seats struct {
	f    *fabric.Fabric
	idle time.Duration

	mu    sync.Mutex
	taken map[string]*seat // guarded by mu: by worker
}

// seat is what is kept for one worker.
type seat struct {
	runner *fabric.Runner

	users int                      // guarded by seats.mu: requests at work
	last  time.Time                // guarded by seats.mu: when the last one ended
	turns map[string]chan struct{} // guarded by seats.mu, by stage: room for one call of Claim
	all   *seats
}

func newSeats(f *fabric.Fabric, idle time.Duration) *seats {
	return &seats{f: f, idle: idle, taken: map[string]*seat{}}
}

// take gives the worker's seat to a request, which calls leave at its end.
func (s *seats) take(worker string) (_ *seat, leave func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.taken[worker]
	if t == nil {
		r, err := s.f.Runner(worker)
		if err != nil {
			return nil, nil, err
		}
		t = &seat{runner: r, turns: map[string]chan struct{}{}, all: s}
		s.taken[worker] = t
	}
	t.users++
	return t, func() { s.leave(t) }, nil
}

func (s *seats) leave(t *seat) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t.users--
	t.last = time.Now()
}

// sweep forgets claims that have lapsed, and closes the seats of workers that
// hold nothing and have been silent.
func (s *seats) sweep() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for worker, t := range s.taken {
		held := t.runner.Forget(lapsed)
		if held == 0 && t.users == 0 && time.Since(t.last) > s.idle {
			delete(s.taken, worker)
			errs = append(errs, t.runner.Close())
		}
	}
	return errors.Join(errs...)
}

// close ends all seats, once no request uses them.
func (s *seats) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, t := range s.taken {
		errs = append(errs, t.runner.Close())
	}
	clear(s.taken)
	return errors.Join(errs...)
}

// turn has one request after the other claim jobs of a stage for a worker.
func (t *seat) turn(stage string) chan struct{} {
	t.all.mu.Lock()
	defer t.all.mu.Unlock()
	turn := t.turns[stage]
	if turn == nil {
		turn = make(chan struct{}, 1)
		t.turns[stage] = turn
	}
	return turn
}

// claim takes up to n jobs. It gives what it has once it has some and no more
// come at once, and nothing with ctx's error when ctx ends before.
func (t *seat) claim(ctx context.Context, stage string, n int) ([]job.Claim, error) {
	turn := t.turn(stage)
	select {
	case turn <- struct{}{}:
		defer func() { <-turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer t.letGo(stage)
	claims, err := t.runner.Claim(ctx, stage, n)
	if err != nil {
		return nil, err
	}
	more, over := context.WithTimeout(ctx, linger)
	defer over()
	for len(claims) < n {
		next, err := t.runner.Claim(more, stage, n-len(claims))
		if err != nil {
			break
		}
		claims = append(claims, next...)
	}
	return claims, nil
}

// letGo stops the runner's taking: what it asks for beside what it has handed out
// would be leased to a worker that may not come again. A call of Claim whose
// context has ended does that.
func (t *seat) letGo(stage string) {
	over, cancel := context.WithCancel(context.Background())
	cancel()
	_, _ = t.runner.Claim(over, stage, 1) // it can only say that its context has ended
}

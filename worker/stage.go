package worker

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/weft-fabric/weft/job"
)

// stage is one stage's handler, its slots and its dispatcher. Its fields are set
// by Handle and not written after.
type stage struct {
	worker      *Worker
	name        string
	handler     Handler
	concurrency int
	// slots holds one value for each free slot. The dispatcher receives, the
	// owner of each attempt sends one back: once its handler has returned, or at
	// the latest when the attempt is settled.
	slots chan struct{}
	// settling holds one value for each attempt that is being settled and has
	// given its slot back.
	settling chan struct{}
}

// HandleOption is a setting of one stage.
type HandleOption func(*stage)

// WithConcurrency gives the stage n slots in place of Options.Concurrency: 1 to
// 65536.
func WithConcurrency(n int) HandleOption {
	return func(s *stage) { s.concurrency = n }
}

func (s *stage) open() {
	s.slots = make(chan struct{}, s.concurrency)
	s.settling = make(chan struct{}, s.concurrency)
	s.free(s.concurrency)
}

func (s *stage) free(n int) {
	for range n {
		s.slots <- struct{}{}
	}
}

// reserve waits for a free slot and takes all there are; 0 means that taking has
// ended.
func (s *stage) reserve(taking context.Context) int {
	select {
	case <-taking.Done():
		return 0
	case <-s.slots:
	}
	for n := 1; ; n++ {
		select {
		case <-s.slots:
		default:
			return n
		}
	}
}

// dispatch takes jobs as long as there are slots for them, until taking ends. It
// fails only if the fabric says that asking again is of no use.
func (s *stage) dispatch(taking, working context.Context) error {
	for failures := int64(0); ; {
		n := s.reserve(taking)
		if n == 0 || s.worker.stopped(taking) {
			return nil
		}
		claims, err := s.worker.fabric.Claim(taking, s.name, n)
		s.start(taking, working, claims, n)
		switch {
		case s.worker.stopped(taking):
			return nil
		case errors.Is(err, job.ErrInvalidJob):
			return fmt.Errorf("claim jobs of stage %s: %w", s.name, err)
		case err != nil || len(claims) == 0:
			failures++
			s.pause(taking, failures, err)
		case failures > 0:
			s.worker.log.Info("jobs can be claimed again", "stage", s.name, "failures", failures)
			failures = 0
		}
	}
}

// start gives each claim a goroutine and frees the slots that none was found
// for. Claims that came when taking had ended already, or that are more than was
// asked for, go back.
func (s *stage) start(taking, working context.Context, claims []job.Claim, n int) {
	s.free(max(0, n-len(claims)))
	for i, c := range claims {
		a := newAttempt(s, c)
		a.slot = i < n
		live := a.slot && !s.worker.stopped(taking)
		s.worker.running.Go(func() {
			if live {
				a.run(working)
			} else {
				a.release(working)
			}
			a.leave()
		})
	}
}

// pause waits after a refused claim: 100 ms, doubling up to 5 s, spread so that
// the workers of a server that comes back do not all ask at once.
func (s *stage) pause(taking context.Context, failures int64, err error) {
	policy := job.Backoff{Initial: 100 * time.Millisecond, Max: 5 * time.Second, Factor: 2, Jitter: 0.2}
	wait := policy.Delay(failures, rand.Float64())
	s.worker.log.Warn("jobs could not be claimed, trying again", "stage", s.name, "error", err, "wait", wait)
	select {
	case <-taking.Done():
	case <-time.After(wait):
	}
}

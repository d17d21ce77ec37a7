package worker_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/weft-fabric/weft/job"
	"github.com/weft-fabric/weft/worker"
)

type spanKey struct{}

// spans is a tracer that notes what becomes of each attempt.
type spans struct {
	mu    sync.Mutex
	ended []string
}

func (s *spans) Attempt(ctx context.Context, j job.Job) (context.Context, func(job.Outcome, error)) {
	return context.WithValue(ctx, spanKey{}, j.Attempt), func(o job.Outcome, err error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.ended = append(s.ended, fmt.Sprintf("attempt %d %s %v", j.Attempt, o, err))
	}
}

func (s *spans) all() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.ended)
}

func TestEachAttemptIsOneSpanAndItsHandlerIsInIt(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := &spans{}
		b := setup(t, func(ctx context.Context, task *worker.Task) job.Outcome {
			if ctx.Value(spanKey{}) != task.Job().Attempt {
				t.Errorf("attempt %d is in the span of %v", task.Job().Attempt, ctx.Value(spanKey{}))
			}
			if task.Job().Attempt == 1 {
				return job.FailedAfter("no", 0)
			}
			return done()
		}, func(o *worker.Options) { o.Tracer = s })
		b.run(specs(1)...)
		b.pass(time.Second)
		b.wantOutcomes("a", "failed: no", "completed")
		if got, want := slices.Sorted(slices.Values(s.all())), []string{"attempt 1 failed <nil>", "attempt 2 completed <nil>"}; !slices.Equal(got, want) {
			t.Errorf("spans %q, want %q", got, want)
		}
	})
}

func TestSpanOfALostAttemptSaysSo(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := &spans{}
		var c causes
		b := setup(t, c.work, func(o *worker.Options) { o.Tracer = s })
		b.run(specs(1)...)
		b.pass(time.Second)
		b.cancel("a", "not needed", true)
		b.pass(2 * time.Second)
		if got, want := s.all(), []string{"attempt 1 completed job was cancelled: not needed"}; !slices.Equal(got, want) {
			t.Errorf("spans %q, want %q", got, want)
		}
	})
}

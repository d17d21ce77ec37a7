package kv

import (
	"context"
	"time"

	"github.com/nats-io/nuid"

	"github.com/weft-fabric/weft/job"
)

// Pending is a write that is on its way. Many may be at once, where Swap would
// wait for each.
type Pending struct {
	b    *Bucket
	w    Write
	mark string

	landed   chan struct{} // closed once the answer is there
	revision uint64        // set before landed is closed, as err is
	err      error
}

// Begin sends a write and does not wait for its answer; End does. If landed is
// given, it is called once End need not wait for the answer any more, from a
// goroutine that must not be kept.
func (b *Bucket) Begin(w Write, landed func(*Pending)) *Pending {
	return b.send(w, nuid.Next(), landed)
}

func (b *Bucket) send(w Write, mark string, landed func(*Pending)) *Pending {
	p := &Pending{b: b, w: w, mark: mark, landed: make(chan struct{})}
	b.tower.Send(b.message(w, mark), func(revision uint64, err error) {
		p.revision, p.err = revision, err
		close(p.landed)
		if landed != nil {
			landed(p)
		}
	})
	return p
}

// BeginJob sends a job's record, as Save does.
func (b *Bucket) BeginJob(j job.Job, revision uint64, ttl time.Duration, landed func(*Pending)) *Pending {
	return b.Begin(Write{Key: JobKey(j.ID), Value: encode(j), Revision: revision, TTL: ttl}, landed)
}

// Value is what is being written.
func (p *Pending) Value() []byte { return p.w.Value }

// Done reports whether the write has happened, and gives its revision. That it has
// not says nothing, before End.
func (p *Pending) Done() (revision uint64, done bool) {
	select {
	case <-p.landed:
		return p.revision, p.err == nil
	default:
		return 0, false
	}
}

// End waits for the answer and returns the new revision. What is not answered in
// time or is refused goes on as in Swap, whose errors it has.
func (p *Pending) End(ctx context.Context) (uint64, error) {
	if err := p.wait(ctx); err != nil {
		return 0, undecided(p.w.Key, err)
	}
	return p.b.decide(ctx, p.w, p.mark, p.revision, p.err)
}

// wait waits for the answer, or until ctx ends, and then returns its error.
func (p *Pending) wait(ctx context.Context) error {
	select {
	case <-p.landed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

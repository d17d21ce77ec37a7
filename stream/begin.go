package stream

import (
	"context"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Pending is a first item that is on its way.
type Pending struct {
	q      *Queue
	item   Item
	future jetstream.PubAckFuture // nil if it could not even be sent
}

// BeginNew publishes a job's first item, as OfferNew does, and does not wait for
// the answer; End does.
func (q *Queue) BeginNew(it Item) *Pending {
	p := &Pending{q: q, item: it}
	p.future, _ = q.js.PublishMsgAsync(q.message(it), jetstream.WithExpectLastSequencePerSubject(0)) // End tries again
	return p
}

// End waits for the answer. What is not answered in time or is refused goes on as
// in OfferNew, whose errors it has.
func (p *Pending) End(ctx context.Context) error {
	if future := p.future; future != nil {
		p.future = nil // it answers once
		late := time.NewTimer(answerWait)
		defer late.Stop()
		select {
		case <-future.Ok():
			return nil
		case <-future.Err():
		case <-late.C:
		case <-ctx.Done():
		}
	}
	return p.q.OfferNew(ctx, p.item)
}

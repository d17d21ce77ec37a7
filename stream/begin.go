package stream

import (
	"context"

	"github.com/nats-io/nats.go"

	"github.com/weft-fabric/weft/internal/flight"
)

// Pending is a first item that is on its way.
type Pending struct {
	q      *Queue
	msg    *nats.Msg
	landed chan error // gets the answer
}

// BeginNew publishes a job's first item, as OfferNew does, and does not wait for
// the answer; End does.
func (q *Queue) BeginNew(it Item) *Pending {
	msg := q.message(it)
	expect(msg, 0)
	return &Pending{q: q, msg: msg, landed: q.send(msg)}
}

// send publishes a message; its answer comes by the channel.
func (q *Queue) send(msg *nats.Msg) chan error {
	landed := make(chan error, 1)
	q.tower.Send(msg, flight.SenderFunc(func(_ uint64, err error) { landed <- err }))
	return landed
}

// End waits for the answer. What is not answered in time or is refused goes on as
// in OfferNew, whose errors it has.
func (p *Pending) End(ctx context.Context) error {
	err := p.q.decide(ctx, p.msg, receive(ctx, p.landed))
	if isOccupied(err) {
		return nil
	}
	return err
}

// receive waits for an answer, or until ctx ends, and then returns its error.
func receive(ctx context.Context, landed <-chan error) error {
	select {
	case err := <-landed:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

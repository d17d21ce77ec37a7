package kv

import (
	"context"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/weft-fabric/weft/job"
)

// Pending is a write that is on its way. Many may be at once, where Swap would
// wait for each.
type Pending struct {
	b      *Bucket
	w      Write
	mark   string
	future jetstream.PubAckFuture // nil if it could not even be sent
}

// Begin sends a write and does not wait for its answer; End does.
func (b *Bucket) Begin(w Write) *Pending {
	p := &Pending{b: b, w: w, mark: nuid.Next()}
	p.future, _ = b.js.PublishMsgAsync(b.message(w, p.mark)) // End tries again
	return p
}

// BeginJob sends the record of a new job.
func (b *Bucket) BeginJob(j job.Job) *Pending {
	return b.Begin(Write{Key: JobKey(j.ID), Value: j.AppendJSON(nil)})
}

// Value is what is being written.
func (p *Pending) Value() []byte { return p.w.Value }

// End waits for the answer and returns the new revision. What is not answered in
// time or is refused goes on as in Swap, whose errors it has.
func (p *Pending) End(ctx context.Context) (uint64, error) {
	if future := p.future; future != nil {
		p.future = nil // it answers once
		late := time.NewTimer(answerWait)
		defer late.Stop()
		select {
		case ack := <-future.Ok():
			return ack.Sequence, nil
		case <-future.Err():
		case <-late.C:
		case <-ctx.Done():
		}
	}
	return p.b.swap(ctx, p.w, p.mark)
}

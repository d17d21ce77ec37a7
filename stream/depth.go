package stream

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Depth is what a stage's stream holds, as the server counts it.
type Depth struct {
	Stream   string
	Messages int // items, taken or not, and schedules
	Lanes    []Lane
}

// Lane is one lane's consumer and what it has before it.
type Lane struct {
	Priority    int
	Consumer    string
	Waiting     int // items that nobody has taken
	Taken       int // items that a worker has, or has given back for later
	Pulls       int // requests of workers that stand
	Paused      bool
	PausedUntil time.Time // zero unless Paused
	ByHand      bool      // it was not the fabric that paused it
	delivered   uint64    // the last item handed out, by its sequence
	floor       uint64    // up to this sequence nothing is delivered any more
}

// Waiting is how many items nobody has taken.
func (d Depth) Waiting() (n int) {
	for _, l := range d.Lanes {
		n += l.Waiting
	}
	return n
}

// Taken is how many items are with a worker.
func (d Depth) Taken() (n int) {
	for _, l := range d.Lanes {
		n += l.Taken
	}
	return n
}

// Delayed is how many schedules there are. Stream and consumers are asked one
// after the other, so it may be off by what moved in between.
func (d Depth) Delayed() int { return max(0, d.Messages-d.Waiting()-d.Taken()) }

// Depth asks for what a stage's stream holds: one question for the stream and one
// for each lane, whatever it holds. A stage without stream holds nothing, and a
// lane without consumer is left out.
func (q *Queue) Depth(ctx context.Context, stage string, s Settings) (Depth, error) {
	d := Depth{Stream: q.names.stream(stage)}
	st, err := q.js.Stream(ctx, d.Stream)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return d, nil
	}
	if err != nil {
		return d, fmt.Errorf("stage %s: %w", stage, err)
	}
	d.Messages = int(st.CachedInfo().State.Msgs)
	for _, lane := range s.lanes() {
		c, err := st.Consumer(ctx, consumer(lane))
		if isAbsent(err) {
			continue
		}
		if err != nil {
			return d, fmt.Errorf("stage %s: %w", stage, err)
		}
		d.Lanes = append(d.Lanes, laneOf(lane, c.CachedInfo()))
	}
	return d, nil
}

func laneOf(priority int, info *jetstream.ConsumerInfo) Lane {
	l := Lane{
		Priority: priority, Consumer: info.Name,
		Waiting: int(info.NumPending), Taken: info.NumAckPending, Pulls: info.NumWaiting,
		Paused: info.Paused, delivered: info.Delivered.Stream, floor: info.AckFloor.Stream,
	}
	if info.Paused && info.Config.PauseUntil != nil {
		l.PausedUntil, l.ByHand = *info.Config.PauseUntil, !ours(info)
	}
	return l
}

// Oldest is when the item that has waited longest was stored, on the server's
// clock; zero if none waits.
func (q *Queue) Oldest(ctx context.Context, stage string, d Depth) (oldest time.Time, err error) {
	st, err := q.js.Stream(ctx, d.Stream)
	if isAbsent(err) {
		return oldest, nil
	}
	if err != nil {
		return oldest, fmt.Errorf("stage %s: %w", stage, err)
	}
	for _, l := range d.Lanes {
		if l.Waiting == 0 {
			continue
		}
		msg, err := st.GetMsg(ctx, l.delivered+1, jetstream.WithGetMsgSubject(q.names.item(stage, l.Priority, "*")))
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			continue // taken since
		}
		if err != nil {
			return oldest, fmt.Errorf("stage %s: %w", stage, err)
		}
		if oldest.IsZero() || msg.Time.Before(oldest) {
			oldest = msg.Time
		}
	}
	return oldest, nil
}

package stream

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Place says where in a stage's queue a job is: whether it has an item or a
// schedule, and what comes before the item.
type Place struct {
	Depth  Depth
	Stream bool // the stage has a stream; without one everything else is zero
	Lane   Lane // of the job; zero if the lane has no consumer
	Higher int  // items that wait in lanes of higher priority

	Sequence uint64    // of the item, 0 if there is none
	Stored   time.Time // when the item was stored
	Taken    bool      // it was handed out, and comes again if nobody settles it
	Stranded bool      // its consumer takes it for acknowledged: it comes to nobody, see Revive

	// AtLeast and AtMost bound how many waiting items of the lane come before one
	// that was not handed out. They differ by what lies between, and may be of other
	// lanes: the server counts what waits, and not what waits before an item.
	AtLeast, AtMost int

	Scheduled bool
	Due       time.Time // when the schedule fires, zero if that cannot be told
}

// Place looks a job up in its stage's queue. It reads and changes nothing. Item,
// consumers and stream are asked one after the other, so of a job that moves
// meanwhile it may tell what never was at once.
func (q *Queue) Place(ctx context.Context, stage string, lane int, id string, s Settings) (Place, error) {
	var p Place
	st, err := q.js.Stream(ctx, q.names.stream(stage))
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return p, nil
	}
	if err == nil {
		p.Stream = true
		err = p.find(ctx, st, q.names.item(stage, lane, id), q.names.later(stage, id))
	}
	if err == nil {
		p.Depth, err = q.Depth(ctx, stage, s)
	}
	if err != nil {
		return p, fmt.Errorf("stage %s: %w", stage, err)
	}
	if err := p.rank(ctx, st, lane); err != nil {
		return p, fmt.Errorf("stage %s: %w", stage, err)
	}
	return p, nil
}

// find looks for the item and the schedule.
func (p *Place) find(ctx context.Context, st jetstream.Stream, item, later string) error {
	msg, err := st.GetLastMsgForSubject(ctx, item)
	if err == nil {
		p.Sequence, p.Stored = msg.Sequence, msg.Time
	} else if !errors.Is(err, jetstream.ErrMsgNotFound) {
		return err
	}
	msg, err = st.GetLastMsgForSubject(ctx, later)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	p.Scheduled, p.Due = true, dueOf(msg)
	return nil
}

// dueOf is when a schedule fires, zero if that cannot be told.
func dueOf(msg *jetstream.RawStreamMsg) (due time.Time) {
	if at, ok := strings.CutPrefix(msg.Header.Get(scheduleHeader), "@at "); ok {
		due, _ = time.Parse(time.RFC3339Nano, at) // another form is not the fabric's
	}
	return due
}

// rank holds the item against the consumers. The lane's consumer was asked before
// the stream's end, which bounds how many came after the item.
func (p *Place) rank(ctx context.Context, st jetstream.Stream, lane int) error {
	for _, l := range p.Depth.Lanes {
		switch {
		case l.Priority < lane:
			p.Higher += l.Waiting
		case l.Priority == lane:
			p.Lane = l
		}
	}
	if p.Sequence == 0 || p.Lane.Consumer == "" {
		return nil
	}
	p.Stranded = p.Sequence <= p.Lane.floor
	p.Taken = !p.Stranded && p.Sequence <= p.Lane.delivered
	if p.Stranded || p.Taken {
		return nil
	}
	info, err := st.Info(ctx)
	if err != nil {
		return err
	}
	others := max(0, p.Lane.Waiting-1)
	p.AtMost = min(others, int(p.Sequence-p.Lane.delivered-1))
	after := others
	if last := info.State.LastSeq; last >= p.Sequence {
		after = int(min(uint64(others), last-p.Sequence))
	}
	p.AtLeast = min(others-after, p.AtMost)
	return nil
}

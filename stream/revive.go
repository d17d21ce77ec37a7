package stream

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weft-fabric/weft/job"
)

// Revive publishes anew every item of a stage that lies in its stream and will
// never be delivered, because its consumer takes it for acknowledged. A server
// that dies without warning can forget that an item was removed and still know
// that it was acknowledged; the item then comes back for nobody. It returns how
// many there were. Revived items may be void, as any item.
//
// An item at or below the consumer's ack floor is such a one, apart from those
// whose removal is under way; and publishing one of these once more is harmless.
// The cost is one look a lane and one for each such item.
func (q *Queue) Revive(ctx context.Context, stage string, lanes []int) (int, error) {
	st, err := q.js.Stream(ctx, q.names.stream(stage))
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("stage %s: %w", stage, err)
	}
	revived := 0
	for _, lane := range append([]int{job.DefaultPriority}, lanes...) {
		n, err := q.reviveLane(ctx, st, stage, lane)
		revived += n
		if err != nil {
			return revived, fmt.Errorf("stage %s: %w", stage, err)
		}
	}
	return revived, nil
}

func (q *Queue) reviveLane(ctx context.Context, st jetstream.Stream, stage string, lane int) (revived int, err error) {
	c, err := st.Consumer(ctx, consumer(lane))
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		return 0, nil // a new one delivers everything
	}
	if err != nil {
		return 0, err
	}
	filter, floor := q.names.item(stage, lane, "*"), c.CachedInfo().AckFloor.Stream
	for next := uint64(1); next <= floor; {
		msg, err := st.GetMsg(ctx, next, jetstream.WithGetMsgSubject(filter))
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return revived, nil
		}
		if err != nil {
			return revived, err
		}
		if msg.Sequence > floor {
			return revived, nil
		}
		again := &nats.Msg{Subject: msg.Subject, Data: msg.Data, Header: revivedHeader(msg.Header)}
		expect(again, msg.Sequence)
		err = q.publish(ctx, again)
		if err != nil && !isOccupied(err) { // occupied: somebody else has offered the job
			return revived, err
		}
		revived++
		next = msg.Sequence + 1
	}
	return revived, nil
}

// revivedHeader keeps of a stored item's header what it was published with.
func revivedHeader(stored nats.Header) nats.Header {
	header := nats.Header{}
	if revision := stored.Get(RevisionHeader); revision != "" {
		header.Set(RevisionHeader, revision)
	}
	return header
}

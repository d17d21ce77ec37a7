package stream

import (
	"context"
	"strconv"
)

// Pick gives the item of a job out of its turn, wherever in the queue it is. The
// queue does not know, and will hand it to somebody in its turn: who picks relies
// on the record alone. So it may be removed, but neither given back nor reported
// in progress. It reports false when the job has no item.
func (q *Queue) Pick(ctx context.Context, stage string, lane int, id string) (*Delivery, bool, error) {
	msg, there, err := q.last(ctx, stage, q.names.item(stage, lane, id))
	if !there || err != nil {
		return nil, false, err
	}
	return &Delivery{
		Item: itemOf(&msg, stage, lane, id),
		Seq:  msg.Sequence, Stored: msg.Time,
		remove: func() bool { return q.remove(stage, msg.Sequence) },
	}, true, nil
}

// remove has the server remove one message, and does not wait for it.
func (q *Queue) remove(stage string, seq uint64) bool {
	request := `{"seq":` + strconv.FormatUint(seq, 10) + `,"no_erase":true}`
	return q.nc.Publish(q.api+".STREAM.MSG.DELETE."+q.names.stream(stage), []byte(request)) == nil
}

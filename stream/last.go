package stream

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// lookWait bounds a look without a deadline of its own.
const lookWait = 5 * time.Second

// lastAnswer is what the server says to a look.
type lastAnswer struct {
	Error   *jetstream.APIError `json:"error"`
	Message *struct {
		Subject  string    `json:"subject"`
		Sequence uint64    `json:"seq"`
		Header   []byte    `json:"hdrs"`
		Data     []byte    `json:"data"`
		Time     time.Time `json:"time"`
	} `json:"message"`
}

// last reads the last message of a subject from the leader of the stage's stream.
// It reports false when there is none, or no such stream. The client's own call
// needs the stream's information first, which would be a question more.
func (q *Queue) last(ctx context.Context, stage, subject string) (msg jetstream.RawStreamMsg, there bool, err error) {
	request, err := json.Marshal(map[string]string{"last_by_subj": subject})
	if err != nil {
		return msg, false, err
	}
	ctx, cancel := context.WithTimeout(ctx, lookWait)
	defer cancel()
	reply, err := q.nc.RequestWithContext(ctx, q.api+".STREAM.MSG.GET."+q.names.stream(stage), request)
	if err != nil {
		return msg, false, fmt.Errorf("stage %s: %w", stage, err)
	}
	var answer lastAnswer
	if err := json.Unmarshal(reply.Data, &answer); err != nil {
		return msg, false, fmt.Errorf("stage %s: answer of the server: %w", stage, err)
	}
	if e := answer.Error; e != nil {
		if e.ErrorCode == jetstream.JSErrCodeStreamNotFound || e.ErrorCode == jetstream.JSErrCodeMessageNotFound {
			return msg, false, nil
		}
		return msg, false, fmt.Errorf("stage %s: %w", stage, e)
	}
	m := answer.Message
	if m == nil {
		return msg, false, fmt.Errorf("stage %s: %w", stage, jetstream.ErrInvalidJetStreamResponse)
	}
	msg = jetstream.RawStreamMsg{Subject: m.Subject, Sequence: m.Sequence, Data: m.Data, Time: m.Time}
	if len(m.Header) > 0 {
		if msg.Header, err = nats.DecodeHeadersMsg(m.Header); err != nil {
			return msg, false, fmt.Errorf("stage %s: %w", stage, err)
		}
	}
	return msg, true, nil
}

package stream

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weft-fabric/weft/internal/flight"
	"github.com/weft-fabric/weft/internal/natserr"
	"github.com/weft-fabric/weft/job"
)

// Item says that a job may be ready.
type Item struct {
	Stage    string
	Lane     int
	JobID    string
	Body     []byte // the record at Revision, or a bare spec
	Revision uint64 // 0 on a bare spec
	// Trace is written to the headers of an item that is published, for whoever
	// looks at items alone. Of an item that is delivered see Delivery.Trace.
	Trace job.Trace
}

// ErrNoStream means that the stage has no work stream (any more); Ensure makes
// it.
var ErrNoStream = errors.New("the stage has no work stream")

// Server codes, by measurement: an occupied subject has two.
const (
	codeOccupied         jetstream.ErrorCode = 10071
	codeOccupiedInFlight jetstream.ErrorCode = 10164
)

// OfferNew publishes a job's first item. An item that is there already is left
// alone: the same offer was made before.
func (q *Queue) OfferNew(ctx context.Context, it Item) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("publish %s: %w", it.JobID, err)
	}
	return q.BeginNew(it).End(ctx)
}

// Offer publishes a job's item anew. It evicts the item that is there, so that a
// late acknowledgement of that one cannot touch the new one.
func (q *Queue) Offer(ctx context.Context, it Item) error {
	return q.publish(ctx, q.message(it))
}

// OfferLater schedules the job's item for a time, in place of a schedule that is
// there. The server offers it at that time or up to some 250 ms later.
func (q *Queue) OfferLater(ctx context.Context, it Item, at time.Time) error {
	msg := q.message(it)
	target := msg.Subject
	msg.Subject = q.names.later(it.Stage, it.JobID)
	msg.Header.Set(targetHeader, target)
	// The client's own option cuts the time to whole seconds and fires early.
	msg.Header.Set(scheduleHeader, "@at "+at.UTC().Format(time.RFC3339Nano))
	return q.publish(ctx, msg)
}

// Withdraw removes a job's item and schedule, whoever holds it.
//
// It removes messages by their sequence and never purges a subject: the server
// (2.15.2) moves a consumer's ack floor wrongly when less than its filter is
// purged, and later drops items of other jobs, delivered and not acknowledged,
// as if they had been: they are in the stream and come to nobody.
func (q *Queue) Withdraw(ctx context.Context, stage string, lane int, id string) error {
	st, err := q.js.Stream(ctx, q.names.stream(stage))
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("withdraw %s: %w", id, err)
	}
	for _, subject := range []string{q.names.later(stage, id), q.names.item(stage, lane, id)} {
		if err := remove(ctx, st, subject); err != nil {
			return fmt.Errorf("withdraw %s: %w", id, err)
		}
	}
	return nil
}

// remove deletes what a subject holds, if anything.
func remove(ctx context.Context, st jetstream.Stream, subject string) error {
	msg, err := st.GetLastMsgForSubject(ctx, subject)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	err = st.DeleteMsg(ctx, msg.Sequence)
	if errors.Is(err, jetstream.ErrMsgDeleteUnsuccessful) { // the client keeps the server's code to itself
		if _, gone := st.GetMsg(ctx, msg.Sequence); errors.Is(gone, jetstream.ErrMsgNotFound) {
			return nil // somebody else was faster
		}
	}
	return err
}

func (q *Queue) message(it Item) *nats.Msg {
	msg := &nats.Msg{
		Subject: q.names.item(it.Stage, it.Lane, it.JobID),
		Data:    it.Body,
		Header:  nats.Header{RevisionHeader: {strconv.FormatUint(it.Revision, 10)}},
	}
	if it.Trace.Parent != "" {
		writeTrace(msg.Header, it.Trace)
	}
	return msg
}

const (
	// answerWait is how long one question about what is stored waits for the
	// server, as a publish does.
	answerWait = flight.Wait
	// repeatWait lies between two tries.
	repeatWait = 100 * time.Millisecond
)

// expect has a message refused unless its subject is at the sequence, 0 for none.
func expect(msg *nats.Msg, sequence uint64) {
	msg.Header.Set(jetstream.ExpectedLastSubjSeqHeader, strconv.FormatUint(sequence, 10))
}

// publish sends a message and waits until it is known what has become of it.
func (q *Queue) publish(ctx context.Context, msg *nats.Msg) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("publish %s: %w", msg.Subject, err)
	}
	return q.decide(ctx, msg, receive(ctx, q.send(msg)))
}

// decide goes on from the answer to a publish. It repeats what stays undecided
// while ctx lasts, unless it turns out to be stored. A second item for the first,
// which somebody may have taken meanwhile, is harmless: its taker finds that the
// job is held by another item.
func (q *Queue) decide(ctx context.Context, msg *nats.Msg, err error) error {
	for try := 1; ; try++ {
		switch {
		case err == nil:
			return nil
		case errors.Is(err, jetstream.ErrNoStreamResponse):
			return fmt.Errorf("publish %s: %w: %w", msg.Subject, ErrNoStream, err)
		case !natserr.Unknown(err):
			return fmt.Errorf("publish %s: %w", msg.Subject, err)
		}
		wait := repeatWait
		if try == 1 { // an answer that was lost has been waited for already
			wait = 0
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("publish %s: %w", msg.Subject, err)
		case <-time.After(wait):
		}
		if q.stored(ctx, msg) {
			return nil
		}
		err = receive(ctx, q.send(msg))
	}
}

// stored reports whether the message is there, as far as the server answers.
func (q *Queue) stored(ctx context.Context, sent *nats.Msg) bool {
	ctx, cancel := context.WithTimeout(ctx, answerWait)
	defer cancel()
	stage, ok := q.names.stageOf(sent.Subject)
	if !ok {
		return false
	}
	msg, there, err := q.last(ctx, stage, sent.Subject)
	return err == nil && there && msg.Header.Get(RevisionHeader) == sent.Header.Get(RevisionHeader)
}

func isOccupied(err error) bool {
	api, ok := errors.AsType[*jetstream.APIError](err)
	return ok && (api.ErrorCode == codeOccupied || api.ErrorCode == codeOccupiedInFlight)
}

func lastToken(subject string) string { return subject[strings.LastIndexByte(subject, '.')+1:] }

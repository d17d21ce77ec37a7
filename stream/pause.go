package stream

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/weft-fabric/weft/job"
)

// pausedUntil is until when a stage's consumers are paused: far enough to be for
// good. It also tells a pause of the fabric from one that an operator has put on a
// consumer by hand, which is left alone.
var pausedUntil = time.Date(2200, time.January, 1, 0, 0, 0, 0, time.UTC)

// pauseUntil is the setting of a consumer that is made.
func pauseUntil(paused bool) *time.Time {
	if !paused {
		return nil
	}
	until := pausedUntil
	return &until
}

// pauseCheck is how often a consumer is asked whether it has followed. On one
// server it has when the first answer comes.
const pauseCheck = 20 * time.Millisecond

// SetPaused pauses or resumes every consumer that the stage has, of whatever
// lane, and returns when each has followed: from then on the server hands out
// nothing, or again. What is absent is passed over.
func (q *Queue) SetPaused(ctx context.Context, stage string, paused bool) error {
	for lane := job.HighestPriority; lane <= job.LowestPriority; lane++ {
		err := q.setPaused(ctx, q.names.stream(stage), consumer(lane), paused)
		if err != nil && !isAbsent(err) {
			return fmt.Errorf("stage %s: consumer %s: %w", stage, consumer(lane), err)
		}
	}
	return nil
}

func (q *Queue) setPaused(ctx context.Context, stream, name string, paused bool) (err error) {
	if paused {
		_, err = q.js.PauseConsumer(ctx, stream, name, pausedUntil)
	} else {
		_, err = q.js.ResumeConsumer(ctx, stream, name)
	}
	for err == nil {
		// In a cluster the answer may come before the consumer's leader knows.
		var c jetstream.Consumer
		if c, err = q.js.Consumer(ctx, stream, name); err != nil || c.CachedInfo().Paused == paused {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pauseCheck):
		}
	}
	return err
}

// Follow has the stage's consumers do what its settings say of a pause, where one
// was not told. A pause that an operator has put on a consumer by hand stays.
func (q *Queue) Follow(ctx context.Context, stage string, s Settings) error {
	for _, lane := range s.lanes() {
		c, err := q.js.Consumer(ctx, q.names.stream(stage), consumer(lane))
		if err == nil {
			err = q.follow(ctx, c.CachedInfo(), s.Paused)
		}
		if err != nil && !isAbsent(err) {
			return fmt.Errorf("stage %s: consumer %s: %w", stage, consumer(lane), err)
		}
	}
	return nil
}

func (q *Queue) follow(ctx context.Context, c *jetstream.ConsumerInfo, paused bool) error {
	if c.Paused == paused || !paused && !ours(c) {
		return nil
	}
	return q.setPaused(ctx, c.Stream, c.Name, paused)
}

// ours reports whether it is the fabric that has paused a consumer.
func ours(c *jetstream.ConsumerInfo) bool {
	return c.Config.PauseUntil != nil && c.Config.PauseUntil.Equal(pausedUntil)
}

func isAbsent(err error) bool {
	return errors.Is(err, jetstream.ErrStreamNotFound) || errors.Is(err, jetstream.ErrConsumerNotFound)
}

// Configure gives the consumers of a stage its lease and its limit, and touches
// nothing else of theirs. What is absent is passed over.
func (q *Queue) Configure(ctx context.Context, stage string, s Settings) error {
	for lane := job.HighestPriority; lane <= job.LowestPriority; lane++ {
		err := q.configure(ctx, stage, lane, s)
		if err != nil && !isAbsent(err) {
			return fmt.Errorf("stage %s: consumer %s: %w", stage, consumer(lane), err)
		}
	}
	return nil
}

func (q *Queue) configure(ctx context.Context, stage string, lane int, s Settings) error {
	c, err := q.js.Consumer(ctx, q.names.stream(stage), consumer(lane))
	if err != nil {
		return err
	}
	have, want := c.CachedInfo().Config, q.ConsumerConfig(stage, lane, s)
	if have.AckWait == want.AckWait && have.MaxAckPending == want.MaxAckPending {
		return nil
	}
	have.AckWait, have.MaxAckPending = want.AckWait, want.MaxAckPending
	_, err = q.js.UpdateConsumer(ctx, q.names.stream(stage), have)
	return err
}

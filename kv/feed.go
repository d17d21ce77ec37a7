package kv

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weft-fabric/weft/internal/topology"
)

// A feed is a durable consumer of the records of all jobs. The server keeps its
// place whether or not anybody asks, and several processes that ask by one name
// share what comes. The bucket keeps one message a key, so of a record that changed
// several times before it was taken a feed gives the last.

// ErrFeedGone means that a feed's consumer is not there: nobody has made it, or
// somebody has deleted it.
var ErrFeedGone = errors.New("the feed's consumer is not there")

const (
	// feedUnacked is how many changes of one feed may be with its takers, those that
	// are to come again later included. It bounds what a backend that fails at
	// everything leaves behind.
	feedUnacked = 1000
	// feedRemoval is how long a server may take to remove the files of a consumer
	// that was deleted. One of the same name that is made before loses its own.
	feedRemoval = time.Second
)

// FeedConfig says which feed.
type FeedConfig struct {
	Name    string
	After   uint64        // the revision behind which a consumer that is new begins
	AckWait time.Duration // how long a change may be with a taker that says nothing
}

// feedConsumer is the name of a feed's consumer.
func feedConsumer(name string) string { return "outcomes-" + name }

// FeedConsumerConfig is the configuration of a feed's consumer.
func (b *Bucket) FeedConsumerConfig(c FeedConfig) jetstream.ConsumerConfig {
	return jetstream.ConsumerConfig{
		Durable:       feedConsumer(c.Name),
		Description:   "Weft outcomes for " + c.Name,
		FilterSubject: b.prefix + AllJobs,
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy,
		OptStartSeq:   c.After + 1,
		AckPolicy:     jetstream.AckExplicitPolicy,
		AckWait:       c.AckWait,
		MaxDeliver:    -1,
		MaxAckPending: feedUnacked,
	}
}

// Feed is one process's way into a feed.
type Feed struct {
	b        *Bucket
	name     string
	consumer jetstream.Consumer
}

// OpenFeed creates a feed's consumer when it is absent and compares it when it is
// present; it fails with a *topology.DriftError when they differ.
func (b *Bucket) OpenFeed(ctx context.Context, c FeedConfig) (*Feed, error) {
	consumer, err := topology.EnsureConsumer(ctx, b.stream, b.FeedConsumerConfig(c))
	if err != nil {
		return nil, err
	}
	return &Feed{b: b, name: c.Name, consumer: consumer}, nil
}

// ReopenFeed is OpenFeed for a feed whose consumer was there and is not any more.
func (b *Bucket) ReopenFeed(ctx context.Context, c FeedConfig) (*Feed, error) {
	if err := rest(ctx, feedRemoval); err != nil {
		return nil, err
	}
	return b.OpenFeed(ctx, c)
}

// CheckFeed compares a feed's consumer as OpenFeed does and creates nothing: one
// that is absent is a *topology.DriftError.
func (b *Bucket) CheckFeed(ctx context.Context, c FeedConfig) error {
	return topology.CheckConsumer(ctx, b.stream, b.FeedConsumerConfig(c))
}

// RepairFeed sets the settings of a feed's consumer right, and creates it when it
// is absent.
func (b *Bucket) RepairFeed(ctx context.Context, c FeedConfig) error {
	return topology.RepairConsumer(ctx, b.stream, b.FeedConsumerConfig(c))
}

// RemoveFeed deletes a feed's consumer. It fails with ErrFeedGone when there is none.
func (b *Bucket) RemoveFeed(ctx context.Context, name string) error {
	err := b.stream.DeleteConsumer(ctx, feedConsumer(name))
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		return ErrFeedGone
	}
	if err != nil {
		return fmt.Errorf("feed %s: %w", name, err)
	}
	return nil
}

// FeedDepth is how far a feed has come.
type FeedDepth struct {
	Pending   uint64    // records that it has not given anybody, in whatever state they are
	Unacked   int       // those that are with a taker, or are to come again
	Takers    int       // how many questions stand
	LastTaken time.Time // when it last gave one, on the server's clock; zero if never
	LastAck   time.Time // when one was last acknowledged; zero if never
}

// FeedDepth asks how far a feed has come. It fails with ErrFeedGone.
func (b *Bucket) FeedDepth(ctx context.Context, name string) (FeedDepth, error) {
	c, err := b.stream.Consumer(ctx, feedConsumer(name))
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		return FeedDepth{}, ErrFeedGone
	}
	if err != nil {
		return FeedDepth{}, fmt.Errorf("feed %s: %w", name, err)
	}
	info := c.CachedInfo()
	d := FeedDepth{Pending: info.NumPending, Unacked: info.NumAckPending, Takers: info.NumWaiting}
	if at := info.Delivered.Last; at != nil {
		d.LastTaken = *at
	}
	if at := info.AckFloor.Last; at != nil {
		d.LastAck = *at
	}
	return d, nil
}

// LastRevision asks for the revision of the bucket's last change.
func (b *Bucket) LastRevision(ctx context.Context) (uint64, error) {
	info, err := b.stream.Info(ctx)
	if err != nil {
		return 0, fmt.Errorf("bucket %s: %w", b.name, err)
	}
	return info.State.LastSeq, nil
}

// Delivery is a record in the hands of one taker of a feed. It is given again, to
// this one or another, unless Ack is called; also when ack-wait has passed since it
// was given or was last InProgress.
type Delivery struct {
	Entry
	Deliveries uint64 // how often it was given since the consumer exists
	msg        jetstream.Msg
}

// Ack says that the record was dealt with. It does not wait for the server: one
// that gets lost has the record given again.
func (d *Delivery) Ack() error { return d.msg.Ack() }

// Later gives the record back, to be given again after delay.
func (d *Delivery) Later(delay time.Duration) error {
	if delay <= 0 {
		return d.msg.Nak()
	}
	return d.msg.NakWithDelay(delay)
}

// InProgress starts ack-wait anew.
func (d *Delivery) InProgress() error { return d.msg.InProgress() }

// Take asks for up to n records and gives them as they come, in the order of their
// last change, until all have come or the time of the question is over. It fails
// with ErrFeedGone when the consumer is not there, with ctx's error, and with
// whatever else ended the question; then it may be asked again.
func (f *Feed) Take(ctx context.Context, n int, give func(*Delivery)) error {
	var bad error
	err := f.b.take(ctx, f.consumer, n, func(msg jetstream.Msg) bool {
		e, place, err := f.b.scanned(msg)
		if err != nil {
			bad = err
			return false
		}
		give(&Delivery{Entry: e, Deliveries: place.deliveries, msg: msg})
		return true
	})
	if bad != nil {
		return bad
	}
	if err == nil || ctx.Err() != nil || errors.Is(err, nats.ErrDisconnected) || errors.Is(err, nats.ErrConnectionClosed) {
		return err
	}
	// A server that is not up yet answers as little as a consumer that is gone.
	ctx, cancel := context.WithTimeout(ctx, answerWait)
	defer cancel()
	if _, look := f.b.stream.Consumer(ctx, feedConsumer(f.name)); errors.Is(look, jetstream.ErrConsumerNotFound) {
		return ErrFeedGone
	}
	return fmt.Errorf("feed %s: %w", f.name, err)
}

// takeBeat is how often the server says that a question still stands, which it does
// for the client's usual 30 s. Two silent beats mean that it was lost.
const takeBeat = 2 * time.Second

// take asks a consumer for up to n messages and gives them as they come. It ends
// without an error when the question was answered, its time is over, or the
// connection over which it was asked was made anew, and with errStopped when give
// wants no more.
func (b *Bucket) take(ctx context.Context, c jetstream.Consumer, n int, give func(jetstream.Msg) bool) error {
	// The client takes the time of a question from a deadline, and refuses a short one.
	asking, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()
	switch conn := b.js.Conn(); {
	case conn.IsClosed():
		return nats.ErrConnectionClosed
	case !conn.IsConnected():
		return nats.ErrDisconnected
	}
	reconnects := b.js.Conn().Stats().Reconnects
	batch, err := c.Fetch(n, jetstream.FetchContext(asking), jetstream.FetchHeartbeat(takeBeat))
	if err != nil {
		return err
	}
	reconnected := false
	check := time.NewTicker(followCheck)
	defer check.Stop()
	for messages := batch.Messages(); messages != nil; { // also what has come when ctx ends
		select {
		case <-check.C:
			if reconnected = b.js.Conn().Stats().Reconnects != reconnects; reconnected {
				cancel()
			}
		case msg, open := <-messages:
			if !open {
				messages = nil
			} else if !give(msg) {
				return errStopped
			}
		}
	}
	switch err := batch.Error(); {
	case ctx.Err() != nil:
		return ctx.Err()
	case reconnected:
		return nil
	default:
		return err
	}
}

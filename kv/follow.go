package kv

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Following is watching for who needs to know what a key has become and not each
// step on the way. After a pause the first change is sent as it happens. Then what
// has changed is asked for from time to time, the less often the more it is, until
// nothing does; and a key that changed several times in between is given once. A
// job that takes a few milliseconds is then one message instead of three, which
// does not come while it runs.

const (
	// followWait is how long one question for the next changes stands.
	followWait = 10 * time.Second
	// followBeat is how often the server says that it still stands. Two silent
	// beats mean that it was lost.
	followBeat = 2 * time.Second
	// followCheck is how soon it is noticed that the connection was made anew.
	followCheck = 500 * time.Millisecond
	// followPage is how many changes are asked for at once.
	followPage = 1024
	// shortLull passes before what has changed is asked for, lull when it was as
	// much as busy the last time, and longLull when it was flood.
	shortLull = 5 * time.Millisecond
	lull      = 50 * time.Millisecond
	longLull  = 150 * time.Millisecond
	busy      = 64
	flood     = 512
	// followIdle is how long the server keeps a follower that does not ask. One that
	// was only slow begins again where it was.
	followIdle = 10 * time.Second
	// followPatience is how long a follower that lost its place tries to find it
	// again.
	followPatience = 30 * time.Second
)

// errFollowGap means that changes were sent and did not arrive.
var errFollowGap = errors.New("changes were lost on their way")

// Follow gives what the matching keys hold now, then a Synced change, then what
// keys have become, until ctx ends or the caller stops. Once it is synced it
// survives a server's restart and a lost connection without missing what a key has
// become, and fails when it cannot go on for followPatience.
func (b *Bucket) Follow(ctx context.Context, pattern string) iter.Seq2[Change, error] {
	return func(yield func(Change, error) bool) {
		f := &follower{b: b, subject: b.prefix + pattern, give: func(c Change) bool { return yield(c, nil) }}
		retry, lost := newRetry(), time.Time{}
		for {
			place := f.last
			err := f.run(ctx)
			switch {
			case errors.Is(err, errStopped):
				return
			case ctx.Err() != nil:
				yield(Change{}, ctx.Err())
				return
			case f.last != place: // it came on
				retry, lost = newRetry(), time.Time{}
			case lost.IsZero():
				lost = time.Now()
			}
			if !f.synced || !lost.IsZero() && time.Since(lost) > followPatience {
				yield(Change{}, fmt.Errorf("follow %s: %w", pattern, err))
				return
			}
			if wait(ctx, retry) != nil {
				yield(Change{}, ctx.Err())
				return
			}
		}
	}
}

// errStopped ends a follower whose caller wants no more.
var errStopped = errors.New("stopped by the caller")

// follower follows one pattern. Its consumer is gone with the server that kept
// it; another then begins where it was.
type follower struct {
	b       *Bucket
	subject string
	give    func(Change) bool

	last   uint64 // revision of the last change given
	synced bool

	sub     *nats.Subscription
	next    string // where this consumer is asked
	counted uint64 // what this consumer has sent

	reconnects uint64 // of the connection, when this consumer was made
}

// run follows with one consumer until it or the caller ends.
func (f *follower) run(ctx context.Context) error {
	consumer, err := f.open(ctx)
	if err != nil {
		return err
	}
	defer f.close(ctx, consumer)
	for !f.synced {
		n, err := f.page(ctx)
		if err != nil {
			return err
		}
		if n < followPage {
			f.synced = true
			if !f.give(Change{Synced: true}) {
				return errStopped
			}
		}
	}
	for {
		if err := f.await(ctx); err != nil {
			return err
		}
		for n := 1; n > 0; {
			if err := rest(ctx, lullAfter(n)); err != nil {
				return err
			}
			if n, err = f.page(ctx); err != nil {
				return err
			}
		}
	}
}

// lullAfter is how long to wait after n changes before the next are asked for:
// after a full page not at all, since there are more.
func lullAfter(n int) time.Duration {
	switch {
	case n == followPage:
		return 0
	case n >= flood:
		return longLull
	case n >= busy:
		return lull
	}
	return shortLull
}

func (f *follower) open(ctx context.Context) (name string, err error) {
	limit := watchSilence // to find the last change of each key may take its time
	if f.synced {
		limit = answerWait
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	config := jetstream.ConsumerConfig{
		FilterSubject: f.subject, AckPolicy: jetstream.AckNonePolicy, MemoryStorage: true, Replicas: 1,
		InactiveThreshold: followIdle, DeliverPolicy: jetstream.DeliverLastPerSubjectPolicy,
	}
	if f.synced {
		config.DeliverPolicy, config.OptStartSeq = jetstream.DeliverByStartSequencePolicy, f.last+1
	}
	consumer, err := f.b.stream.CreateConsumer(ctx, config)
	if err != nil {
		return "", err
	}
	name, f.counted, f.reconnects = consumer.CachedInfo().Name, 0, f.b.js.Conn().Stats().Reconnects
	f.next = f.b.api + ".CONSUMER.MSG.NEXT." + consumer.CachedInfo().Stream + "." + name
	nc := f.b.js.Conn()
	if f.sub, err = nc.SubscribeSync(nc.NewInbox()); err != nil {
		return "", err
	}
	return name, f.sub.SetPendingLimits(-1, -1)
}

// close removes the consumer, which otherwise ends by itself.
func (f *follower) close(ctx context.Context, consumer string) {
	_ = f.sub.Unsubscribe()
	if !f.b.js.Conn().IsConnected() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = f.b.stream.DeleteConsumer(ctx, consumer)
}

// question is a pull request.
type question struct {
	Batch   int           `json:"batch"`
	Expires time.Duration `json:"expires,omitempty"` // nanoseconds
	Beat    time.Duration `json:"idle_heartbeat,omitempty"`
	NoWait  bool          `json:"no_wait,omitempty"`
}

func (f *follower) ask(q question) error {
	text, err := json.Marshal(q)
	if err != nil {
		return err
	}
	return f.b.js.Conn().PublishRequest(f.next, f.sub.Subject, text)
}

// await waits for the next change and gives it.
func (f *follower) await(ctx context.Context) error {
	for {
		if err := f.ask(question{Batch: 1, Expires: followWait, Beat: followBeat}); err != nil {
			return err
		}
		for status := statusBeat; status == statusBeat; {
			var msg *nats.Msg
			var err error
			if msg, status, err = f.hear(ctx); err != nil {
				return err
			}
			if msg != nil {
				return f.pass(msg)
			}
		}
	}
}

// hear is read for a question that stands, whose server says so from time to time.
// One that was asked over a connection that is gone, nobody answers.
func (f *follower) hear(ctx context.Context) (msg *nats.Msg, status string, err error) {
	for silent := time.Duration(0); ; silent += followCheck {
		slice, cancel := context.WithTimeout(ctx, followCheck)
		msg, status, err = f.read(slice)
		cancel()
		switch {
		case err == nil || ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded):
			return msg, status, err
		case f.b.js.Conn().Stats().Reconnects != f.reconnects:
			return nil, "", errFollowGap
		case silent >= 2*followBeat:
			return nil, "", err
		}
	}
}

// page gives the changes that are there now, up to followPage of them.
func (f *follower) page(ctx context.Context) (n int, err error) {
	if err := f.ask(question{Batch: followPage, NoWait: true}); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, watchSilence)
	defer cancel()
	for n < followPage {
		msg, status, err := f.read(ctx)
		if err != nil {
			return n, err
		}
		if msg != nil {
			n++
			if err := f.pass(msg); err != nil {
				return n, err
			}
		} else if status != statusBeat {
			return n, nil // there is no more
		}
	}
	return n, nil
}

// Status codes of the pull protocol.
const (
	statusBeat    = "100"
	statusEmpty   = "404"
	statusExpired = "408"
)

// read takes the next message, or what the server says instead of one.
func (f *follower) read(ctx context.Context) (msg *nats.Msg, status string, err error) {
	msg, err = f.sub.NextMsgWithContext(ctx)
	if err != nil {
		return nil, "", err
	}
	if msg.Reply != "" {
		return msg, "", nil
	}
	switch status = msg.Header.Get("Status"); status {
	case statusBeat, statusEmpty, statusExpired:
		return nil, status, nil
	}
	return nil, "", fmt.Errorf("the server ended it: status %s %s", status, msg.Header.Get("Description"))
}

// pass gives a message to the caller, if none before it is missing.
func (f *follower) pass(msg *nats.Msg) error {
	meta, err := msg.Metadata()
	if err != nil {
		return err
	}
	if f.counted++; meta.Sequence.Consumer != f.counted {
		return errFollowGap
	}
	f.last = meta.Sequence.Stream
	change := Change{Entry: Entry{
		Key: strings.TrimPrefix(msg.Subject, f.b.prefix), Value: msg.Data, Revision: f.last, Created: meta.Timestamp,
		Marker: isMarker(msg.Header),
	}}
	if !f.give(change) {
		return errStopped
	}
	return nil
}

// rest sleeps, or until ctx ends, and then returns its error.
func rest(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

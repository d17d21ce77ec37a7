package fabric

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime/debug"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/nats-io/nats.go"

	"github.com/weft-fabric/weft/internal/topology"
	"github.com/weft-fabric/weft/job"
	"github.com/weft-fabric/weft/kv"
)

const (
	// mostHeld is how many outcomes one call of Outcomes holds at once.
	mostHeld = 256
	// aheadFor is for how long a process takes outcomes in advance: as many as it
	// came through in that time. What it holds, others who take of the feed do not get.
	aheadFor = time.Second
	// beats is how often within ack-wait the server is told of what is held.
	beats = 3
	// feedPause is the longest pause before a feed that gave an error is asked again.
	feedPause = 5 * time.Second
	// flushWait is how long the last acknowledgements may take to reach the server.
	flushWait = 2 * time.Second
)

// landing is one call of Outcomes: a goroutine that takes, some that run the handler,
// and one that tells the server what is held.
type landing struct {
	f        *Fabric
	settings FeedSettings
	handle   OutcomeHandler
	handlers int
	log      *slog.Logger

	queue   chan held     // what was taken, to the handlers; has room for all that may be held
	freed   chan struct{} // told when there is room again
	landed  chan struct{} // closed when no handler runs any more
	running sync.WaitGroup
	beating sync.WaitGroup

	mu     sync.Mutex
	all    map[*kv.Delivery]struct{} // guarded by mu: what is held
	ended  int                       // guarded by mu: since mark
	mark   time.Time                 // guarded by mu
	window int                       // guarded by mu: how many may be held
}

// held is an outcome in the hands of this process.
type held struct {
	delivery *kv.Delivery
	outcome  Outcome
}

func newLanding(f *Fabric, s FeedSettings, handle OutcomeHandler, handlers int) *landing {
	return &landing{
		f: f, settings: s, handle: handle, handlers: handlers, log: f.log.With("feed", s.Name),
		queue: make(chan held, mostHeld), freed: make(chan struct{}, 1), landed: make(chan struct{}),
		all: map[*kv.Delivery]struct{}{}, mark: time.Now(), window: handlers,
	}
}

func (l *landing) start(ctx context.Context) {
	for range l.handlers {
		l.running.Go(func() {
			for h := range l.queue {
				l.land(ctx, h)
			}
		})
	}
	l.beating.Go(l.beat)
}

// close waits for the handlers, and for the server to have what they said.
func (l *landing) close() {
	close(l.queue)
	l.running.Wait()
	close(l.landed)
	l.beating.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), flushWait)
	defer cancel()
	if err := l.f.nc.FlushWithContext(ctx); err != nil {
		l.log.Warn("the last acknowledgements may not have reached the server, what they are for comes again", "error", err)
	}
}

// run takes until ctx ends, which is no error, or the feed cannot go on.
func (l *landing) run(ctx context.Context, feed *kv.Feed) error {
	retry := backoff.NewExponentialBackOff()
	retry.InitialInterval, retry.MaxInterval = 50*time.Millisecond, feedPause
	troubled := false
	for ctx.Err() == nil {
		n := l.room(ctx)
		if n == 0 {
			break
		}
		err := feed.Take(ctx, n, l.take)
		if errors.Is(err, kv.ErrFeedGone) {
			feed, err = l.reopen(ctx, feed)
		}
		switch {
		case err == nil:
			troubled = false
			retry.Reset()
			continue
		case ctx.Err() != nil:
			continue
		case final(err):
			return err
		case !troubled:
			l.log.Warn("outcomes not taken, it is tried again", "error", err)
		}
		troubled = true
		pause(ctx, retry.NextBackOff())
	}
	return nil
}

// final tells the errors that stay as long as nobody does anything about them.
func final(err error) bool {
	_, drift := errors.AsType[*topology.DriftError](err)
	_, conflict := errors.AsType[*FeedConflict](err)
	return drift || conflict || errors.Is(err, ErrMissingFeed) || errors.Is(err, kv.ErrUnreadable) || errors.Is(err, nats.ErrConnectionClosed)
}

// reopen makes a feed's consumer anew, unless the feed was removed. On an error the
// feed is as it was.
func (l *landing) reopen(ctx context.Context, feed *kv.Feed) (*kv.Feed, error) {
	s, _, err := l.f.readFeed(ctx, l.settings.Name)
	if err == nil {
		err = s.suits(l.settings)
	}
	if err != nil {
		return feed, err
	}
	l.log.Warn("the feed's consumer was deleted; it is made anew, and what the feed has given since it began and is still kept comes again")
	again, err := l.f.bucket.ReopenFeed(ctx, s.config())
	if err != nil {
		return feed, err
	}
	return again, nil
}

// room waits until more may be held, and tells how many; none when ctx has ended.
func (l *landing) room(ctx context.Context) int {
	for ctx.Err() == nil {
		if n := l.roomNow(); n > 0 {
			return n
		}
		select {
		case <-ctx.Done():
		case <-l.freed:
		}
	}
	return 0
}

func (l *landing) roomNow() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if passed := time.Since(l.mark); passed >= aheadFor {
		rate := float64(l.ended) / passed.Seconds() * aheadFor.Seconds()
		l.window = min(max(int(rate), l.handlers), mostHeld)
		l.ended, l.mark = 0, time.Now()
	}
	return l.window - len(l.all)
}

// take gets a record of the feed.
func (l *landing) take(d *kv.Delivery) {
	o, passes := l.passes(d)
	if !passes {
		l.count()
		l.say(d.Ack())
		return
	}
	l.mu.Lock()
	l.all[d] = struct{}{}
	l.mu.Unlock()
	l.queue <- held{d, o}
}

func (l *landing) count() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended++
}

// end takes an outcome off what is held. Nothing is said to the server of it after
// what follows.
func (l *landing) end(h held) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.all, h.delivery)
	l.ended++
	select {
	case l.freed <- struct{}{}:
	default:
	}
}

// land has the handler deal with one outcome. Once ctx has ended, what no handler
// has begun is given back.
func (l *landing) land(ctx context.Context, h held) {
	if ctx.Err() != nil {
		l.end(h)
		l.say(h.delivery.Later(0))
		return
	}
	err := l.call(ctx, h.outcome)
	l.end(h)
	if err == nil {
		l.say(h.delivery.Ack())
		return
	}
	delay := time.Duration(0) // for another process to take
	if ctx.Err() == nil {
		delay = job.DefaultBackoff().Delay(int64(h.outcome.Deliveries), rand.Float64())
		l.log.Warn("outcome not landed, it comes again", "job", h.outcome.Job.ID, "deliveries", h.outcome.Deliveries, "after", delay, "error", err)
	}
	l.say(h.delivery.Later(delay))
}

// call runs the handler, and makes an error of a panic.
func (l *landing) call(ctx context.Context, o Outcome) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = fmt.Errorf("%w: %v", errHandlerPanicked, value)
			l.log.Error("handler of outcomes panicked", "job", o.Job.ID, "panic", value, "stack", string(debug.Stack()))
		}
	}()
	return l.handle(ctx, o)
}

// say notes that the server was not told something, which happens when the
// connection is closed. What it is about comes again.
func (l *landing) say(err error) {
	if err != nil {
		l.log.Debug("acknowledgement not sent, the outcome comes again", "error", err)
	}
}

// beat tells the server what is held, so that it gives that to nobody else.
func (l *landing) beat() {
	tick := time.NewTicker(l.settings.AckWait / beats)
	defer tick.Stop()
	for {
		select {
		case <-l.landed:
			return
		case <-tick.C:
			l.beatOnce()
		}
	}
}

func (l *landing) beatOnce() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for d := range l.all {
		l.say(d.InProgress())
	}
}

package stream

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// The client's own pull subscriptions fetch ahead of what was asked for, or make
// a subscription for each fetch. A Puller keeps one subscription and asks for
// exactly as many items as its worker has free slots, so that no item's ack-wait
// runs while it waits inside a process.

const (
	// pullExpiry is how long one pull request stands at the server.
	pullExpiry = 30 * time.Second
	// pullBeat is how often the server says that a standing request is alive;
	// two silent beats mean that it was lost, by a restart or a dead connection.
	pullBeat = 5 * time.Second
	// pullCheck is how often the silence is looked at.
	pullCheck = time.Second
	// fewest is the part of the room below which nothing more is asked for while
	// requests stand.
	fewest = 4
	// inFlight is how many items may be between the connection and the goroutine.
	inFlight = 4096
)

// Sink is who a puller takes items for. It is asked from any goroutine, with the
// puller's lock held, so it must not call the puller nor wait. What is asked for
// and what it has room for are then never out of step.
type Sink interface {
	// Room is how many more items it can take now.
	Room() int
	// Reserve takes the room for an item that has come, if there is any.
	Reserve() bool
	// Give hands over an item that room was reserved for. It is called without
	// the lock and must not wait either: other items are behind it.
	Give(*Delivery)
}

// Puller takes the items of one lane of a stage. Want, Probe and Close are for one
// caller; everything else is its own goroutine's.
type Puller struct {
	q        *Queue
	stage    string
	lane     int
	settings Settings
	log      *slog.Logger
	messages chan *nats.Msg
	sink     Sink
	closing  chan struct{} // closed by Close: items on their way are given back
	drained  chan struct{} // closed by Close: no more items are on their way
	done     chan struct{} // closed by the goroutine when it has ended

	mu          sync.Mutex
	sub         *nats.Subscription // guarded by mu: where standing requests are answered
	standing    bool               // guarded by mu: requests are to stand for what there is room for
	outstanding int                // guarded by mu: how many standing requests may still bring
	heard       time.Time          // guarded by mu: when the server was last heard
	reconnects  uint64             // guarded by mu: of the connection, when last looked at
	restoring   bool               // guarded by mu: restore runs
	probe       probe              // guarded by mu: how far a look for what is there now has come
	probed      chan<- struct{}    // guarded by mu: told when a probe has ended
	restores    sync.WaitGroup
}

// probe is how far a question for what is there now has come.
type probe int

const (
	notAsked probe = iota
	asking
	nothingMore
)

// Pull starts taking items of a lane. Nothing is asked for before Want or Probe.
func (q *Queue) Pull(stage string, lane int, s Settings, sink Sink, log *slog.Logger) (*Puller, error) {
	p := &Puller{
		q: q, stage: stage, lane: lane, settings: s, log: log, sink: sink,
		messages: make(chan *nats.Msg, inFlight),
		closing:  make(chan struct{}),
		drained:  make(chan struct{}),
		done:     make(chan struct{}),
	}
	p.reconnects = q.nc.Stats().Reconnects
	if err := p.listen(); err != nil {
		return nil, fmt.Errorf("stage %s: %w", stage, err)
	}
	go p.loop()
	return p, nil
}

// listen opens a new inbox and closes the old one, which voids the requests that
// were to be answered there: whether the server still has them is not known, and
// with both listened to it might bring more than is wanted. mu is held, once the
// goroutine runs.
func (p *Puller) listen() error {
	sub, err := p.q.nc.ChanSubscribe(p.q.nc.NewInbox(), p.messages)
	if err != nil {
		return err
	}
	if p.sub != nil {
		_ = p.sub.Drain() // what is on its way still comes; it fails only if the connection is closed
	}
	p.sub, p.outstanding = sub, 0
	p.endProbe()
	return nil
}

// Lane is the lane whose items it takes.
func (p *Puller) Lane() int { return p.lane }

// Probe asks for as many items as there is room for, though not for more than most,
// of those that are there now, and lets no request stand. It is for a caller that takes from several lanes in
// order: call it again when ended, which should have room, was told. It reports
// true when the lane has nothing more, which a request that stands unanswered
// shows too.
func (p *Puller) Probe(most int, ended chan<- struct{}) (nothing bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.probed, p.standing = ended, false
	if p.isClosing() || !p.q.nc.IsConnected() {
		return true
	}
	p.dropLost()
	switch {
	case p.probe == asking && p.outstanding > 0:
		return false
	case p.probe == nothingMore, p.probe == notAsked && p.outstanding > 0:
		p.probe = notAsked
		return true
	}
	n := min(most, p.sink.Room())
	if n <= 0 { // there will be room, and another call
		return false
	}
	if p.request(pullRequest{Batch: n, NoWait: true}) != nil {
		return true
	}
	p.probe = asking
	return false
}

// Asking reports whether something that Probe asked for is still to come.
func (p *Puller) Asking() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.isClosing() || !p.q.nc.IsConnected() {
		return false
	}
	p.dropLost()
	return p.probe == asking && p.outstanding > 0
}

// endProbe notes that what was asked has come to its end without as many items as
// were wanted. mu is held, once the goroutine runs.
func (p *Puller) endProbe() {
	if p.probe != asking {
		return
	}
	p.probe, p.outstanding = nothingMore, 0
	select {
	case p.probed <- struct{}{}:
	default:
	}
}

// Want lets requests stand at the server for as many items as there is room for.
// Call it again when there is more room.
func (p *Puller) Want() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.standing, p.probe = true, notAsked
	p.topUp()
}

// topUp asks for the difference between what there is room for and what standing
// requests may bring. mu is held.
func (p *Puller) topUp() {
	if !p.standing || p.isClosing() || !p.q.nc.IsConnected() {
		return
	}
	p.dropLost()
	// While the server has something to bring, a few more are not worth a request
	// of their own: a busy worker would ask for its slots one by one.
	room := p.sink.Room()
	if missing := room - p.outstanding; missing > 0 && (p.outstanding == 0 || missing >= room/fewest) {
		// If it fails the next check tries again.
		_ = p.request(pullRequest{Batch: missing, Expires: pullExpiry, Beat: pullBeat})
	}
}

// request asks the server for items. mu is held.
func (p *Puller) request(r pullRequest) error {
	text, _ := json.Marshal(r)
	subject := p.q.api + ".CONSUMER.MSG.NEXT." + p.q.names.stream(p.stage) + "." + consumer(p.lane)
	if err := p.q.nc.PublishRequest(subject, p.sub.Subject, text); err != nil {
		return err
	}
	if p.outstanding == 0 {
		p.heard = time.Now()
	}
	p.outstanding += r.Batch
	return nil
}

type pullRequest struct {
	Batch   int           `json:"batch"`
	Expires time.Duration `json:"expires,omitempty"` // nanoseconds
	Beat    time.Duration `json:"idle_heartbeat,omitempty"`
	NoWait  bool          `json:"no_wait,omitempty"`
}

func (p *Puller) loop() {
	defer close(p.done)
	check := time.NewTicker(pullCheck)
	defer check.Stop()
	for {
		select {
		case msg := <-p.messages:
			p.handle(msg)
		case <-check.C:
			p.checkSilence()
		case <-p.drained:
			for len(p.messages) > 0 {
				p.handle(<-p.messages)
			}
			return
		}
	}
}

// handle tells items from what the server says of a request: only an item has
// somewhere to send its acknowledgement.
func (p *Puller) handle(msg *nats.Msg) {
	if msg.Reply == "" {
		p.status(msg)
		return
	}
	d, ok := p.q.names.delivery(msg, p.settings.Lease)
	switch {
	case !ok:
		p.count(msg, func() bool { return false })
		p.log.Error("item with an unknown subject", "subject", msg.Subject)
	case p.count(msg, p.sink.Reserve):
		p.sink.Give(d)
	default:
		d.Nak(0)
	}
}

// count takes an item off what is asked for, and in the same moment off the room
// that there is for it. It reports false when there is none any more.
func (p *Puller) count(item *nats.Msg, reserve func() bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if item.Sub == p.sub {
		p.heard = time.Now()
		p.outstanding = max(0, p.outstanding-1)
	}
	return !p.isClosing() && reserve()
}

func (p *Puller) isClosing() bool {
	select {
	case <-p.closing:
		return true
	default:
		return false
	}
}

// status handles the end of a request, and heartbeats. The end of its time says
// how much of the request was left. After any other end every standing request is
// void: the consumer is gone, or has moved to another server.
func (p *Puller) status(msg *nats.Msg) {
	code := msg.Header.Get("Status")
	p.mu.Lock()
	defer p.mu.Unlock()
	if msg.Sub != p.sub || p.isClosing() {
		return
	}
	p.heard = time.Now()
	switch {
	case code == statusBeat:
		return
	case p.probe == asking && (code == statusEmpty || code == statusExpired):
		p.endProbe()
		return
	}
	if left, err := strconv.Atoi(msg.Header.Get("Nats-Pending-Messages")); err == nil && code == statusExpired {
		p.outstanding = max(0, p.outstanding-left)
		p.topUp()
		return
	}
	_ = p.listen() // it fails only if the connection is closed
	p.log.Warn("pull request refused", "stage", p.stage, "status", code, "description", msg.Header.Get("Description"))
	if !p.restoring {
		p.restoring = true
		p.restores.Go(p.restore)
	}
}

// Status codes of the pull protocol.
const (
	statusBeat    = "100"
	statusEmpty   = "404"
	statusExpired = "408"
)

// restore looks at the topology again, which recreates what an operator deleted.
// The next check then asks anew.
func (p *Puller) restore() {
	ctx, cancel := context.WithTimeout(context.Background(), pullBeat)
	defer cancel()
	p.restores.Go(func() { // Close does not wait for an answer
		select {
		case <-p.closing:
			cancel()
		case <-ctx.Done():
		}
	})
	if err := p.q.Ensure(ctx, p.stage, p.settings); err != nil && !p.isClosing() {
		p.log.Error("work stream not as needed", "stage", p.stage, "error", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.restoring = false
}

// checkSilence asks for what there is room for, also after the server went silent.
func (p *Puller) checkSilence() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.topUp()
}

// dropLost gives up requests that the server may have lost. mu is held.
func (p *Puller) dropLost() {
	reconnects := p.q.nc.Stats().Reconnects
	silent := p.outstanding > 0 && time.Since(p.heard) > p.patience()
	if (reconnects != p.reconnects || silent) && p.listen() == nil {
		p.reconnects = reconnects
	}
}

// patience is how long the server may say nothing to what was asked. mu is held.
func (p *Puller) patience() time.Duration {
	if p.probe == asking {
		return pullBeat
	}
	return 2*pullBeat + pullCheck
}

// Close stops taking. Items on their way are given back.
func (p *Puller) Close() {
	close(p.closing)
	p.mu.Lock() // from here on the inbox stays as it is
	sub := p.sub
	p.mu.Unlock()
	if err := sub.Drain(); err == nil {
		// What the server sent before it learned of the drain comes before the
		// answer to this.
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = p.q.nc.FlushWithContext(ctx)
	}
	close(p.drained)
	<-p.done
	p.restores.Wait()
}

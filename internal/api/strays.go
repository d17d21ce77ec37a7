package api

import (
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// strays finds out about answers that nobody was there to get. An answer that
// hands something out has a reply subject of its own: when the caller is gone,
// its inbox has no subscriber, and the server says so on that subject at once. A
// caller that is there does not answer. One that has only stopped waiting for
// this answer, on an inbox that it keeps, is not found out; then the lease ends
// what it does not know that it holds.
type strays struct {
	inbox string
	sub   *nats.Subscription
	start func(func()) // runs the undoing

	mu       sync.Mutex
	number   uint64               // guarded by mu
	expected map[string]strayable // guarded by mu: by the last token of the subject
}

type strayable struct {
	undo func()
	sent time.Time
}

// strayFor is how long the server may take to say that nobody was there.
const strayFor = 10 * time.Second

// noResponders is the status of a message that no subscription got.
const noResponders = "503"

func newStrays(nc *nats.Conn, start func(func())) (*strays, error) {
	s := &strays{inbox: nc.NewInbox(), start: start, expected: map[string]strayable{}}
	var err error
	s.sub, err = nc.Subscribe(s.inbox+".*", s.heard)
	return s, err
}

// expect gives the reply subject of an answer that undo takes back.
func (s *strays) expect(undo func()) (reply string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.number++
	token := strconv.FormatUint(s.number, 36)
	s.expected[token] = strayable{undo, time.Now()}
	return s.inbox + "." + token
}

func (s *strays) heard(msg *nats.Msg) {
	if msg.Header.Get("Status") != noResponders {
		return
	}
	token := strings.TrimPrefix(msg.Subject, s.inbox+".")
	s.mu.Lock()
	stray, known := s.expected[token]
	delete(s.expected, token)
	s.mu.Unlock()
	if known {
		s.start(stray.undo)
	}
}

// sweep takes it that answers of some age were received.
func (s *strays) sweep() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for token, stray := range s.expected {
		if time.Since(stray.sent) > strayFor {
			delete(s.expected, token)
		}
	}
}

func (s *strays) stop() error { return s.sub.Unsubscribe() }

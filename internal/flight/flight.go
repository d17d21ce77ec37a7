// Package flight publishes messages to JetStream and brings each one's answer
// back to whoever sent it: any number on their way at once, over one inbox, none
// waiting for another and none with a goroutine or a timer of its own.
//
// A run of a job is two compare-and-sets, so the way of one decides how many jobs
// a second a worker can run. The client's own publishing either waits for each
// answer or hands out a future that somebody has to wait for.
package flight

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	// Wait is how long a message waits for its answer. Then it counts as lost:
	// whether the server has the message is not known.
	Wait = 2 * time.Second
	// sweepEvery is how often the tower looks for messages whose time is over.
	sweepEvery = 250 * time.Millisecond
	// tokenBase is of the last part of a reply subject.
	tokenBase = 36
)

// Sender is told what became of its message: its sequence in the stream, or why it
// has none. A server's refusal is a *jetstream.APIError; a missing answer is
// nats.ErrTimeout; a subject that no stream listens to is
// jetstream.ErrNoStreamResponse. Land must not block, since other answers wait
// behind it.
type Sender interface {
	Land(sequence uint64, err error)
}

// SenderFunc lets a function be a Sender.
type SenderFunc func(sequence uint64, err error)

// Land calls f.
func (f SenderFunc) Land(sequence uint64, err error) { f(sequence, err) }

// Tower watches over the messages on their way. It is safe for concurrent use.
type Tower struct {
	nc     *nats.Conn
	sub    *nats.Subscription
	prefix string

	mu       sync.Mutex
	last     uint64             // guarded by mu: token of the message sent last
	aloft    map[uint64]message // guarded by mu: by token
	sweeping bool               // guarded by mu: a sweep is to come
}

// message is one that has not been answered.
type message struct {
	sender Sender
	until  time.Time
}

// New opens the inbox. Close it when nothing more is to be sent.
func New(nc *nats.Conn) (*Tower, error) {
	t := &Tower{nc: nc, prefix: nc.NewInbox() + ".", aloft: map[uint64]message{}}
	sub, err := nc.Subscribe(t.prefix+"*", t.answered)
	if err != nil {
		return nil, fmt.Errorf("inbox for answers: %w", err)
	}
	// An answer that the client drops costs its sender the whole Wait.
	if err := sub.SetPendingLimits(-1, -1); err != nil {
		return nil, fmt.Errorf("inbox for answers: %w", err)
	}
	t.sub = sub
	return t, nil
}

// Close closes the inbox. What is still on its way gets no answer and lands when
// its time is over.
func (t *Tower) Close() {
	_ = t.sub.Unsubscribe() // it fails only if the connection is closed
}

// Send publishes a message, whose reply subject it sets, and has its sender told
// once, never before it returns on the same goroutine. The message and its headers
// may be used again when Send has returned; its data may not be changed.
func (t *Tower) Send(msg *nats.Msg, sender Sender) {
	t.mu.Lock()
	t.last++
	token := t.last
	t.aloft[token] = message{sender, time.Now().Add(Wait)}
	if !t.sweeping {
		t.sweeping = true
		time.AfterFunc(sweepEvery, t.sweep)
	}
	t.mu.Unlock()
	var text [16]byte
	msg.Reply = t.prefix + string(strconv.AppendUint(text[:0], token, tokenBase))
	if err := t.nc.PublishMsg(msg); err != nil {
		if m, ok := t.take(token); ok {
			go m.sender.Land(0, err)
		}
	}
}

// take ends a message's flight, for one caller alone.
func (t *Tower) take(token uint64) (message, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	m, ok := t.aloft[token]
	delete(t.aloft, token)
	return m, ok
}

func (t *Tower) answered(msg *nats.Msg) {
	token, err := strconv.ParseUint(msg.Subject[len(t.prefix):], tokenBase, 64)
	if err != nil {
		return // not an answer to anything sent here
	}
	if m, ok := t.take(token); ok {
		m.sender.Land(read(msg))
	}
}

// sweep lands what has waited too long, and everything once the connection is
// closed for good.
func (t *Tower) sweep() {
	now, err := time.Now(), error(nats.ErrTimeout)
	closed := t.nc.IsClosed()
	if closed {
		err = nats.ErrConnectionClosed
	}
	var late []message
	t.mu.Lock()
	for token, m := range t.aloft {
		if closed || now.After(m.until) {
			late = append(late, m)
			delete(t.aloft, token)
		}
	}
	t.sweeping = len(t.aloft) > 0
	if t.sweeping {
		time.AfterFunc(sweepEvery, t.sweep)
	}
	t.mu.Unlock()
	for _, m := range late {
		m.sender.Land(0, err)
	}
}

// answer is what a stream says to a message.
type answer struct {
	Error    *jetstream.APIError `json:"error"`
	Sequence uint64              `json:"seq"`
}

func read(msg *nats.Msg) (uint64, error) {
	if sequence, ok := readPlain(msg.Data); ok {
		return sequence, nil
	}
	if len(msg.Data) == 0 && msg.Header.Get("Status") == "503" {
		return 0, jetstream.ErrNoStreamResponse
	}
	var a answer
	switch err := json.Unmarshal(msg.Data, &a); {
	case err != nil:
		return 0, fmt.Errorf("answer of the server: %w", err)
	case a.Error != nil:
		return 0, a.Error
	case a.Sequence == 0:
		return 0, fmt.Errorf("answer of the server: no sequence in %.200q", msg.Data)
	}
	return a.Sequence, nil
}

// readPlain reads the answer that nearly all messages get, such as
// {"stream":"KV_weft","seq":12}, in which no text can hold what it looks for
// without escaping the quotes.
func readPlain(data []byte) (uint64, bool) {
	const member = `"seq":`
	at := bytes.Index(data, []byte(member))
	if at < 0 || bytes.Contains(data, []byte(`"error"`)) {
		return 0, false
	}
	digits := data[at+len(member):]
	end := bytes.IndexAny(digits, ",}")
	if end < 0 {
		return 0, false
	}
	sequence, err := strconv.ParseUint(string(digits[:end]), 10, 64)
	return sequence, err == nil && sequence > 0
}

package kv

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weft-fabric/weft/job"
)

// Pending is a write that is on its way. Many may be at once, where Swap would
// wait for each.
type Pending struct {
	b      *Bucket
	w      Write
	mark   string // what the write can be recognised by
	landed func(*Pending)

	mu       sync.Mutex
	over     bool          // guarded by mu: the answer is there
	waited   chan struct{} // guarded by mu: closed once it is; nil while nobody waits
	revision uint64        // set before over, as err is
	err      error
}

// Begin sends a write and does not wait for its answer; End does. If landed is
// given, it is called once End need not wait for the answer any more, from a
// goroutine that must not be kept.
func (b *Bucket) Begin(w Write, landed func(*Pending)) *Pending {
	return b.send(w, "", landed)
}

// send sends a write, with a mark of its own if it has none yet.
func (b *Bucket) send(w Write, mark string, landed func(*Pending)) *Pending {
	m := messages.Get().(*message)
	p := &Pending{b: b, w: w, landed: landed}
	p.mark = m.fill(b, &p.w, mark)
	b.tower.Send(&m.msg, (*flying)(p))
	m.clear()
	messages.Put(m)
	return p
}

// flying is a Pending as the tower knows it.
type flying Pending

// Land is the tower's.
func (f *flying) Land(revision uint64, err error) {
	p := (*Pending)(f)
	p.mu.Lock()
	p.revision, p.err, p.over = revision, err, true
	if p.waited != nil {
		close(p.waited)
	}
	p.mu.Unlock()
	if p.landed != nil {
		p.landed(p)
	}
}

// BeginJob sends a job's record, as Save does.
func (b *Bucket) BeginJob(j *job.Job, revision uint64, ttl time.Duration, landed func(*Pending)) *Pending {
	return b.send(b.jobWrite(j, revision, ttl), "", landed)
}

// jobWrite is the write of a job's record. Its key is a part of its subject, so
// that there is one text for both.
func (b *Bucket) jobWrite(j *job.Job, revision uint64, ttl time.Duration) Write {
	subject := b.prefix + jobPrefix + j.ID
	return Write{Key: subject[len(b.prefix):], Value: encode(j), Revision: revision, TTL: ttl, subject: subject}
}

// Value is what is being written.
func (p *Pending) Value() []byte { return p.w.Value }

// Done reports whether the write has happened, and gives its revision. That it has
// not says nothing, before End.
func (p *Pending) Done() (revision uint64, done bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.revision, p.over && p.err == nil
}

// End waits for the answer and returns the new revision. What is not answered in
// time or is refused goes on as in Swap, whose errors it has.
func (p *Pending) End(ctx context.Context) (uint64, error) {
	if err := p.wait(ctx); err != nil {
		return 0, undecided(p.w.Key, err)
	}
	return p.b.decide(ctx, p.w, p.mark, p.revision, p.err)
}

// wait waits for the answer, or until ctx ends, and then returns its error.
func (p *Pending) wait(ctx context.Context) error {
	p.mu.Lock()
	if p.over {
		p.mu.Unlock()
		return nil
	}
	if p.waited == nil {
		p.waited = make(chan struct{})
	}
	waited := p.waited
	p.mu.Unlock()
	select {
	case <-waited:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// message is a write as the server takes it, with the memory that its headers
// need. Every run of a job writes two, so they are used again.
type message struct {
	msg                         nats.Msg
	mark, revision, ttl, remove [1]string
}

var messages = sync.Pool{New: func() any { return newMessage() }}

func newMessage() *message { return &message{msg: nats.Msg{Header: nats.Header{}}} }

// fill makes m the message of a write, and gives the mark that it carries: the
// given one, or a new one.
func (m *message) fill(b *Bucket, w *Write, mark string) string {
	// One text for both headers. A mark is unique by a random beginning, made for
	// this bucket's user alone, and a count.
	var text [64]byte
	t := text[:0]
	if mark == "" {
		t = strconv.AppendUint(append(t, b.marks...), b.marked.Add(1), markBase)
	} else {
		t = append(t, mark...)
	}
	n := len(t)
	both := string(strconv.AppendUint(t, w.Revision, 10))
	m.mark[0], m.revision[0] = both[:n], both[n:]
	h := m.msg.Header
	h[WriteHeader] = m.mark[:]
	if !b.free {
		h[jetstream.ExpectedLastSubjSeqHeader] = m.revision[:]
	}
	if w.remove {
		m.remove[0] = "DEL"
		h[operationHeader] = m.remove[:]
	}
	if w.TTL > 0 {
		m.ttl[0] = strconv.FormatInt(max(1, int64(w.TTL/time.Second)), 10) + "s"
		h[jetstream.MsgTTLHeader] = m.ttl[:]
	}
	if w.subject == "" {
		w.subject = b.prefix + w.Key
	}
	m.msg.Subject, m.msg.Data = w.subject, w.Value
	return m.mark[0]
}

// markBase is of the count in a mark.
const markBase = 36

// clear makes m ready to be used again.
func (m *message) clear() {
	clear(m.msg.Header)
	m.msg.Data, m.mark[0], m.revision[0] = nil, "", ""
}

package stream

import (
	"strconv"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
)

// Delivery is an item in the hands of this process. JetStream will hand it to
// somebody else once ack-wait has passed since it was delivered or was last
// reported in progress. The zero Delivery is an item that is not known: nothing is
// said of it to the server.
type Delivery struct {
	Item
	Seq        uint64    // the item's sequence in its stream
	Stored     time.Time // when the server stored the item, on its clock
	Deliveries uint64    // how often it was delivered since the consumer exists

	msg     *nats.Msg   // nil if the item was picked
	remove  func() bool // of a picked item; nil with msg if the item is not known
	ackWait time.Duration
	touched atomic.Int64 // wall clock in ns of the delivery or the last in-progress
}

func (n names) delivery(msg *nats.Msg, ackWait time.Duration) (*Delivery, bool) {
	stage, lane, id, ok := n.parse(msg.Subject)
	meta, err := msg.Metadata()
	if !ok || err != nil {
		return nil, false
	}
	revision, _ := strconv.ParseUint(msg.Header.Get(RevisionHeader), 10, 64)
	d := &Delivery{
		Item: Item{Stage: stage, Lane: lane, JobID: id, Body: msg.Data, Revision: revision},
		Seq:  meta.Sequence.Stream, Stored: meta.Timestamp, Deliveries: meta.NumDelivered,
		msg: msg, ackWait: ackWait,
	}
	d.touch()
	return d, true
}

// touch notes the wall clock, not the monotonic one, which stands still while a
// machine is suspended.
func (d *Delivery) touch() { d.touched.Store(time.Now().UnixNano()) }

// ack is how the server is told that an item may go.
const ack = "+ACK"

var acked = []byte(ack) // as it is sent; never written

// margin is the part of ack-wait that is kept as a distance from its end, for
// the time an acknowledgement needs to reach the server.
const margin = 8

// Mine reports whether nobody else can have been given the item yet, as far as
// this process can tell.
func (d *Delivery) Mine() bool {
	if d.msg == nil { // it is nobody's, and removed by its own sequence
		return true
	}
	held := time.Duration(time.Now().UnixNano() - d.touched.Load())
	return held >= 0 && held < d.ackWait-d.ackWait/margin
}

// Ack removes the item. It reports false, and does nothing, when the item may
// have been handed to somebody else meanwhile; the next taker then finds what the
// record says. It does not wait for the server: an acknowledgement that gets
// lost leaves a void item, which is harmless.
func (d *Delivery) Ack() bool { return d.Mine() && d.send(ack) }

// Remove removes the item even if somebody else may hold it. It is for items
// whose record makes them void for everybody.
func (d *Delivery) Remove() bool { return d.send(ack) }

// Nak gives the item back, to be delivered again after delay.
func (d *Delivery) Nak(delay time.Duration) bool {
	if !d.Mine() {
		return false
	}
	if delay <= 0 {
		return d.send("-NAK")
	}
	return d.send(`-NAK {"delay":` + strconv.FormatInt(int64(delay), 10) + `}`)
}

// InProgress starts ack-wait anew. Only a holder that has just renewed its lease
// in the record may say so.
func (d *Delivery) InProgress() bool {
	if !d.send("+WPI") {
		return false
	}
	d.touch()
	return true
}

func (d *Delivery) send(word string) bool {
	if d.msg == nil {
		return word == ack && d.remove != nil && d.remove()
	}
	text := acked
	if word != ack {
		text = []byte(word)
	}
	return d.msg.Respond(text) == nil
}

package history

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// acks listens to what workers say of items. The subjects they say it to are
// good for as long as the consumer lives, so whoever knows one can speak for the
// worker that it was made for.
type acks struct {
	log *Log
	nc  *nats.Conn // past the proxies

	mu      sync.Mutex
	said    []said          // guarded by mu
	replies []string        // guarded by mu: in the order of their first use by a holder
	known   map[string]bool // guarded by mu
	forged  map[item]bool   // guarded by mu: items that the chaos spoke of
}

// item is one message of a work stream.
type item struct {
	stream string
	seq    uint64
}

// said is one acknowledgement.
type said struct {
	item
	at   time.Duration
	word string
}

// tapAcks listens to the acknowledgements of a round's work streams.
func (w *world) tapAcks() (*acks, error) {
	nc, err := w.servers.connect(w.servers.direct()...)
	if err != nil {
		return nil, err
	}
	a := &acks{log: w.log, nc: nc, known: map[string]bool{}, forged: map[item]bool{}}
	for _, stage := range stageNames {
		if _, err := nc.Subscribe("$JS.ACK."+w.workStream(stage)+".>", a.take); err != nil {
			nc.Close()
			return nil, err
		}
	}
	return a, nc.Flush()
}

// take notes an acknowledgement. Its subject is kept if a holder used it: whoever
// only gave an item back has not read its record, and nobody like that would
// remove the item.
func (a *acks) take(msg *nats.Msg) {
	it, ok := itemOf(msg.Subject)
	if !ok {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	word := string(msg.Data)
	a.said = append(a.said, said{it, a.log.now(), word})
	if (word == "+ACK" || word == "+WPI") && !a.known[msg.Subject] {
		a.known[msg.Subject] = true
		a.replies = append(a.replies, msg.Subject)
	}
}

// itemOf tells which item an acknowledgement's subject speaks of.
func itemOf(reply string) (item, bool) {
	tokens := strings.Split(reply, ".") // $JS ACK stream consumer deliveries sequence ...
	if len(tokens) < 6 {
		return item{}, false
	}
	seq, err := strconv.ParseUint(tokens[5], 10, 64)
	return item{tokens[2], seq}, err == nil
}

// forge notes that the chaos is about to speak of an item.
func (a *acks) forge(reply string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	it, _ := itemOf(reply)
	a.forged[it] = true
}

// pick gives one of the subjects that were used last.
func (a *acks) pick(n int) (string, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.replies) == 0 {
		return "", false
	}
	span := min(recent, len(a.replies))
	return a.replies[len(a.replies)-1-n%span], true
}

// of gives what was said of the items of a stream that a job is known to have had.
func (a *acks) of(stream string, changes []change) []said {
	a.mu.Lock()
	defer a.mu.Unlock()
	had := map[uint64]bool{}
	for _, c := range changes {
		had[c.job.ItemSeq] = true
	}
	var all []said
	for _, s := range a.said {
		if s.stream == stream && s.seq != 0 && had[s.seq] {
			all = append(all, s)
		}
	}
	return all
}

// judge refuses the acknowledgement of an item while the record shows that a
// claim holds the job by it: the record is to be written before. What this
// process heard before the write was stored was said before it. An item that two
// claims have had, one after the other, is left out: after a change of leader the
// server hands an item out again before its time, and the first holder may then
// rightly acknowledge what has become the second's.
func (a *acks) judge(stream string, changes []change) error {
	for _, s := range a.of(stream, changes) {
		if s.word != "+ACK" || a.isForged(s.item) || claimsOf(s.seq, changes) > 1 {
			continue
		}
		for i, c := range changes {
			last := i == len(changes)-1
			if c.job.ItemSeq == s.seq && s.at > c.stored.Sub(a.log.Start) && (last || s.at < changes[i+1].stored.Sub(a.log.Start)) {
				return fmt.Errorf("item %d was acknowledged at %.3f, while %s held the job by it", s.seq, s.at.Seconds(), c.job.WorkerID)
			}
		}
	}
	return nil
}

func (a *acks) isForged(it item) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.forged[it]
}

// claimsOf counts the claims that took the item.
func claimsOf(seq uint64, changes []change) int {
	fences := map[int64]bool{}
	for _, c := range changes {
		if c.job.ItemSeq == seq {
			fences[c.job.Fence] = true
		}
	}
	return len(fences)
}

package stream_test

// These tests prove that a job's withdrawal costs no other job its item, and that
// an item which is in the stream and comes to nobody is made to come.

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/weft-fabric/weft/stream"
)

// brief is the ack-wait of items whose holder says nothing more.
var brief = stream.Settings{Lease: 3 * time.Second}

// fourTaken gives four items to a worker that falls silent: a, b, c and d.
func fourTaken(t *testing.T) (*fixture, *pulling, chan *stream.Delivery, map[string]*stream.Delivery) {
	t.Helper()
	f := queue(t, brief)
	f.offer("a", "b", "c", "d")
	p, out := f.pull(brief, 8)
	p.Want(4)
	taken := map[string]*stream.Delivery{}
	for range 4 {
		d := take(t, out)
		taken[d.JobID] = d
	}
	return f, p, out, taken
}

func TestWithdrawalCostsNoOtherJobItsItem(t *testing.T) {
	t.Parallel()
	f, p, out, taken := fourTaken(t)
	defer p.Close()
	must(t, f.Withdraw(t.Context(), stage, 3, "c"))
	taken["d"].Ack()
	p.Want(2)
	got := take(t, out).JobID + take(t, out).JobID
	if got != "ab" && got != "ba" {
		t.Fatalf("%s came again", got)
	}
}

// stranded gives a stage whose consumer has forgotten the items a and b. The server
// does not do that every time, so it gets several chances.
func stranded(t *testing.T) (*fixture, *pulling, chan *stream.Delivery) {
	t.Helper()
	for range 5 {
		f, p, out, taken := fourTaken(t)
		must(t, f.stream().Purge(t.Context(), jetstream.WithPurgeSubject("weft.work."+stage+".c")))
		taken["d"].Ack()
		if forgets(f) {
			return f, p, out
		}
		p.Close()
	}
	t.Fatal("the consumer does not forget a and b")
	return nil, nil, nil
}

// forgets waits for some ack-waits until the consumer knows of no item.
func forgets(f *fixture) bool {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for end := time.After(3 * brief.Lease); ; {
		if c := f.consumer("runners"); c.NumAckPending == 0 && c.NumPending == 0 {
			return true
		}
		select {
		case <-end:
			return false
		case <-tick.C:
		}
	}
}

// The server's own way to empty a subject does cost others their items, which is
// why Withdraw does without, and gives this test an item that comes to nobody.
// Once this fails before Revive is called, the server has been mended.
func TestReviveOffersAgainWhatComesToNobody(t *testing.T) {
	t.Parallel()
	f, p, out := stranded(t)
	defer p.Close()
	if left := f.left(); left != 2 {
		t.Fatalf("%d items are left", left)
	}
	p.Want(2)
	if n, err := f.Revive(t.Context(), stage, nil); n != 2 || err != nil {
		t.Fatalf("revived %d, %v", n, err)
	}
	first, second := take(t, out), take(t, out)
	if first.JobID+second.JobID != "ab" || first.Revision != 7 || string(first.Body) != "{}" {
		t.Fatalf("%+v and %+v came", first.Item, second.Item)
	}
	if n, err := f.Revive(t.Context(), stage, []int{2}); n != 0 || err != nil {
		t.Fatalf("revived %d once more, %v", n, err)
	}
	if n, err := f.Revive(t.Context(), "no-such-stage", nil); n != 0 || err != nil {
		t.Fatalf("revived %d of no stage, %v", n, err)
	}
}

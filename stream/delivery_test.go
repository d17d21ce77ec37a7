package stream_test

// These tests prove the vocabulary of acknowledgement: what each word does, and
// that whoever held an item for too long may no longer say those that would hurt
// its next holder.

import (
	"testing"
	"time"

	"github.com/weft-fabric/weft/internal/natstest"
	"github.com/weft-fabric/weft/stream"
)

// short is an ack-wait that tests let run out.
var short = stream.Settings{Lease: time.Second}

func TestAckRemovesTheItem(t *testing.T) {
	t.Parallel()
	f := queue(t, settings)
	p, d := f.one("a", settings)
	defer p.Close()
	if !d.Mine() || !d.Ack() {
		t.Fatal("a fresh delivery is not its taker's")
	}
	natstest.Eventually(t, soon, "the item is gone", func() bool { return f.left() == 0 })
}

func TestNakGivesTheItemBackAtOnce(t *testing.T) {
	t.Parallel()
	f := queue(t, settings)
	f.offer("a")
	p, out := f.pull(settings, 1)
	defer p.Close()
	p.Want(1)
	first := take(t, out)
	if !first.Nak(0) {
		t.Fatal("refused")
	}
	p.Want(1)
	if d := take(t, out); d.Seq != first.Seq || d.Deliveries != 2 {
		t.Fatalf("took %d, delivery %d", d.Seq, d.Deliveries)
	}
}

func TestNakWithADelayGivesTheItemBackThen(t *testing.T) {
	t.Parallel()
	f := queue(t, settings)
	f.offer("a")
	p, out := f.pull(settings, 1)
	defer p.Close()
	p.Want(1)
	began := time.Now()
	const delay = 400 * time.Millisecond
	if !take(t, out).Nak(delay) {
		t.Fatal("refused")
	}
	p.Want(1)
	take(t, out)
	if took := time.Since(began); took < delay {
		t.Fatalf("came back after %s", took)
	}
}

func TestInProgressStartsAckWaitAnew(t *testing.T) {
	t.Parallel()
	f := queue(t, short)
	f.offer("a")
	p, out := f.pull(short, 1)
	defer p.Close()
	p.Want(1)
	d := take(t, out)
	p.Want(1)
	began, beat := time.Now(), time.NewTicker(short.Lease/4)
	defer beat.Stop()
	for time.Since(began) < 3*short.Lease {
		select {
		case <-out:
			t.Fatalf("given to another after %s in progress", time.Since(began))
		case <-beat.C:
			if !d.InProgress() || !d.Mine() {
				t.Fatal("not its holder's")
			}
		}
	}
	if again := take(t, out); again.Seq != d.Seq || time.Since(began) < 3*short.Lease {
		t.Fatalf("took %d after %s", again.Seq, time.Since(began))
	}
}

func TestHolderThatIsLateMayNotAckNorNak(t *testing.T) {
	t.Parallel()
	f := queue(t, short)
	f.offer("a")
	p, out := f.pull(short, 2)
	defer p.Close()
	p.Want(1)
	late := take(t, out)
	natstest.Eventually(t, soon, "its time is over", func() bool { return !late.Mine() })
	if f.consumer("runners").NumRedelivered > 0 {
		t.Fatal("the item was given to another before its holder knew of it")
	}
	p.Want(1)
	now := take(t, out)
	if late.Ack() || late.Nak(0) || late.Nak(time.Second) {
		t.Fatal("a late word was sent")
	}
	f.holds(1)
	if f.left() != 1 || !now.Mine() {
		t.Fatal("the next holder lost the item")
	}
	// What is void for everybody may be removed by anybody.
	if !late.Remove() {
		t.Fatal("refused")
	}
	natstest.Eventually(t, soon, "the item is gone", func() bool { return f.left() == 0 })
}

func TestInProgressMakesAnItemMineAgain(t *testing.T) {
	t.Parallel()
	f := queue(t, short)
	p, d := f.one("a", short)
	defer p.Close()
	natstest.Eventually(t, soon, "its time is over", func() bool { return !d.Mine() })
	if !d.InProgress() || !d.Mine() {
		t.Fatal("not mine after in-progress")
	}
}

func TestWordsOnAClosedConnectionAreRefused(t *testing.T) {
	t.Parallel()
	f := queue(t, settings)
	_, d := f.one("a", settings)
	f.nc.Close()
	if d.Ack() || d.Nak(0) || d.InProgress() || d.Remove() {
		t.Fatal("said something into nothing")
	}
}

package stream_test

// These tests prove how items replace each other: a first offer leaves what is
// there, a later one evicts it, a schedule fires no sooner than it says, and what
// is withdrawn never comes.

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/weft-fabric/weft/internal/natstest"
	"github.com/weft-fabric/weft/job"
	"github.com/weft-fabric/weft/stream"
)

func TestOfferNewLeavesTheItemThatIsThere(t *testing.T) {
	t.Parallel()
	f := queue(t, settings)
	must(t, f.OfferNew(t.Context(), item("a", "first")))
	seq := f.stored("weft.work.hash.a").Sequence
	must(t, f.OfferNew(t.Context(), item("a", "second")))
	p, out := f.pull(settings, 1)
	defer p.Close()
	p.Want(1)
	d := take(t, out)
	must(t, f.OfferNew(t.Context(), item("a", "third"))) // also while somebody holds it
	if msg := f.stored("weft.work.hash.a"); msg.Sequence != seq || string(msg.Data) != "first" {
		t.Fatalf("now there is %q at %d", msg.Data, msg.Sequence)
	}
	d.Ack()
	natstest.Eventually(t, soon, "the item is gone", func() bool { return f.left() == 0 })
	must(t, f.OfferNew(t.Context(), item("a", "fourth")))
	if msg := f.stored("weft.work.hash.a"); string(msg.Data) != "fourth" {
		t.Fatalf("now there is %q", msg.Data)
	}
}

func TestOfferEvictsAndALateAckIsHarmless(t *testing.T) {
	t.Parallel()
	f := queue(t, settings)
	p, out := f.pull(settings, 1)
	defer p.Close()
	f.offer("a")
	p.Want(1)
	old := take(t, out)
	must(t, f.Offer(t.Context(), item("a", "anew")))
	p.Want(1)
	now := take(t, out)
	if string(now.Body) != "anew" || now.Seq <= old.Seq {
		t.Fatalf("took %q at %d after %d", now.Body, now.Seq, old.Seq)
	}
	for name, late := range map[string]func() bool{"ack": old.Ack, "remove": old.Remove, "in-progress": old.InProgress} {
		if !late() {
			t.Errorf("%s was not sent", name)
		}
	}
	f.holds(1)
	if msg := f.stored("weft.work.hash.a"); msg == nil || msg.Sequence != now.Seq {
		t.Fatalf("a late acknowledgement left %+v", msg)
	}
	now.Ack()
	natstest.Eventually(t, soon, "the item is gone", func() bool { return f.left() == 0 })
}

func TestOfferIsStoredOnceEachTime(t *testing.T) {
	t.Parallel()
	f := queue(t, settings)
	for range 20 {
		f.offer("a")
	}
	if f.left() != 1 {
		t.Fatalf("%d items of one job", f.left())
	}
	p, out := f.pull(settings, 1)
	defer p.Close()
	p.Want(1)
	take(t, out).Ack()
	natstest.Eventually(t, soon, "the item is gone", func() bool { return f.left() == 0 })
	f.offer("a") // the same again, as after a release
	p.Want(1)
	take(t, out)
}

func TestOfferLaterFiresNotBeforeItsTime(t *testing.T) {
	t.Parallel()
	f := queue(t, settings)
	p, out := f.pull(settings, 10)
	defer p.Close()
	p.Want(4)
	due := map[string]time.Time{}
	for i, after := range []time.Duration{1, 101, 555, 999} {
		id := fmt.Sprint(i)
		// Not on a whole second: a time that was cut would be early.
		due[id] = time.Now().Truncate(time.Second).Add(time.Second + after*time.Millisecond)
		must(t, f.OfferLater(t.Context(), item(id, `{"n":`+id+`}`), due[id]))
	}
	for range 4 {
		d := take(t, out)
		late := d.Stored.Sub(due[d.JobID])
		if late < 0 || late > 2*time.Second {
			t.Errorf("%s fired %s after its time", d.JobID, late)
		}
		if d.Revision != 7 || string(d.Body) != `{"n":`+d.JobID+`}` {
			t.Errorf("fired %+v", d.Item)
		}
	}
	if f.left() != 4 { // the items; the schedules are gone
		t.Errorf("%d messages are left", f.left())
	}
}

func TestOfferLaterReplacesASchedule(t *testing.T) {
	t.Parallel()
	f := queue(t, settings)
	must(t, f.OfferLater(t.Context(), item("a", "old"), time.Now().Add(time.Hour)))
	must(t, f.OfferLater(t.Context(), item("a", "new"), time.Now().Add(50*time.Millisecond)))
	p, out := f.pull(settings, 1)
	defer p.Close()
	p.Want(1)
	if d := take(t, out); string(d.Body) != "new" {
		t.Fatalf("took %q", d.Body)
	}
	if f.left() != 1 {
		t.Fatalf("%d messages are left", f.left())
	}
}

func TestScheduleThatFiresOnAnOccupiedSubjectReplaces(t *testing.T) {
	t.Parallel()
	f := queue(t, settings)
	f.offer("a")
	must(t, f.OfferLater(t.Context(), item("a", "later"), time.Now()))
	natstest.Eventually(t, soon, "the schedule fires", func() bool { return string(f.stored("weft.work.hash.a").Data) == "later" })
	if f.left() != 1 {
		t.Fatalf("%d messages are left", f.left())
	}
}

func TestOfferLaterKeepsTheLane(t *testing.T) {
	t.Parallel()
	f := queue(t, stream.Settings{Lease: time.Minute, Lanes: []int{1}})
	urgent := item("a", "{}")
	urgent.Lane = 1
	must(t, f.OfferLater(t.Context(), urgent, time.Now()))
	natstest.Eventually(t, soon, "the schedule fires", func() bool { return f.stored("weft.lane.hash.1.a") != nil })
}

func TestWithdrawTakesItemAndSchedule(t *testing.T) {
	t.Parallel()
	f := queue(t, stream.Settings{Lease: time.Minute, Lanes: []int{1}})
	urgent := item("b", "{}")
	urgent.Lane = 1
	must(t, f.Offer(t.Context(), urgent))
	f.offer("a", "c")
	must(t, f.OfferLater(t.Context(), item("a", "{}"), time.Now().Add(time.Hour)))
	must(t, f.Withdraw(t.Context(), stage, 3, "a"))
	must(t, f.Withdraw(t.Context(), stage, 1, "b"))
	must(t, f.Withdraw(t.Context(), stage, 3, "nobody"))
	if f.left() != 1 || f.stored("weft.work.hash.c") == nil {
		t.Fatalf("%d messages are left", f.left())
	}
	must(t, f.Withdraw(t.Context(), "no-such-stage", 3, "a"))
}

func TestWithdrawnWhileHeld(t *testing.T) {
	t.Parallel()
	f := queue(t, settings)
	p, d := f.one("a", settings)
	defer p.Close()
	must(t, f.Withdraw(t.Context(), stage, 3, "a"))
	f.holds(0)
	f.offer("a")
	d.Ack() // of the one that was withdrawn
	must(t, f.nc.Flush())
	if f.left() != 1 {
		t.Fatal("an acknowledgement of a withdrawn item took the next one")
	}
}

func TestOfferWithoutAStreamSaysSo(t *testing.T) {
	t.Parallel()
	f := queue(t, settings)
	nowhere := item("a", "{}")
	nowhere.Stage = "nowhere"
	for name, offer := range map[string]func() error{
		"new":   func() error { return f.OfferNew(t.Context(), nowhere) },
		"anew":  func() error { return f.Offer(t.Context(), nowhere) },
		"later": func() error { return f.OfferLater(t.Context(), nowhere, time.Now()) },
	} {
		if err := offer(); !errors.Is(err, stream.ErrNoStream) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Several who withdraw one job at once, of whom one is the first.
func TestWithdrawnTwiceAtOnce(t *testing.T) {
	t.Parallel()
	f := queue(t, settings)
	for range 20 {
		if err := f.OfferNew(t.Context(), item("j1", "x")); err != nil {
			t.Fatal(err)
		}
		var withdrawing sync.WaitGroup
		for range 8 {
			withdrawing.Go(func() {
				if err := f.Withdraw(t.Context(), stage, job.DefaultPriority, "j1"); err != nil {
					t.Error(err)
				}
			})
		}
		withdrawing.Wait()
	}
}

package stream_test

// These tests prove how items are taken out of the usual way: only what is there
// now, lane by lane, and one that is picked before its turn.

import (
	"testing"
	"time"

	"github.com/weft-fabric/weft/internal/natstest"
	"github.com/weft-fabric/weft/job"
)

// told waits until a probe has ended.
func told(t *testing.T, ended <-chan struct{}) {
	t.Helper()
	select {
	case <-ended:
	case <-time.After(soon):
		t.Fatal("the probe does not end")
	}
}

func TestProbeTakesWhatIsThereAndTellsWhenThereIsNoMore(t *testing.T) {
	t.Parallel()
	f := queue(t, settings)
	f.offer("a", "b", "c")
	f.awaitPending(3) // the server tells its consumers a moment after it has answered
	p, out := f.pull(settings, 4)
	defer p.Close()
	ended := make(chan struct{}, 1)
	if p.Probe(2, ended) {
		t.Fatal("nothing is there, it says at once")
	}
	for _, id := range []string{"a", "b"} {
		if d := take(t, out); d.JobID != id {
			t.Fatalf("took %s", d.JobID)
		}
	}
	if p.Probe(2, ended) {
		t.Fatal("nothing is there, though there is one more")
	}
	if d := take(t, out); d.JobID != "c" {
		t.Fatalf("took %s", d.JobID)
	}
	told(t, ended)
	if !p.Probe(2, ended) {
		t.Fatal("it asks on, though there is nothing more")
	}
	if p.Probe(2, ended) {
		t.Fatal("the next question is not asked")
	}
	told(t, ended)
	f.offer("d") // what comes later stays where it is: nothing stands
	f.awaitPending(1)
	if n := f.consumer("runners").NumWaiting; n != 0 || len(out) != 0 {
		t.Fatalf("%d requests stand, %d items came", n, len(out))
	}
}

func TestProbeTakesAStandingRequestForTheAnswer(t *testing.T) {
	t.Parallel()
	f := queue(t, settings)
	p, out := f.pull(settings, 2)
	defer p.Close()
	p.Want(1)
	if !p.Probe(1, make(chan struct{}, 1)) {
		t.Fatal("it asks again")
	}
	f.offer("a")
	if d := take(t, out); d.JobID != "a" {
		t.Fatalf("took %s", d.JobID)
	}
}

func TestProbeEndsWhenItsConsumerIsGone(t *testing.T) {
	t.Parallel()
	f := queue(t, settings)
	p, _ := f.pull(settings, 1)
	defer p.Close()
	if err := f.stream().DeleteConsumer(t.Context(), "runners"); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{}, 1)
	if p.Probe(1, ended) {
		t.Fatal("nothing was asked")
	}
	told(t, ended)
	if !p.Probe(1, ended) {
		t.Fatal("it asks on")
	}
}

func TestPickedItemIsRemovedAndNothingElse(t *testing.T) {
	t.Parallel()
	f := queue(t, settings)
	f.offer("a", "b", "c")
	d, there, err := f.Pick(t.Context(), stage, job.DefaultPriority, "b")
	if err != nil || !there || d.JobID != "b" || d.Seq != 2 || d.Revision != 7 || string(d.Body) != "{}" {
		t.Fatalf("%+v, %v, %v", d, there, err)
	}
	if d.Nak(0) || d.InProgress() {
		t.Error("it was given back or reported in progress, though nobody handed it out")
	}
	if !d.Ack() {
		t.Error("it was not removed")
	}
	natstest.Eventually(t, soon, "it is gone", func() bool { return f.left() == 2 })
	p, out := f.pull(settings, 2)
	defer p.Close()
	p.Want(2)
	for _, id := range []string{"a", "c"} {
		if d := take(t, out); d.JobID != id {
			t.Fatalf("took %s", d.JobID)
		}
	}
}

// Its turn comes while it is held: it is handed out as any other, and is gone
// when whoever picked it has ended.
func TestPickedItemIsStillHandedOutInItsTurn(t *testing.T) {
	t.Parallel()
	f := queue(t, settings)
	f.offer("a")
	picked, _, err := f.Pick(t.Context(), stage, job.DefaultPriority, "a")
	must(t, err)
	p, out := f.pull(settings, 1)
	defer p.Close()
	p.Want(1)
	if d := take(t, out); d.Seq != picked.Seq {
		t.Fatalf("took %d", d.Seq)
	}
	picked.Remove()
	natstest.Eventually(t, soon, "it is gone", func() bool { return f.left() == 0 })
	f.holds(0)
}

func TestNothingToPick(t *testing.T) {
	t.Parallel()
	f := queue(t, settings)
	for _, where := range []string{stage, "none"} {
		if d, there, err := f.Pick(t.Context(), where, job.DefaultPriority, "a"); there || err != nil {
			t.Errorf("stage %s: %+v, %v", where, d, err)
		}
	}
	must(t, f.OfferLater(t.Context(), item("a", "{}"), time.Now().Add(time.Hour)))
	if _, there, err := f.Pick(t.Context(), stage, job.DefaultPriority, "a"); there || err != nil {
		t.Errorf("a schedule was picked: %v", err)
	}
}

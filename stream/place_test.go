package stream_test

// These tests prove that a job is found where it is in its queue, and that the
// bounds of what comes before it hold.

import (
	"fmt"
	"testing"
	"time"

	"github.com/weft-fabric/weft/stream"
)

func place(t *testing.T, f *fixture, lane int, id string, s stream.Settings) stream.Place {
	t.Helper()
	p, err := f.Place(t.Context(), stage, lane, id, s)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestPlaceBoundsWhatComesBefore(t *testing.T) {
	t.Parallel()
	s := stream.Settings{Lease: 30 * time.Second, Lanes: []int{1}}
	f := queue(t, s)
	for i := range 12 {
		it := item(fmt.Sprint("j", i), "{}")
		if i%3 == 0 {
			it.Lane = 1
		}
		must(t, f.Offer(t.Context(), it))
	}
	must(t, f.Withdraw(t.Context(), stage, 3, "j4"))
	f.awaitPending(7)
	for ahead, id := range []string{"j1", "j2", "j5", "j7", "j8", "j10", "j11"} {
		p := place(t, f, 3, id, s)
		if p.Sequence == 0 || p.Taken || p.AtLeast > ahead || p.AtMost < ahead || p.Higher != 4 {
			t.Errorf("%s has %d before it, and is at %+v", id, ahead, p)
		}
	}
	if p := place(t, f, 3, "j1", s); p.AtMost != 1 { // j0 of the other lane lies between
		t.Errorf("%+v", p)
	}
	if p := place(t, f, 1, "j0", s); p.AtMost != 0 || p.Higher != 0 || p.Lane.Consumer != "runners-1" {
		t.Errorf("%+v", p)
	}
}

func TestPlaceOfWhatDoesNotWait(t *testing.T) {
	t.Parallel()
	f := queue(t, settings)
	p, _ := f.one("taken", settings)
	defer p.Close()
	at := time.Now().Add(time.Hour).UTC().Truncate(time.Millisecond)
	must(t, f.OfferLater(t.Context(), item("later", "{}"), at))
	if p := place(t, f, 3, "taken", settings); !p.Taken || p.Scheduled || p.Stranded {
		t.Errorf("%+v", p)
	}
	if p := place(t, f, 3, "later", settings); p.Sequence != 0 || !p.Scheduled || !p.Due.Equal(at) {
		t.Errorf("%+v", p)
	}
	if p := place(t, f, 3, "nobody", settings); p.Sequence != 0 || p.Scheduled || !p.Stream {
		t.Errorf("%+v", p)
	}
	must(t, f.js.DeleteConsumer(t.Context(), "WEFT_hash", "runners"))
	if p := place(t, f, 3, "taken", settings); p.Sequence == 0 || p.Taken || p.Lane != (stream.Lane{}) {
		t.Errorf("%+v", p)
	}
	must(t, f.js.DeleteStream(t.Context(), "WEFT_hash"))
	if p := place(t, f, 3, "taken", settings); p.Stream || p.Sequence != 0 {
		t.Errorf("%+v", p)
	}
}

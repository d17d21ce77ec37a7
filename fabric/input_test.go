package fabric_test

// These tests prove that an input of any size can be put where a job names it, that
// doing so again costs nothing, and that only what nobody needs is removed.

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weft-fabric/weft/fabric"
	"github.com/weft-fabric/weft/internal/natstest"
	"github.com/weft-fabric/weft/job"
)

// large is an input of several chunks.
func large(letter string) string { return strings.Repeat(letter, 300_000) }

func putInput(t *testing.T, f *fabric.Fabric, text string) string {
	t.Helper()
	ref, err := f.PutInput(t.Context(), strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return ref
}

func readRef(t *testing.T, f *fabric.Fabric, ref string) string {
	t.Helper()
	data, err := io.ReadAll(openRef(t, f, ref))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestInputsOfAnySizeCanBeNamedAndOpened(t *testing.T) {
	t.Parallel()
	f := open(t, natstest.Conn(t))
	for name, c := range map[string]struct{ data, prefix string }{
		"none":    {"", "data:"},
		"text":    {"a text", "data:text/plain"},
		"longest": {strings.Repeat("\xff", job.MaxInlineOutput), "data:"},
		"longer":  {strings.Repeat("\xff", job.MaxInlineOutput+1), "nats-obj://weft-input/"},
		"large":   {strings.Repeat("0123456789abcdef", 6<<20/16), "nats-obj://weft-input/"},
	} {
		ref := putInput(t, f, c.data)
		piped, err := f.PutInput(t.Context(), io.MultiReader(strings.NewReader(c.data))) // cannot seek
		if err != nil || piped != ref {
			t.Errorf("%s through a pipe: %.80s, %v, want %.80s", name, piped, err, ref)
		}
		if got := readRef(t, f, ref); got != c.data || !strings.HasPrefix(ref, c.prefix) {
			t.Errorf("%s: %d bytes of %d at %.80s", name, len(got), len(c.data), ref)
		}
	}
}

func TestTheSameInputIsPutOnce(t *testing.T) {
	t.Parallel()
	nc := natstest.Conn(t)
	f := open(t, nc)
	ref := putInput(t, f, large("a"))
	before := inputStream(t, nc)
	if again := putInput(t, f, large("a")); again != ref {
		t.Errorf("%s and %s name the same bytes", ref, again)
	}
	if after := inputStream(t, nc); after.LastSeq != before.LastSeq {
		t.Errorf("the second put wrote %d messages", after.LastSeq-before.LastSeq)
	}
	if other := putInput(t, f, large("b")); other == ref {
		t.Errorf("%s names two inputs", ref)
	}
}

func TestAnInputThatCannotBePutLeavesNothing(t *testing.T) {
	t.Parallel()
	nc := natstest.Conn(t)
	f := open(t, nc, func(o *fabric.Options) { o.MaxInput = 250_000 })
	putInput(t, f, large("a")[:250_000])
	before := inputStream(t, nc)
	if _, err := f.PutInput(t.Context(), strings.NewReader(large("b"))); !errors.Is(err, job.ErrInvalidJob) || !strings.Contains(err.Error(), "250000 bytes") {
		t.Errorf("too large: %v", err)
	}
	broken := errors.New("disk away")
	if _, err := f.PutInput(t.Context(), io.MultiReader(strings.NewReader(large("c")[:9000]), iotest.ErrReader(broken))); !errors.Is(err, broken) {
		t.Errorf("unreadable: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := f.PutInput(ctx, strings.NewReader(large("d")[:20_000])); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if after := inputStream(t, nc); after.LastSeq != before.LastSeq {
		t.Errorf("%d messages were written", after.LastSeq-before.LastSeq)
	}
}

// inputStream is the state of the store of inputs.
func inputStream(t *testing.T, nc *nats.Conn) jetstream.StreamState {
	t.Helper()
	s, err := serverJetStream(t, nc).Stream(t.Context(), "OBJ_weft-input")
	if err != nil {
		t.Fatal(err)
	}
	info, err := s.Info(t.Context(), jetstream.WithSubjectFilter(">"))
	if err != nil {
		t.Fatal(err)
	}
	return info.State
}

func sweep(t *testing.T, f *fabric.Fabric, after time.Duration) {
	t.Helper()
	if err := fabric.Sweep(t.Context(), f, f.Now().Add(after)); err != nil {
		t.Fatal(err)
	}
}

func TestSweepRemovesInputsThatNothingMentions(t *testing.T) {
	t.Parallel()
	nc := natstest.Conn(t)
	f := open(t, nc)
	sweep(t, f, 0) // there is no store yet
	const day = 24 * time.Hour
	unused, inPayload, inCron, inBroken, used := putInput(t, f, large("a")), putInput(t, f, large("b")), putInput(t, f, large("c")), putInput(t, f, large("d")), putInput(t, f, large("e"))
	enqueue(t, f, job.Spec{Stage: "hash", InputRef: used})
	escaped := strings.ReplaceAll(inPayload, "/", `\/`)
	enqueue(t, f, job.Spec{Stage: "hash", InputRef: "data:,y", Payload: []byte(`{"more":"` + escaped + `"}`)})
	if _, err := f.AddCron(t.Context(), fabric.CronEntry{Name: "daily", Schedule: "@daily", Spec: job.Spec{Stage: "hash", InputRef: inCron, MaxAttempts: 1}}); err != nil {
		t.Fatal(err)
	}
	if _, err := nc.Request("$KV.weft.job.broken", []byte("no JSON, but "+inBroken), patience); err != nil {
		t.Fatal(err)
	}
	sweep(t, f, 6*day)
	if got := readRef(t, f, unused); got != large("a") {
		t.Errorf("an input was removed before its time")
	}
	sweep(t, f, 8*day)
	if _, err := f.OpenRef(t.Context(), unused); !errors.Is(err, job.ErrUnopenable) {
		t.Errorf("an input that nothing mentions is still there: %v", err)
	}
	for letter, ref := range map[string]string{"b": inPayload, "c": inCron, "d": inBroken, "e": used} {
		if got := readRef(t, f, ref); got != large(letter) {
			t.Errorf("%s: %d bytes are left", ref, len(got))
		}
	}
	if state := inputStream(t, nc); len(state.Subjects) != 2*4 {
		t.Errorf("%d subjects are left for 4 inputs: %v", len(state.Subjects), state.Subjects)
	}
}

func TestSweepSparesWhatIsPutAgainMeanwhile(t *testing.T) {
	t.Parallel()
	nc := natstest.Conn(t)
	f := open(t, nc, func(o *fabric.Options) { o.Retention.Succeeded = fabric.MinRetention })
	ref := putInput(t, f, large("a"))
	store, err := serverJetStream(t, nc).ObjectStore(t.Context(), "weft-input")
	if err != nil {
		t.Fatal(err)
	}
	info, err := store.GetInfo(t.Context(), strings.TrimPrefix(ref, "nats-obj://weft-input/"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Put(t.Context(), jetstream.ObjectMeta{Name: info.Name}, bytes.NewReader([]byte(large("a")))); err != nil {
		t.Fatal(err)
	}
	removed, err := fabric.RemoveInput(t.Context(), f, info)
	if err != nil || removed {
		t.Errorf("removed %t, %v", removed, err)
	}
	if got := readRef(t, f, ref); got != large("a") {
		t.Errorf("%d bytes are left", len(got))
	}
}

func TestSweepRemovesWhatInterruptedUploadsLeave(t *testing.T) {
	t.Parallel()
	nc := natstest.Conn(t)
	f := open(t, nc)
	ref := putInput(t, f, large("a"))
	if _, err := nc.Request("$O.weft-input.C.interrupted", []byte("half"), patience); err != nil {
		t.Fatal(err)
	}
	sweep(t, f, 23*time.Hour)
	if state := inputStream(t, nc); len(state.Subjects) != 3 {
		t.Errorf("an upload that may go on is gone: %v", state.Subjects)
	}
	sweep(t, f, 25*time.Hour)
	if state := inputStream(t, nc); len(state.Subjects) != 2 {
		t.Errorf("chunks are left: %v", state.Subjects)
	}
	if got := readRef(t, f, ref); got != large("a") {
		t.Errorf("%d bytes are left", len(got))
	}
}

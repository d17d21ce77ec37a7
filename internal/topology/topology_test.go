package topology_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/weft-fabric/weft/internal/natstest"
	"github.com/weft-fabric/weft/internal/topology"
)

func TestStreamOfAnotherProgramIsForeignAndNotTouched(t *testing.T) {
	t.Parallel()
	js, err := jetstream.New(natstest.Conn(t))
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "WEFT_hash", Subjects: []string{"orders.>", "bills.*"}, MaxMsgs: 7})
	if err != nil {
		t.Fatal(err)
	}
	before := theirs.CachedInfo().Config
	ours := jetstream.StreamConfig{Name: "WEFT_hash", Subjects: []string{"weft.work.hash.*", "weft.later.hash.*"}, Retention: jetstream.WorkQueuePolicy, MaxMsgsPerSubject: -1}
	_, err = topology.EnsureStream(t.Context(), js, ours)
	foreign(t, err)
	foreign(t, topology.RepairStream(t.Context(), js, ours))
	info, err := theirs.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(info.Config, before) {
		t.Errorf("the stream was\n%+v\nand is\n%+v", before, info.Config)
	}
}

// foreign wants the error that names what the stream holds, and no drift, which
// `weft doctor --repair` would be told to mend.
func foreign(t *testing.T, err error) {
	t.Helper()
	if _, drift := errors.AsType[*topology.DriftError](err); drift || !errors.Is(err, topology.ErrForeign) {
		t.Fatalf("got %v, want ErrForeign", err)
	}
	for _, part := range []string{"WEFT_hash", "orders.>", "bills.*"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not name %s", err, part)
		}
	}
}

// One subject in common, and it is the fabric's own, set wrong.
func TestStreamThatSharesASubjectIsRepaired(t *testing.T) {
	t.Parallel()
	js, err := jetstream.New(natstest.Conn(t))
	if err != nil {
		t.Fatal(err)
	}
	ours := jetstream.StreamConfig{Name: "WEFT_hash", Subjects: []string{"weft.work.hash.*", "weft.later.hash.*"}, MaxMsgsPerSubject: -1}
	had := ours
	had.Subjects = ours.Subjects[:1]
	if _, err := js.CreateStream(t.Context(), had); err != nil {
		t.Fatal(err)
	}
	_, err = topology.EnsureStream(t.Context(), js, ours)
	if _, drift := errors.AsType[*topology.DriftError](err); !drift || errors.Is(err, topology.ErrForeign) {
		t.Fatalf("got %v, want a drift", err)
	}
	if err := topology.RepairStream(t.Context(), js, ours); err != nil {
		t.Fatal(err)
	}
	if _, err := topology.EnsureStream(t.Context(), js, ours); err != nil {
		t.Errorf("after the repair: %v", err)
	}
}

package kv_test

// These tests prove that a record which cannot be read is reported with what it
// holds, and that no write ever goes over it.

import (
	"errors"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/weft-fabric/weft/job"
	"github.com/weft-fabric/weft/kv"
)

// put writes a key as a person with the nats command would.
func put(t *testing.T, nc *nats.Conn, key, value string) {
	t.Helper()
	if _, err := jetStream(t, nc).Publish(t.Context(), "$KV.weft."+key, []byte(value)); err != nil {
		t.Fatal(err)
	}
}

func TestUnreadableRecordIsReportedAndKept(t *testing.T) {
	t.Parallel()
	b, nc := bucket(t)
	for name, text := range map[string]string{
		"empty":       ``,
		"noJSON":      `{"id":"noJSON"`,
		"noState":     `{"id":"noState"}`,
		"future":      `{"id":"future","state":"paused"}`,
		"anotherName": `{"id":"b","stage":"hash","state":"waiting"}`,
		"wrongType":   `{"id":"wrongType","state":"waiting","fence":"one"}`,
	} {
		t.Run(name, func(t *testing.T) {
			put(t, nc, kv.JobKey(name), text)
			rec, err := b.Load(t.Context(), name)
			if !errors.Is(err, kv.ErrUnreadable) || errors.Is(err, job.ErrMissingJob) {
				t.Fatalf("loaded with %v", err)
			}
			if string(rec.Raw) != text || rec.Revision == 0 {
				t.Fatalf("the report has revision %d and %q", rec.Revision, rec.Raw)
			}
			_, err = b.Save(t.Context(), newJob(t, name), 0, 0)
			conflict, ok := errors.AsType[*kv.Conflict](err)
			if !ok || string(conflict.Current.Value) != text {
				t.Fatalf("created over it: %v", err)
			}
			if _, err := kv.RecordOf(name, conflict.Current); !errors.Is(err, kv.ErrUnreadable) {
				t.Fatalf("the conflict reads as %v", err)
			}
			if e := get(t, b, kv.JobKey(name)); string(e.Value) != text || e.Revision != rec.Revision {
				t.Fatalf("it now is %q", e.Value)
			}
		})
	}
}

package fabric_test

// These tests prove that a record which might outgrow the server's messages is
// refused at the door, and that one which was let in fits through all of its
// life.

import (
	"bytes"
	"errors"
	"sort"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/weft-fabric/weft/internal/natstest"
	"github.com/weft-fabric/weft/job"
)

// smallMessages is the option of a server that takes little at once.
func smallMessages(o *server.Options) { o.MaxPayload = 160 << 10 }

func padded(n int) job.Spec {
	return job.Spec{
		Stage: "hash", InputRef: "data:," + strings.Repeat("x", n), MaxAttempts: 14, Key: strings.Repeat("k", job.MaxKeyLength),
	}
}

func TestRecordThatMightOutgrowTheServersMessagesIsRefused(t *testing.T) {
	t.Parallel()
	p := join(t, natstest.Start(t, smallMessages))
	spec := padded(40 << 10)
	spec.ID = "big"
	_, err := p.Enqueue(t.Context(), spec)
	refused(t, err, job.ErrInvalidJob)
	if !strings.Contains(err.Error(), "max_payload") {
		t.Errorf("%v does not say which limit", err)
	}
	if _, err := p.Get(t.Context(), "big"); !errors.Is(err, job.ErrMissingJob) {
		t.Fatalf("left a record: %v", err)
	}
	enqueue(t, p.Fabric, padded(1<<10))
}

func TestLargestRecordFitsThroughAllOfItsLife(t *testing.T) {
	t.Parallel()
	p := join(t, natstest.Start(t, smallMessages))
	size := sort.Search(64<<10, func(n int) bool {
		_, err := p.Enqueue(t.Context(), padded(n))
		return err != nil
	})
	spec := padded(size - 1)
	spec.ID = "largest"
	enqueue(t, p.Fabric, spec)
	r := runner(t, p.Fabric, strings.Repeat("w", job.MaxWorkerLength))
	reason := strings.Repeat("\x00é", job.MaxReasonSize) // as costly in JSON as can be
	progress := []byte(`"` + strings.Repeat("p", job.MaxProgressSize-2) + `"`)
	for range 12 {
		c := claimNext(t, r, "hash", "largest")
		c, err := r.Renew(t.Context(), c, progress)
		if err != nil {
			t.Fatal(err)
		}
		settle(t, r, c, job.FailedAfter(reason, 0))
	}
	settle(t, r, claimNext(t, r, "hash", "largest"), job.Discarded(reason))
	if _, err := p.Retry(t.Context(), "largest", reason); err != nil {
		t.Fatal(err)
	}
	c := claimNext(t, r, "hash", "largest")
	data := bytes.Repeat([]byte{0, 0xff}, job.MaxInlineOutput/2)
	settle(t, r, c, job.CompletedWith(data))
	j := get(t, p.Fabric, "largest")
	if got := output(t, p.Fabric, j); got != string(data) || !strings.HasPrefix(j.OutputRef, "data:") {
		t.Fatalf("output of %d bytes at %.40s", len(got), j.OutputRef)
	}
	if stored := len(record(t, p.Fabric, "largest").Raw); stored > 80<<10 {
		t.Fatalf("the record has grown to %d bytes, more than half a message", stored)
	}
	nothingLeft(t, p.nc, "hash")
}

func TestBareSpecThatMightOutgrowTheServersMessagesEndsInSight(t *testing.T) {
	t.Parallel()
	p := join(t, natstest.Start(t, smallMessages))
	if _, err := p.Stage(t.Context(), "hash"); err != nil {
		t.Fatal(err)
	}
	publish(t, p.nc, "weft.work.hash.big", `{"input_ref":"data:,`+strings.Repeat("x", 40<<10)+`"}`, 0)
	enqueue(t, p.Fabric, job.Spec{ID: "healthy", Stage: "hash", InputRef: "data:,x"})
	claimNext(t, runner(t, p.Fabric, ""), "hash", "healthy")
	if j := awaitState(t, p.Fabric, "big", job.StateFailed); !strings.Contains(j.Reason, "max_payload") {
		t.Fatalf("reason %q", j.Reason)
	}
}

func TestProgressThatIsTooLongIsRefusedAndTheLeaseStays(t *testing.T) {
	t.Parallel()
	p := join(t, natstest.Start(t))
	enqueue(t, p.Fabric, job.Spec{ID: "a", Stage: "hash", InputRef: "data:,x"})
	r := runner(t, p.Fabric, "")
	c := claimNext(t, r, "hash", "a")
	for _, progress := range []string{`"` + strings.Repeat("p", job.MaxProgressSize) + `"`, `{"half`} {
		_, err := r.Renew(t.Context(), c, []byte(progress))
		refused(t, err, job.ErrInvalidJob)
	}
	settle(t, r, renew(t, r, c), job.CompletedWith(nil))
}

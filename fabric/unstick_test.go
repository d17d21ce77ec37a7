package fabric_test

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weft-fabric/weft/internal/natstest"
	"github.com/weft-fabric/weft/job"
)

// A schedule that is there and does not fire, as after a server forgot that it
// was removed, must not count as an offer once its job is due.
func TestAuditReplacesAScheduleThatDoesNotFire(t *testing.T) {
	t.Parallel()
	nc := natstest.Conn(t)
	f := open(t, nc)
	j := enqueue(t, f, job.Spec{Stage: "hash", InputRef: "data:,x", AvailableAt: time.Now().Add(-time.Hour)})
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	work, err := js.Stream(t.Context(), "WEFT_hash")
	if err != nil {
		t.Fatal(err)
	}
	item, err := work.GetLastMsgForSubject(t.Context(), "weft.work.hash."+j.ID)
	if err != nil {
		t.Fatal(err)
	}
	if err := work.DeleteMsg(t.Context(), item.Sequence); err != nil {
		t.Fatal(err)
	}
	stuck := &nats.Msg{Subject: "weft.later.hash." + j.ID, Data: item.Data, Header: nats.Header{
		"Weft-Revision":        {item.Header.Get("Weft-Revision")},
		"Nats-Schedule":        {"@at " + time.Now().Add(time.Hour).UTC().Format(time.RFC3339Nano)},
		"Nats-Schedule-Target": {"weft.work.hash." + j.ID},
	}}
	if _, err := js.PublishMsg(t.Context(), stuck); err != nil {
		t.Fatal(err)
	}
	keeping, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- f.Keep(keeping) }()
	if c := claim(t, runner(t, f, ""), "hash"); c.Job.ID != j.ID {
		t.Errorf("claimed %s", c.Job.ID)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if _, err := work.GetLastMsgForSubject(t.Context(), stuck.Subject); err == nil {
		t.Error("the schedule is still there")
	}
}

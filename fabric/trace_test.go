package fabric_test

// These tests prove that a job's trace is in its record from the first, and in every
// item of it, whoever made the record and whoever offers the job.

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/weft-fabric/weft/fabric"
	"github.com/weft-fabric/weft/internal/natstest"
	"github.com/weft-fabric/weft/job"
)

const traceParent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

var trace = job.Trace{Parent: traceParent, State: "a=1"}

// itemTrace is the trace in the headers of what a job is offered by.
func itemTrace(t *testing.T, nc *nats.Conn, subject string) job.Trace {
	t.Helper()
	msg, err := workQueue(t, nc, "hash").GetLastMsgForSubject(t.Context(), subject)
	if err != nil {
		t.Fatal(err)
	}
	return job.Trace{Parent: msg.Header.Get("traceparent"), State: msg.Header.Get("tracestate")}
}

func TestTraceStaysThroughRetriesReleasesAndAnOperator(t *testing.T) {
	t.Parallel()
	p := join(t, natstest.Start(t), impatient, attempts(2))
	r := runner(t, p.Fabric, "")
	enqueue(t, p.Fabric, job.Spec{ID: "a", Stage: "hash", InputRef: "data:,x", Trace: trace})
	for _, end := range []job.Outcome{
		job.Released(), job.FailedAfter("no", 0), job.FailedAfter("no", 0),
	} {
		if got := itemTrace(t, p.nc, "weft.work.hash.a"); got != trace {
			t.Fatalf("before the outcome %s the item has the trace %+v", end, got)
		}
		c := claimNext(t, r, "hash", "a")
		if c.Job.Trace != trace {
			t.Fatalf("the claim has the trace %+v", c.Job.Trace)
		}
		settle(t, r, c, end)
	}
	if _, err := p.Retry(t.Context(), "a", "once more"); err != nil {
		t.Fatal(err)
	}
	c := claimNext(t, r, "hash", "a")
	if c.Job.Trace != trace || c.Job.Attempt != 3 {
		t.Fatalf("the operator's attempt %d has the trace %+v", c.Job.Attempt, c.Job.Trace)
	}
	settle(t, r, c, job.CompletedWith(nil))
	enqueue(t, p.Fabric, job.Spec{ID: "b", Stage: "hash", InputRef: "data:,x", Trace: trace, AvailableAt: p.Now().Add(time.Hour)})
	if got := itemTrace(t, p.nc, "weft.later.hash.b"); got != trace {
		t.Errorf("the schedule has the trace %+v", got)
	}
	enqueue(t, p.Fabric, job.Spec{ID: "c", Stage: "hash", InputRef: "data:,x"})
	msg, err := workQueue(t, p.nc, "hash").GetLastMsgForSubject(t.Context(), "weft.work.hash.c")
	if err != nil || len(msg.Header["traceparent"]) > 0 {
		t.Errorf("the item of a job without trace has the headers %v: %v", msg.Header, err)
	}
}

func TestTraceOfABareItem(t *testing.T) {
	t.Parallel()
	p := join(t, natstest.Start(t))
	r := runner(t, p.Fabric, "")
	if _, err := p.Stage(t.Context(), "hash"); err != nil {
		t.Fatal(err)
	}
	other := "00-11111111111111111111111111111111-2222222222222222-00"
	for _, test := range []struct {
		id, body string
		header   nats.Header
		want     job.Trace
	}{
		{"header", `{"input_ref":"x"}`, nats.Header{"traceparent": {traceParent}, "tracestate": {"a=1"}}, trace},
		{"http", `{"input_ref":"x"}`, nats.Header{"Traceparent": {traceParent}}, job.Trace{Parent: traceParent}},
		{"body", `{"input_ref":"x","traceparent":"` + other + `"}`, nats.Header{"traceparent": {traceParent}}, job.Trace{Parent: other}},
		{"malformed", `{"input_ref":"x"}`, nats.Header{"traceparent": {"nonsense"}}, job.Trace{}},
		{"none", `{"input_ref":"x"}`, nil, job.Trace{}},
	} {
		if err := p.nc.PublishMsg(&nats.Msg{Subject: "weft.work.hash." + test.id, Header: test.header, Data: []byte(test.body)}); err != nil {
			t.Fatal(err)
		}
		c := claimNext(t, r, "hash", test.id)
		if c.Job.Trace != test.want {
			t.Errorf("%s: the record has the trace %+v, want %+v", test.id, c.Job.Trace, test.want)
		}
		settle(t, r, c, job.CompletedWith(nil))
		if got := get(t, p.Fabric, test.id).Trace; got != test.want {
			t.Errorf("%s: the record ended with the trace %+v, want %+v", test.id, got, test.want)
		}
	}
}

// spans is a tracer that gives every enqueue a trace.
type spans struct{ ended chan string }

func (s *spans) Enqueue(_ context.Context, spec job.Spec) (job.Trace, func(job.Job, error)) {
	return trace, func(j job.Job, err error) {
		end := spec.ID + " became " + j.ID
		if err != nil {
			end = spec.ID + " was refused"
		}
		s.ended <- end
	}
}

func TestEachEnqueueIsOneSpan(t *testing.T) {
	t.Parallel()
	s := &spans{ended: make(chan string, 100)}
	p := join(t, natstest.Start(t), func(o *fabric.Options) { o.Tracer = s })
	ended := func(want string) {
		t.Helper()
		select {
		case got := <-s.ended:
			if got != want {
				t.Errorf("span: %s, want %s", got, want)
			}
		case <-time.After(patience):
			t.Fatalf("no span: %s", want)
		}
	}
	enqueue(t, p.Fabric, job.Spec{ID: "a", Stage: "hash", InputRef: "data:,x", Key: "k"})
	ended("a became a")
	if got := get(t, p.Fabric, "a").Trace; got != trace {
		t.Errorf("the record has the trace %+v", got)
	}
	if _, err := p.Enqueue(t.Context(), job.Spec{ID: "a", Stage: "other", InputRef: "data:,x"}); err == nil {
		t.Error("another spec of the id was taken")
	}
	ended("a was refused")
	specs := []job.Spec{
		{ID: "b", Stage: "hash", InputRef: "data:,x"}, {ID: "a", Stage: "other", InputRef: "data:,x"},
		{ID: "c", Stage: "hash", InputRef: "data:,x", Key: "k"}, {ID: "d", Stage: "hash"},
	}
	if err := p.EnqueueMany(t.Context(), slices.Values(specs), func(fabric.Enqueued) error { return nil }, fabric.OnConflict(fabric.Supersede)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"b became b", "a was refused", "c became c", "d was refused"} {
		ended(want)
	}
	if got := get(t, p.Fabric, "b").Trace; got != trace {
		t.Errorf("the record has the trace %+v", got)
	}
	if len(s.ended) > 0 {
		t.Errorf("one more span: %s", <-s.ended)
	}
}

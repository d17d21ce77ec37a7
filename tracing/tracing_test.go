package tracing_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/weft-fabric/weft/job"
	"github.com/weft-fabric/weft/tracing"
	"github.com/weft-fabric/weft/worker"
)

const traceParent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

func recorded(t *testing.T) (*tracing.Tracer, *tracetest.SpanRecorder, trace.TracerProvider) {
	t.Helper()
	spans := tracetest.NewSpanRecorder()
	provider := sdk.NewTracerProvider(sdk.WithSpanProcessor(spans))
	return tracing.New(tracing.Options{Provider: provider}), spans, provider
}

func spec() job.Spec { return job.Spec{ID: "a", Stage: "hash", InputRef: "data:,x"} }

// attempted is a record as a worker gets it.
func attempted(carried job.Trace) job.Job {
	j := job.Job{Spec: spec(), State: job.StateLeased, Attempt: 2, Fence: 5, WorkerID: "rn_1"}
	j.Trace = carried
	return j
}

func attributeOf(span sdk.ReadOnlySpan, name attribute.Key) string {
	for _, a := range span.Attributes() {
		if a.Key == name {
			return a.Value.String()
		}
	}
	return ""
}

func TestAttemptIsAChildOfTheEnqueue(t *testing.T) {
	t.Parallel()
	tracer, spans, provider := recorded(t)
	ctx, outer := provider.Tracer("test").Start(t.Context(), "request")
	carried, end := tracer.Enqueue(ctx, spec())
	end(job.Job{Spec: spec()}, nil)
	outer.End()
	inside, end2 := tracer.Attempt(context.Background(), attempted(carried))
	environ := tracer.Environ(inside)
	end2(job.Failed("no luck"), nil)

	ended := spans.Ended()
	enqueue, request, attempt := ended[0], ended[1], ended[2]
	if enqueue.Parent().SpanID() != request.SpanContext().SpanID() || enqueue.SpanKind() != trace.SpanKindProducer || enqueue.Name() != "enqueue hash" {
		t.Errorf("the enqueue is %s, %s, a child of %s", enqueue.Name(), enqueue.SpanKind(), enqueue.Parent().SpanID())
	}
	if attempt.Parent().SpanID() != enqueue.SpanContext().SpanID() || attempt.SpanKind() != trace.SpanKindConsumer || attempt.Name() != "attempt hash" {
		t.Errorf("the attempt is %s, %s, a child of %s", attempt.Name(), attempt.SpanKind(), attempt.Parent().SpanID())
	}
	if got := attempt.SpanContext().TraceID(); got != request.SpanContext().TraceID() {
		t.Errorf("the attempt is in the trace %s", got)
	}
	for name, want := range map[attribute.Key]string{
		"weft.job.id": "a", "weft.stage": "hash", "weft.attempt": "2", "weft.fence": "5", "weft.worker": "rn_1", "weft.outcome": "failed",
		"messaging.system": "weft", "messaging.destination.name": "hash", "messaging.message.id": "a",
		"messaging.operation.name": "attempt", "messaging.operation.type": "process",
	} {
		if got := attributeOf(attempt, name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if s := attempt.Status(); s.Code != codes.Error || s.Description != "no luck" {
		t.Errorf("the attempt's status is %+v", s)
	}
	want := "TRACEPARENT=00-" + attempt.SpanContext().TraceID().String() + "-" + attempt.SpanContext().SpanID().String() + "-01"
	if !slices.Equal(environ, []string{want}) {
		t.Errorf("the command gets %q, want %q", environ, want)
	}
}

func TestEnqueueGoesOnInTheTraceOfItsSpec(t *testing.T) {
	t.Parallel()
	tracer, spans, _ := recorded(t)
	s := spec()
	s.Trace = job.Trace{Parent: traceParent, State: "vendor=1"}
	carried, end := tracer.Enqueue(t.Context(), s)
	end(job.Job{}, &job.Error{Code: job.CodeDuplicateJob, JobID: "a"})
	span := spans.Ended()[0]
	if got := span.Parent().SpanID().String(); got != "b7ad6b7169203331" {
		t.Errorf("the span is a child of %s", got)
	}
	if carried.State != "vendor=1" || !strings.Contains(carried.Parent, span.SpanContext().SpanID().String()) {
		t.Errorf("the record carries %+v", carried)
	}
	if span.Status().Code != codes.Error || attributeOf(span, "error.type") != "duplicate_job" {
		t.Errorf("a refused enqueue is %+v", span.Status())
	}
}

func TestOutcomesOfAttempts(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		outcome job.Outcome
		err     error
		status  codes.Code
	}{
		"completed":  {job.Completed("data:,x"), nil, codes.Unset},
		"failed":     {job.Failed("no"), nil, codes.Error},
		"discarded":  {job.Discarded("no"), nil, codes.Error},
		"returned":   {job.Returned("later"), nil, codes.Unset},
		"released":   {job.Released(), nil, codes.Unset},
		"lost":       {job.Completed("data:,x"), worker.ErrLeaseLost, codes.Error},
		"cancelled":  {job.Completed("data:,x"), &worker.CancelledError{Reason: "no"}, codes.Error},
		"unrecorded": {job.Completed("data:,x"), errors.New("no server"), codes.Error},
	} {
		tracer, spans, _ := recorded(t)
		_, end := tracer.Attempt(t.Context(), attempted(job.Trace{}))
		end(test.outcome, test.err)
		span := spans.Ended()[0]
		if got := attributeOf(span, "weft.outcome"); got != name || span.Status().Code != test.status {
			t.Errorf("%s: outcome %s, status %v", name, got, span.Status())
		}
	}
}

// A provider that makes no spans, which is OpenTelemetry's when none is set, must not
// end the trace that a job came with.
func TestWithoutAnSDKTheTraceGoesOn(t *testing.T) {
	t.Parallel()
	tracer := tracing.New(tracing.Options{Provider: noop.NewTracerProvider()})
	s := spec()
	s.Trace = job.Trace{Parent: traceParent}
	carried, end := tracer.Enqueue(t.Context(), s)
	end(job.Job{}, nil)
	if carried != s.Trace {
		t.Errorf("the record carries %+v", carried)
	}
	ctx, ended := tracer.Attempt(t.Context(), attempted(s.Trace))
	ended(job.Completed("data:,x"), nil)
	if got := tracer.Environ(ctx); !slices.Equal(got, []string{"TRACEPARENT=" + traceParent}) {
		t.Errorf("the command gets %q", got)
	}
	if got := tracer.Environ(t.Context()); got != nil {
		t.Errorf("a command without trace gets %q", got)
	}
}

package tracing

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/weft-fabric/weft/fabric"
	"github.com/weft-fabric/weft/job"
	"github.com/weft-fabric/weft/worker"
)

// scope names the instrumentation.
const scope = "github.com/weft-fabric/weft/tracing"

// Options say where spans go. The zero value uses what was set for the process by
// otel.SetTracerProvider.
type Options struct {
	Provider trace.TracerProvider
}

// Tracer traces enqueues and attempts. It is safe for concurrent use.
type Tracer struct {
	tracer trace.Tracer
	w3c    propagation.TraceContext
}

var (
	_ fabric.Tracer = (*Tracer)(nil)
	_ worker.Tracer = (*Tracer)(nil)
)

// New makes a tracer.
func New(o Options) *Tracer {
	if o.Provider == nil {
		o.Provider = otel.GetTracerProvider()
	}
	return &Tracer{tracer: o.Provider.Tracer(scope)}
}

// Enqueue begins the span of an enqueue: in ctx's trace, else in the one that the
// spec came with, else in a new one.
func (t *Tracer) Enqueue(ctx context.Context, spec job.Spec) (job.Trace, func(job.Job, error)) {
	if !trace.SpanContextFromContext(ctx).IsValid() {
		ctx = t.extract(ctx, spec.Trace)
	}
	ctx, span := t.tracer.Start(ctx, "enqueue "+spec.Stage, trace.WithSpanKind(trace.SpanKindProducer),
		trace.WithAttributes(append(jobAttributes(spec), operation("enqueue", "send")...)...))
	return t.inject(ctx, spec.Trace), func(j job.Job, err error) {
		if err != nil {
			refuse(span, err)
		} else if j.ID != spec.ID { // of a key whose live job was given in place of this one
			span.SetAttributes(attribute.String("weft.job.coalesced", j.ID))
		}
		span.End()
	}
}

// Attempt begins the span of an attempt, as a child of its job's enqueue.
func (t *Tracer) Attempt(ctx context.Context, j job.Job) (context.Context, func(job.Outcome, error)) {
	ctx, span := t.tracer.Start(t.extract(ctx, j.Trace), "attempt "+j.Stage, trace.WithSpanKind(trace.SpanKindConsumer),
		trace.WithAttributes(append(jobAttributes(j.Spec), operation("attempt", "process")...)...),
		trace.WithAttributes(
			attribute.Int64("weft.attempt", j.Attempt),
			attribute.Int64("weft.fence", j.Fence),
			attribute.String("weft.worker", j.WorkerID)))
	return ctx, func(o job.Outcome, err error) {
		span.SetAttributes(attribute.String("weft.outcome", outcomeName(o, err)))
		switch {
		case err != nil:
			refuse(span, err)
		case o.Kind() == job.KindFailed || o.Kind() == job.KindDiscarded:
			span.SetStatus(codes.Error, o.Reason())
		}
		span.End()
	}
}

// outcomeName is how the attempt ended for its worker: lost is a claim that was
// somebody else's by then, unrecorded an outcome that could not be written.
func outcomeName(o job.Outcome, err error) string {
	switch {
	case errors.Is(err, worker.ErrCancelled):
		return "cancelled"
	case errors.Is(err, worker.ErrLeaseLost):
		return "lost"
	case err != nil:
		return "unrecorded"
	}
	return o.String()
}

func refuse(span trace.Span, err error) {
	span.RecordError(err)
	if refused, ok := errors.AsType[*job.Error](err); ok {
		span.SetAttributes(attribute.String("error.type", string(refused.Code)))
	}
	span.SetStatus(codes.Error, err.Error())
}

func jobAttributes(s job.Spec) []attribute.KeyValue {
	return []attribute.KeyValue{
		attribute.String("messaging.system", "weft"),
		attribute.String("messaging.destination.name", s.Stage),
		attribute.String("messaging.message.id", s.ID),
		attribute.String("weft.job.id", s.ID),
		attribute.String("weft.stage", s.Stage),
	}
}

func operation(name, kind string) []attribute.KeyValue {
	return []attribute.KeyValue{
		attribute.String("messaging.operation.name", name),
		attribute.String("messaging.operation.type", kind),
	}
}

// Environ gives a command the trace context of ctx, in the variables TRACEPARENT and
// TRACESTATE, or nothing if there is none. It is for exec.Options.Environ.
func (t *Tracer) Environ(ctx context.Context) []string {
	carried := t.inject(ctx, job.Trace{})
	return carried.Environ()
}

// extract puts the trace context of a record into ctx.
func (t *Tracer) extract(ctx context.Context, of job.Trace) context.Context {
	if of.IsZero() {
		return ctx
	}
	return t.w3c.Extract(ctx, propagation.MapCarrier{"traceparent": of.Parent, "tracestate": of.State})
}

// inject gives the trace context of ctx, or the one that was there before if ctx
// has none, as with a provider that makes no spans.
func (t *Tracer) inject(ctx context.Context, before job.Trace) job.Trace {
	carrier := propagation.MapCarrier{}
	t.w3c.Inject(ctx, carrier)
	if now := job.TraceOf(carrier["traceparent"], carrier["tracestate"]); !now.IsZero() {
		return now
	}
	return before
}

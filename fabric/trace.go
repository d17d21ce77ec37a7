package fabric

import (
	"context"

	"github.com/weft-fabric/weft/job"
)

// Tracer puts a span around each enqueue. Package tracing has one for OpenTelemetry.
type Tracer interface {
	// Enqueue begins a span in the trace of ctx, or else in the spec's, and returns
	// the trace context that the job's record is to carry, so that every attempt at
	// the job, in whichever process, belongs to the span. end is called once, with
	// the job as it was accepted, or why it was not.
	Enqueue(ctx context.Context, spec job.Spec) (carried job.Trace, end func(job.Job, error))
}

// traced begins the span of an enqueue. Without a tracer the spec keeps the trace
// that it has, and end does nothing.
func (f *Fabric) traced(ctx context.Context, spec *job.Spec) (end func(job.Job, error)) {
	if f.opts.Tracer == nil {
		return untraced
	}
	spec.Trace, end = f.opts.Tracer.Enqueue(ctx, *spec)
	return end
}

func untraced(job.Job, error) {}

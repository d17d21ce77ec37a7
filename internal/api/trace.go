package api

import (
	"context"

	"github.com/weft-fabric/weft/job"
)

// traceKey is of the trace context that came in a request's headers. It is about the
// request and not part of it, as everywhere else where a context carries it.
type traceKey struct{}

func withTrace(ctx context.Context, t job.Trace) context.Context {
	if t.IsZero() {
		return ctx
	}
	return context.WithValue(ctx, traceKey{}, t)
}

func traceOf(ctx context.Context) job.Trace {
	t, _ := ctx.Value(traceKey{}).(job.Trace)
	return t
}

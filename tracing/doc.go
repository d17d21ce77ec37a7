// Package tracing connects Weft to OpenTelemetry: a span for each enqueue, one for
// each attempt, all of a job in one trace.
//
// It is the only package of Weft's libraries that knows OpenTelemetry, and it knows
// the API alone; whoever makes the program chooses the SDK. What crosses from one
// process to another is the trace context in the job's record (job.Trace), so an
// attempt belongs to its job's trace whoever offered the job: its enqueuer, a
// keeper, an operator's retry, or a program without this library that published a
// bare spec with a traceparent header.
//
//	t := tracing.New(tracing.Options{})
//	f, err := fabric.Open(ctx, nc, fabric.Options{Tracer: t})
//	w, err := worker.New(runner, worker.Options{Tracer: t, ...})
//
// Attempts are children of the enqueue, not links: the semantic conventions for
// messaging allow that for messages that are processed one by one, and it is what
// shows a job with its retries as one picture.
package tracing

package stream

import (
	"github.com/nats-io/nats.go"

	"github.com/weft-fabric/weft/job"
)

// The headers of W3C Trace Context. Their names are case-insensitive, those of NATS
// are not; HTTP's libraries, and so the carriers that use them, write the second form.
var (
	traceParentHeaders = [...]string{"traceparent", "Traceparent"}
	traceStateHeaders  = [...]string{"tracestate", "Tracestate"}
)

// TraceOf is the trace context in a message's headers, none if it has none that is
// well formed.
func TraceOf(get func(header string) string) job.Trace {
	first := func(names [2]string) string {
		for _, name := range names {
			if text := get(name); text != "" {
				return text
			}
		}
		return ""
	}
	return job.TraceOf(first(traceParentHeaders), first(traceStateHeaders))
}

func writeTrace(h nats.Header, t job.Trace) {
	h.Set(traceParentHeaders[0], t.Parent)
	if t.State != "" {
		h.Set(traceStateHeaders[0], t.State)
	}
}

// Trace is the trace context in the item's headers. It is read when asked for: an
// item that carries its record has it there too.
func (d *Delivery) Trace() job.Trace {
	if d.msg == nil {
		return d.Item.Trace
	}
	return TraceOf(d.msg.Header.Get)
}

package job

import "strings"

// Limits of a trace context, in bytes. W3C Trace Context asks for 512 of
// tracestate at least to be passed on; later versions of traceparent may be longer
// than the first, which has 55.
const (
	MaxTraceStateLength  = 512
	maxTraceParentLength = 128
)

// Trace is the trace in which a job was asked for, in the two texts of W3C Trace
// Context. It lives in the record, so that whoever runs an attempt, and whoever
// offers the job again, has it. It says nothing about what the job is: the same
// spec of another trace is the same spec.
type Trace struct {
	Parent string // traceparent; empty is none
	State  string // tracestate, of no meaning without Parent
}

// TraceOf is the trace context of two texts from the outside, such as headers or
// the environment, or none where they are not well formed: W3C Trace Context 4.3
// asks for that, and no job should be refused over its trace.
func TraceOf(parent, state string) Trace {
	t := Trace{Parent: strings.TrimSpace(parent), State: strings.TrimSpace(state)}
	if t.State != "" && t.check() != nil { // a bad state does not invalidate the parent
		t.State = ""
	}
	if t.check() != nil {
		return Trace{}
	}
	return t
}

// IsZero reports whether there is no trace.
func (t Trace) IsZero() bool { return t == Trace{} }

// check refuses a trace context in a spec, where it was written on purpose.
func (t Trace) check() error {
	switch {
	case t.Parent == "" && t.State != "":
		return Invalid("tracestate is given without traceparent; give both, or traceparent alone")
	case t.Parent != "" && !isTraceParent(t.Parent):
		return Invalid("traceparent %s is not of the form 00-<32 hex>-<16 hex>-<2 hex> of W3C Trace Context", quote(t.Parent))
	case len(t.State) > MaxTraceStateLength:
		return Invalid("tracestate of %d bytes is longer than %d", len(t.State), MaxTraceStateLength)
	case strings.ContainsFunc(t.State, func(r rune) bool { return r < 0x20 || r > 0x7e }):
		return Invalid("tracestate %s must be printable ASCII", quote(t.State))
	}
	return nil
}

// isTraceParent reports whether a text is version-traceid-parentid-flags in
// lower-case hex, where the ids are not all zeros. Versions above 00 may go on
// after another dash.
func isTraceParent(text string) bool {
	const version, trace, parent, flags = 2, 2 + 1 + 32, 2 + 1 + 32 + 1 + 16, 2 + 1 + 32 + 1 + 16 + 1 + 2
	if len(text) < flags || len(text) > maxTraceParentLength || text[version] != '-' || text[trace] != '-' || text[parent] != '-' {
		return false
	}
	longer := len(text) > flags
	if text[:version] == "ff" || longer && (text[:version] == "00" || text[flags] != '-' || !isPlain([]byte(text))) {
		return false
	}
	return isHex(text[:version]) && isID(text[version+1:trace]) && isID(text[trace+1:parent]) && isHex(text[parent+1:flags])
}

func isID(text string) bool { return isHex(text) && strings.Trim(text, "0") != "" }

func isHex(text string) bool { return strings.Trim(text, "0123456789abcdef") == "" }

// takeTrace reads the trace context. Most records have none, and are not looked
// through for it twice.
func (o *object) takeTrace(t *Trace) {
	for _, p := range o.members {
		if p.taken {
			continue
		}
		switch p.name {
		case "traceparent":
			o.take(p.name, &t.Parent)
		case "tracestate":
			o.take(p.name, &t.State)
		}
	}
}

// Environ is the trace context as the environment of a command has it, by the names
// that OpenTelemetry's tools use; nothing if there is none.
func (t Trace) Environ() []string {
	if t.Parent == "" {
		return nil
	}
	environ := []string{TraceParentVariable + "=" + t.Parent}
	if t.State != "" {
		environ = append(environ, TraceStateVariable+"="+t.State)
	}
	return environ
}

// Variables of the environment that carry a trace context.
const (
	TraceParentVariable = "TRACEPARENT"
	TraceStateVariable  = "TRACESTATE"
)

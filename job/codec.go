package job

import (
	"encoding/json"
	"strconv"
	"time"
)

// The codec is written out by hand for two reasons that encoding/json's struct
// tags cannot meet: members that this version does not know must survive a
// rewrite, and a payload must come out byte for byte as it went in, where
// json.Marshal would compact and escape it. AppendJSON is therefore the form to
// store; MarshalJSON gives the same members for use inside other values.

// MarshalJSON writes the spec's members.
func (s Spec) MarshalJSON() ([]byte, error) { return s.AppendJSON(nil), nil }

// MarshalJSON writes the wire form. encoding/json compacts it, the payload too;
// use AppendJSON to store a record.
func (j Job) MarshalJSON() ([]byte, error) { return j.AppendJSON(nil), nil }

// AppendJSON appends the spec as a JSON object, the payload byte for byte.
func (s Spec) AppendJSON(b []byte) []byte {
	w := writer{b: append(b, '{')}
	w.spec(s)
	if s.MaxAttempts != 0 {
		w.int("max_attempts", s.MaxAttempts)
	}
	w.time("available_at", s.AvailableAt)
	w.members(s.unknown)
	return append(w.b, '}')
}

// AppendJSON appends the record as a JSON object, the payload byte for byte.
func (j Job) AppendJSON(b []byte) []byte {
	w := writer{b: append(b, '{')}
	w.spec(j.Spec)
	w.int("max_attempts", j.MaxAttempts)
	if j.Key != "" {
		w.int("key_order", j.KeyOrder)
	}
	w.strings("waiting_on", j.WaitingOn)
	w.int("attempt", j.Attempt)
	w.int("fence", j.Fence)
	w.text("state", string(j.State))
	w.state(j)
	w.time("created_at", j.CreatedAt)
	w.time("updated_at", j.UpdatedAt)
	w.attempts(j.AttemptsLog)
	w.members(j.unknown)
	return append(w.b, '}')
}

// writer appends JSON members to b.
type writer struct{ b []byte }

func (w *writer) spec(s Spec) {
	w.text("id", s.ID)
	w.text("stage", s.Stage)
	w.text("input_ref", s.InputRef)
	w.int("input_revision", s.InputRevision)
	w.strings("dependencies", s.Dependencies)
	w.optional("on_dependency_failure", string(s.OnDependencyFailure))
	w.optional("key", s.Key)
	w.raw("payload", s.Payload)
	if s.Priority != 0 {
		w.int("priority", int64(s.Priority))
	}
	if s.Timeout != 0 {
		w.text("timeout", s.Timeout.String())
	}
	if len(s.Labels) > 0 {
		w.value("labels", s.Labels)
	}
	w.optional("traceparent", s.Trace.Parent)
	w.optional("tracestate", s.Trace.State)
}

// state writes the members that belong to the job's state.
func (w *writer) state(j Job) {
	switch j.State {
	case StateWaiting:
		w.time("available_at", j.AvailableAt)
	case StateRetryWaiting:
		w.time("available_at", j.AvailableAt)
		w.text("reason", j.Reason)
	case StateLeased:
		w.text("worker_id", j.WorkerID)
		w.time("lease_expires_at", j.LeaseExpiresAt)
		if j.ItemSeq != 0 {
			w.name("item_seq")
			w.b = strconv.AppendUint(w.b, j.ItemSeq, 10)
		}
		w.raw("progress", j.Progress)
	case StateSucceeded:
		w.text("output_ref", j.OutputRef)
		w.time("finished_at", j.FinishedAt)
	case StateFailed, StateCancelled:
		w.text("reason", j.Reason)
		w.time("finished_at", j.FinishedAt)
	}
}

func (w *writer) attempts(log []Attempt) {
	if len(log) == 0 {
		return
	}
	w.name("attempts_log")
	w.b = append(w.b, '[')
	for i, a := range log {
		if i > 0 {
			w.b = append(w.b, ',')
		}
		w.b = append(w.b, '{')
		w.int("number", a.Number)
		w.int("fence", a.Fence)
		w.text("worker", a.Worker)
		w.time("started", a.Started)
		w.time("ended", a.Ended)
		w.optional("outcome", string(a.Outcome))
		w.optional("reason", a.Reason)
		w.b = append(w.b, '}')
	}
	w.b = append(w.b, ']')
}

func (w *writer) name(name string) {
	if w.b[len(w.b)-1] != '{' {
		w.b = append(w.b, ',')
	}
	w.b = appendString(w.b, name)
	w.b = append(w.b, ':')
}

func (w *writer) text(name, value string) {
	w.name(name)
	w.b = appendString(w.b, value)
}

func (w *writer) optional(name, value string) {
	if value != "" {
		w.text(name, value)
	}
}

func (w *writer) int(name string, value int64) {
	w.name(name)
	w.b = strconv.AppendInt(w.b, value, 10)
}

func (w *writer) time(name string, value time.Time) {
	if value.IsZero() {
		return
	}
	w.name(name)
	w.b = append(w.b, '"')
	w.b = value.UTC().AppendFormat(w.b, time.RFC3339Nano)
	w.b = append(w.b, '"')
}

func (w *writer) raw(name string, value json.RawMessage) {
	if len(value) > 0 {
		w.name(name)
		w.b = append(w.b, value...)
	}
}

func (w *writer) strings(name string, values []string) {
	if len(values) > 0 {
		w.value(name, values)
	}
}

// value writes what encoding/json can write and never refuses: strings, and
// structs and maps of them.
func (w *writer) value(name string, value any) {
	if text, err := json.Marshal(value); err == nil {
		w.raw(name, text)
	}
}

func (w *writer) members(unknown []member) {
	for _, m := range unknown {
		w.raw(m.name, m.raw)
	}
}

// appendString appends s as a JSON string. Nearly all strings of a record are
// plain ASCII, which needs no escaping.
func appendString(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < 0x20 || c >= 0x7f || c == '"' || c == '\\' {
			text, _ := json.Marshal(s) // a string always marshals
			return append(b, text...)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}

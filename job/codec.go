package job

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"time"
)

// The codec is written out by hand for two reasons that encoding/json's struct
// tags cannot meet: members that this version does not know must survive a
// rewrite, and a payload must come out byte for byte as it went in, where
// json.Marshal would compact and escape it. AppendJSON is therefore the form to
// store; MarshalJSON gives the same members for use inside other values.

// member is one JSON member that this version does not know.
type member struct {
	name string
	raw  json.RawMessage
}

// object is a JSON object being taken apart: each known member is removed as it
// is read, what remains is unknown. The first error is kept.
type object struct {
	members map[string]json.RawMessage
	err     error
}

var errNotObject = errors.New("not a JSON object")

func parseObject(data []byte) (*object, error) {
	o := &object{}
	if err := json.Unmarshal(data, &o.members); err != nil {
		if _, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			return nil, errNotObject
		}
		return nil, err
	}
	if o.members == nil { // the text was null
		return nil, errNotObject
	}
	return o, nil
}

// take reads one member into dst, if it is there.
func (o *object) take(name string, dst any) {
	raw, ok := o.members[name]
	if !ok {
		return
	}
	delete(o.members, name)
	if o.err != nil {
		return
	}
	if err := json.Unmarshal(raw, dst); err != nil {
		o.err = fmt.Errorf("member %s: %w", name, plain(err))
	}
}

// takeRaw keeps one member's bytes as they are; null counts as absent.
func (o *object) takeRaw(name string, dst *json.RawMessage) {
	raw, ok := o.members[name]
	delete(o.members, name)
	if ok && !bytes.Equal(raw, []byte("null")) {
		*dst = raw
	}
}

func (o *object) takeTime(name string, dst *time.Time) {
	var text *string
	o.take(name, &text)
	if text == nil || o.err != nil {
		return
	}
	var t time.Time
	if err := t.UnmarshalText([]byte(*text)); err != nil {
		o.err = fmt.Errorf("member %s: %s is not a time such as 2006-01-02T15:04:05Z", name, quote(*text))
		return
	}
	o.putUTC(name, t, dst)
}

// putUTC sets dst to t in UTC, where an offset can carry a time out of the years
// that RFC 3339 can write.
func (o *object) putUTC(name string, t time.Time, dst *time.Time) {
	t = t.UTC()
	if year := t.Year(); year < 0 || year > 9999 {
		o.err = fmt.Errorf("member %s: the year %d in UTC is not within 0 and 9999", name, year)
		return
	}
	*dst = t
}

func (o *object) takeDuration(name string, dst *time.Duration) {
	var text *string
	o.take(name, &text)
	if text == nil || o.err != nil {
		return
	}
	d, err := time.ParseDuration(*text)
	if err != nil {
		o.err = fmt.Errorf("member %s: %s is not a Go duration such as 1m30s", name, quote(*text))
	}
	*dst = d
}

// rest gives the members nobody took, sorted by name so that two programs write
// the same bytes.
func (o *object) rest() []member {
	if len(o.members) == 0 {
		return nil
	}
	rest := make([]member, 0, len(o.members))
	for _, name := range slices.Sorted(maps.Keys(o.members)) {
		rest = append(rest, member{name, o.members[name]})
	}
	return rest
}

// plain says a type error of encoding/json without its Go names.
func plain(err error) error {
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return fmt.Errorf("a JSON %s is not of the right type, it must be %s", cutAt(wrong.Value, quotedLength), jsonType(wrong.Type.Kind()))
	}
	return err
}

// jsonType names what JSON must hold for a field of the given kind.
func jsonType(kind reflect.Kind) string {
	switch kind {
	case reflect.String:
		return "a string"
	case reflect.Slice:
		return "an array"
	case reflect.Map, reflect.Struct:
		return "an object"
	}
	return "a whole number" // the only other kind a record has
}

// takeSpec reads the members that a spec and a record share.
func (o *object) takeSpec(s *Spec) {
	o.take("id", &s.ID)
	o.take("stage", &s.Stage)
	o.take("input_ref", &s.InputRef)
	o.take("input_revision", &s.InputRevision)
	o.take("dependencies", &s.Dependencies)
	o.take("on_dependency_failure", &s.OnDependencyFailure)
	o.take("key", &s.Key)
	o.takeRaw("payload", &s.Payload)
	o.take("max_attempts", &s.MaxAttempts)
	o.take("priority", &s.Priority)
	o.takeDuration("timeout", &s.Timeout)
	o.take("labels", &s.Labels)
	o.takeTime("available_at", &s.AvailableAt)
	if len(s.Dependencies) == 0 { // an empty list is not written either
		s.Dependencies = nil
	}
	if len(s.Labels) == 0 {
		s.Labels = nil
	}
}

// UnmarshalJSON reads a spec. It checks the form alone; New checks the rules.
func (s *Spec) UnmarshalJSON(data []byte) error {
	o, err := parseObject(data)
	if err != nil {
		return fmt.Errorf("spec: %w", err)
	}
	var read Spec
	o.takeSpec(&read)
	if o.err != nil {
		return fmt.Errorf("spec: %w", o.err)
	}
	read.unknown = o.rest()
	*s = read
	return nil
}

// UnmarshalJSON reads a record and refuses one whose state it does not know,
// since nothing could safely be done with it.
func (j *Job) UnmarshalJSON(data []byte) error {
	o, err := parseObject(data)
	if err != nil {
		return fmt.Errorf("record: %w", err)
	}
	var read Job
	o.takeSpec(&read.Spec)
	o.takeRecord(&read)
	if o.err != nil {
		return fmt.Errorf("record: %w", o.err)
	}
	read.unknown = o.rest()
	if err := read.checkForm(); err != nil {
		return fmt.Errorf("record: %w", err)
	}
	read.tidy()
	*j = read
	return nil
}

// tidy clears what does not belong to the record's state and what is empty, so
// that a record that was read equals the one that AppendJSON writes.
func (j *Job) tidy() {
	if !j.State.Idle() {
		j.AvailableAt, j.WaitingOn = time.Time{}, nil
	}
	if j.State != StateLeased {
		j.WorkerID, j.LeaseExpiresAt, j.ItemSeq, j.Progress = "", time.Time{}, 0, nil
	}
	if j.State != StateSucceeded {
		j.OutputRef = ""
	}
	if j.State != StateRetryWaiting && j.State != StateFailed && j.State != StateCancelled {
		j.Reason = ""
	}
	if !j.State.Terminal() {
		j.FinishedAt = time.Time{}
	}
	if j.Key == "" {
		j.KeyOrder = 0
	}
	if len(j.WaitingOn) == 0 {
		j.WaitingOn = nil
	}
	if len(j.AttemptsLog) == 0 {
		j.AttemptsLog = nil
	}
}

func (o *object) takeRecord(j *Job) {
	o.take("key_order", &j.KeyOrder)
	o.take("waiting_on", &j.WaitingOn)
	o.take("attempt", &j.Attempt)
	o.take("fence", &j.Fence)
	o.take("state", &j.State)
	o.take("worker_id", &j.WorkerID)
	o.takeTime("lease_expires_at", &j.LeaseExpiresAt)
	o.take("item_seq", &j.ItemSeq)
	o.takeRaw("progress", &j.Progress)
	o.take("output_ref", &j.OutputRef)
	o.take("reason", &j.Reason)
	o.takeTime("finished_at", &j.FinishedAt)
	o.takeTime("created_at", &j.CreatedAt)
	o.takeTime("updated_at", &j.UpdatedAt)
	o.take("attempts_log", &j.AttemptsLog)
	for i := range j.AttemptsLog {
		line := &j.AttemptsLog[i]
		o.putUTC("attempts_log", line.Started, &line.Started)
		o.putUTC("attempts_log", line.Ended, &line.Ended)
	}
}

// recordMembers are the members that only a record has. In a spec they are not
// unknown but misplaced: kept, they would stand in the record a second time.
var recordMembers = []string{
	"key_order", "waiting_on", "attempt", "fence", "state",
	"worker_id", "lease_expires_at", "item_seq", "progress",
	"output_ref", "reason", "finished_at", "created_at", "updated_at", "attempts_log",
}

// checkForm refuses a record that no transition could have written.
func (j *Job) checkForm() error {
	switch {
	case j.ID == "":
		return errors.New("id is missing")
	case j.State == "":
		return errors.New("state is missing")
	case !j.State.Known():
		return fmt.Errorf("state %s is unknown", quote(string(j.State)))
	case j.State == StateLeased && (j.WorkerID == "" || j.LeaseExpiresAt.IsZero()):
		return errors.New("a leased record needs worker_id and lease_expires_at")
	case j.Attempt < 0 || j.Fence < 0:
		return errors.New("attempt and fence must be nonnegative")
	}
	return nil
}

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
	if len(j.AttemptsLog) > 0 {
		w.value("attempts_log", j.AttemptsLog)
	}
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

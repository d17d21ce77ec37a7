package job

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"time"
)

// member is one JSON member that this version does not know.
type member struct {
	name string
	raw  json.RawMessage
}

func (o *object) takeTime(name string, dst *time.Time) {
	raw := o.find(name)
	if raw == nil || o.err != nil {
		return
	}
	var t time.Time
	if len(raw) > 2 && raw[0] == '"' && isPlain(raw[1:len(raw)-1]) && t.UnmarshalText(raw[1:len(raw)-1]) == nil {
		o.putUTC(name, t, dst)
		return
	}
	var text *string
	if err := json.Unmarshal(raw, &text); err != nil {
		o.err = fmt.Errorf("member %s: %w", name, plain(err))
		return
	}
	if text == nil {
		return
	}
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
	s.tidy()
}

// tidy clears lists that are empty, which are not written either.
func (s *Spec) tidy() {
	if len(s.Dependencies) == 0 {
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
	o.takeTrace(&read.Trace)
	read.unknown = o.rest()
	if o.err != nil {
		return fmt.Errorf("spec: %w", o.err)
	}
	*s = read
	return nil
}

// Decode reads a record, as UnmarshalJSON does. It is the quick way in:
// json.Unmarshal would read the text twice before it came here.
func Decode(data []byte) (Job, error) {
	var j Job
	err := j.UnmarshalJSON(data)
	return j, err
}

// UnmarshalJSON reads a record and refuses one whose state it does not know,
// since nothing could safely be done with it.
func (j *Job) UnmarshalJSON(data []byte) error {
	if read, ok := decodePlain(data); ok {
		*j = read
		return nil
	}
	o, err := parseObject(data)
	if err != nil {
		return fmt.Errorf("record: %w", err)
	}
	read, err := recordOf(o)
	if err != nil {
		return fmt.Errorf("record: %w", err)
	}
	*j = read
	return nil
}

func recordOf(o *object) (Job, error) {
	var j Job
	o.takeSpec(&j.Spec)
	o.takeRecord(&j)
	o.takeTrace(&j.Trace)
	j.unknown = o.rest()
	if o.err != nil {
		return Job{}, o.err
	}
	if err := j.checkForm(); err != nil {
		return Job{}, err
	}
	j.tidy()
	return j, nil
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

// specMembers are the members that a spec and a record share.
var specMembers = []string{
	"id", "stage", "input_ref", "input_revision", "dependencies", "on_dependency_failure", "key",
	"payload", "max_attempts", "priority", "timeout", "labels", "available_at",
	"traceparent", "tracestate",
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

package job

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"
	"unicode/utf8"
)

// DependencyPolicy is what becomes of a job when a dependency fails for good.
type DependencyPolicy string

// The dependency policies; the empty one means WaitOnFailure.
const (
	WaitOnFailure   DependencyPolicy = "wait"
	CancelOnFailure DependencyPolicy = "cancel"
)

// DefaultMaxAttempts is how often a job is tried when its spec does not say.
const DefaultMaxAttempts = 3

// Lanes of a stage, by priority: 1 has the greatest share of the workers. A spec's priority 0 means
// DefaultPriority.
const (
	HighestPriority = 1
	DefaultPriority = 3
	LowestPriority  = 4
)

// Spec is what a backend asks for. Its JSON has the record's member names; the
// members a Spec does not know are kept and end up in the record.
type Spec struct {
	ID            string // job id; fabric fills in a fresh one when empty
	Stage         string // which workers run it
	InputRef      string // where the input is; opaque to the fabric
	InputRevision int64  // which revision of the input

	Dependencies        []string         // ids that must have succeeded first
	OnDependencyFailure DependencyPolicy // wait (default) or cancel

	Key     string          // what the job is for; a newer job of the key supersedes it
	Payload json.RawMessage // small JSON for the handler, kept byte for byte

	MaxAttempts int64             // how often the job may be claimed before it fails
	Priority    int               // lane 1 (first) to 4; 0 is the default lane, 3
	Timeout     time.Duration     // limit of one attempt; 0 is none
	Labels      map[string]string // text to text, for people and filters
	AvailableAt time.Time         // not before; the zero time is now
	Trace       Trace             // the trace in which the job was asked for

	unknown []member
}

// Check refuses a spec that cannot become a job, with the first rule it breaks.
// The order of the rules is part of the wire: what a caller may leave empty is
// looked at first, names and sizes after.
func (s Spec) Check() error {
	switch {
	case s.ID == "":
		return Invalid("id must not be empty")
	case s.Stage == "":
		return Invalid("stage must not be empty")
	case s.InputRef == "":
		return Invalid("input_ref must not be empty")
	case s.InputRevision < 0:
		return Invalid("input_revision must be nonnegative")
	case s.MaxAttempts < 1:
		return Invalid("max_attempts must be positive")
	case !s.AvailableAt.IsZero() && s.AvailableAt.Before(epoch):
		return Invalid("available_at must be nonnegative")
	}
	return s.checkDetails()
}

// epoch is the earliest time a job may be available at.
var epoch = time.Unix(0, 0)

// latest is the last instant that RFC 3339 can write, less the room that
// deadlines reckoned from it need.
var latest = time.Date(9000, 1, 1, 0, 0, 0, 0, time.UTC)

func (s Spec) checkDetails() error {
	if err := CheckID(s.ID); err != nil {
		return err
	}
	if err := CheckStage(s.Stage); err != nil {
		return err
	}
	if err := s.checkDependencies(); err != nil {
		return err
	}
	switch {
	case s.OnDependencyFailure != "" && s.OnDependencyFailure != WaitOnFailure && s.OnDependencyFailure != CancelOnFailure:
		return Invalid("on_dependency_failure %s is neither wait nor cancel", quote(string(s.OnDependencyFailure)))
	case len(s.Key) > MaxKeyLength:
		return Invalid("key of %d bytes is longer than %d", len(s.Key), MaxKeyLength)
	case s.Priority < 0 || s.Priority > LowestPriority:
		return Invalid("priority %d is not within %d and %d", s.Priority, HighestPriority, LowestPriority)
	case s.Timeout < 0:
		return Invalid("timeout %s is negative; leave it out for no limit", s.Timeout)
	case s.AvailableAt.After(latest):
		return Invalid("available_at %s is too far ahead", s.AvailableAt.UTC().Format(time.RFC3339))
	case s.Payload != nil && !json.Valid(s.Payload):
		return Invalid("payload is not valid JSON")
	case !nestable(s.Payload):
		return Invalid("payload is nested too deeply to be part of a record")
	}
	if err := s.checkTexts(); err != nil {
		return err
	}
	if err := s.Trace.check(); err != nil {
		return err
	}
	if err := s.checkUnknown(); err != nil {
		return err
	}
	if size := len(s.AppendJSON(nil)); size > MaxSpecSize {
		return Invalid("spec of %d bytes is larger than %d; put the input where input_ref can name it", size, MaxSpecSize)
	}
	return nil
}

// nestable reports whether valid JSON is shallow enough to be read as a part of a
// record, and of an answer that holds the record: encoding/json refuses to read
// what is nested more than 10,000 deep, though it would have written it.
func nestable(raw json.RawMessage) bool {
	const around = 100
	if bytes.Count(raw, []byte("["))+bytes.Count(raw, []byte("{")) <= around {
		return true
	}
	nested := slices.Concat(bytes.Repeat([]byte("["), around), raw, bytes.Repeat([]byte("]"), around))
	return json.Valid(nested)
}

// checkTexts refuses texts that JSON would change on the way into the record.
func (s Spec) checkTexts() error {
	switch {
	case !utf8.ValidString(s.InputRef):
		return Invalid("input_ref %s is not valid UTF-8", quote(s.InputRef))
	case !utf8.ValidString(s.Key):
		return Invalid("key %s is not valid UTF-8", quote(s.Key))
	}
	for _, name := range slices.Sorted(maps.Keys(s.Labels)) {
		if !utf8.ValidString(name) || !utf8.ValidString(s.Labels[name]) {
			return Invalid("label %s is not valid UTF-8", quote(name))
		}
	}
	return nil
}

func (s Spec) checkUnknown() error {
	for _, m := range s.unknown {
		if slices.Contains(recordMembers, m.name) {
			return Invalid("%s is a member of the record and cannot be part of a spec", m.name)
		}
	}
	return nil
}

func (s Spec) checkDependencies() error {
	for i, id := range s.Dependencies {
		if err := CheckID(id); err != nil {
			return Invalid("dependency: %s", err.(*Error).Reason)
		}
		if id == s.ID {
			return Invalid("dependency %s is the job itself", quote(id))
		}
		if slices.Contains(s.Dependencies[:i], id) {
			return Invalid("dependency %s is named twice", quote(id))
		}
	}
	return nil
}

// Lane is the lane the job waits in: its priority, or the default one.
func (s Spec) Lane() int {
	if s.Priority == 0 {
		return DefaultPriority
	}
	return s.Priority
}

// UnknownMembers are the JSON members that the spec or record was read with and
// that this version does not know, sorted. A front end that takes specs from a
// person refuses them, since they are most likely misspelt.
func (s Spec) UnknownMembers() []string {
	names := make([]string, len(s.unknown))
	for i, m := range s.unknown {
		names[i] = m.name
	}
	return names
}

// Same reports whether the job was made from an equal spec, so that enqueueing
// it once more is a repeat and not a conflict. Times, defaults and the
// trace do not count, nor does the form of the JSON. An operator's retry grants one more attempt, so
// the record's max_attempts may have grown beyond the spec's, but by no more than
// the job was claimed, since each retry follows a failure.
func (s Spec) Same(j Job) bool {
	return s.ID == j.ID && s.Stage == j.Stage &&
		s.InputRef == j.InputRef && s.InputRevision == j.InputRevision &&
		slices.Equal(s.Dependencies, j.Dependencies) &&
		s.failurePolicy() == j.failurePolicy() &&
		s.Key == j.Key && sameJSON(s.Payload, j.Payload) &&
		s.MaxAttempts <= j.MaxAttempts && j.MaxAttempts-s.MaxAttempts <= j.Fence &&
		s.Lane() == j.Lane() && s.Timeout == j.Timeout && maps.Equal(s.Labels, j.Labels)
}

func (s Spec) failurePolicy() DependencyPolicy {
	if s.OnDependencyFailure == "" {
		return WaitOnFailure
	}
	return s.OnDependencyFailure
}

// sameJSON compares two JSON texts as values; numbers compare by their digits,
// and null is the same as none.
func sameJSON(a, b json.RawMessage) bool {
	return bytes.Equal(a, b) || canonical(a) == canonical(b)
}

func canonical(raw json.RawMessage) string {
	if len(raw) == 0 {
		return "null"
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return string(raw)
	}
	text, err := json.Marshal(value) // sorts the members of every object
	if err != nil {
		return string(raw)
	}
	return string(text)
}

// String shows what identifies the job, for logs.
func (s Spec) String() string { return fmt.Sprintf("%s/%s", s.Stage, s.ID) }

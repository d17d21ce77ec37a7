package job_test

// The rules of a spec: each is refused with its own one-line message, in a fixed
// order, and what passes them can be read back from the record.

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/weft-fabric/weft/job"
)

// nested is valid JSON that many arrays deep.
func nested(depth int) json.RawMessage {
	return json.RawMessage(strings.Repeat("[", depth) + strings.Repeat("]", depth))
}

// specRules are the rules of a spec, each by a change to the plain one.
var specRules = []struct {
	rule   string
	change func(*job.Spec)
	want   string
}{
	{"the plain spec", func(*job.Spec) {}, ""},
	{"id missing", func(s *job.Spec) { s.ID = "" }, "id must not be empty"},
	{"stage missing", func(s *job.Spec) { s.Stage = "" }, "stage must not be empty"},
	{"input missing", func(s *job.Spec) { s.InputRef = "" }, "input_ref must not be empty"},
	{"revision zero", func(s *job.Spec) { s.InputRevision = 0 }, ""},
	{"revision negative", func(s *job.Spec) { s.InputRevision = -1 }, "input_revision must be nonnegative"},
	{"one attempt", func(s *job.Spec) { s.MaxAttempts = 1 }, ""},
	{"no attempt", func(s *job.Spec) { s.MaxAttempts = 0 }, "max_attempts must be positive"},
	{"available at the epoch", func(s *job.Spec) { s.AvailableAt = time.Unix(0, 0) }, ""},
	{"available before the epoch", func(s *job.Spec) { s.AvailableAt = time.Unix(0, -1) }, "available_at must be nonnegative"},
	{"available in the last year", func(s *job.Spec) { s.AvailableAt = time.Date(9000, 1, 1, 0, 0, 0, 0, time.UTC) }, ""},
	{
		"available after the last year", func(s *job.Spec) { s.AvailableAt = time.Date(9000, 1, 1, 0, 0, 0, 1, time.UTC) },
		"available_at 9000-01-01T00:00:00Z is too far ahead",
	},
	{"id bad", func(s *job.Spec) { s.ID = "a b" }, `id "a b" is not 1 to 128 of A-Z a-z 0-9 _ = -`},
	{"stage bad", func(s *job.Spec) { s.Stage = "A" }, `stage "A" is not a-z or 0-9 followed by up to 63 of a-z 0-9 _ -`},

	{"dependencies", func(s *job.Spec) { s.Dependencies = []string{"a", "b"} }, ""},
	{"dependency empty", func(s *job.Spec) { s.Dependencies = []string{""} }, "dependency: id must not be empty"},
	{
		"dependency bad", func(s *job.Spec) { s.Dependencies = []string{"a", "b\n"} },
		`dependency: id "b\n" is not 1 to 128 of A-Z a-z 0-9 _ = -`,
	},
	{"dependency on itself", func(s *job.Spec) { s.Dependencies = []string{"jb_1"} }, `dependency "jb_1" is the job itself`},
	{"dependency twice", func(s *job.Spec) { s.Dependencies = []string{"a", "b", "a"} }, `dependency "a" is named twice`},
	{"policy wait", func(s *job.Spec) { s.OnDependencyFailure = job.WaitOnFailure }, ""},
	{"policy cancel", func(s *job.Spec) { s.OnDependencyFailure = job.CancelOnFailure }, ""},
	{
		"policy unknown", func(s *job.Spec) { s.OnDependencyFailure = "Cancel" },
		`on_dependency_failure "Cancel" is neither wait nor cancel`,
	},

	{"key at its longest", func(s *job.Spec) { s.Key = strings.Repeat("k", 256) }, ""},
	{"key of any text", func(s *job.Spec) { s.Key = "page/é 1.2 > *" }, ""},
	{"key too long", func(s *job.Spec) { s.Key = strings.Repeat("k", 257) }, "key of 257 bytes is longer than 256"},
	{"key not UTF-8", func(s *job.Spec) { s.Key = "\xff" }, `key "\xff" is not valid UTF-8`},
	{"input not UTF-8", func(s *job.Spec) { s.InputRef = "s3://\xff" }, `input_ref "s3://\xff" is not valid UTF-8`},
	{"label not UTF-8", func(s *job.Spec) { s.Labels = map[string]string{"a": "\xff"} }, `label "a" is not valid UTF-8`},
	{"label's name not UTF-8", func(s *job.Spec) { s.Labels = map[string]string{"\xff": "a"} }, `label "\xff" is not valid UTF-8`},
	{"priority default", func(s *job.Spec) { s.Priority = 0 }, ""},
	{"priority last", func(s *job.Spec) { s.Priority = 4 }, ""},
	{"priority beyond the last", func(s *job.Spec) { s.Priority = 5 }, "priority 5 is not within 1 and 4"},
	{"priority negative", func(s *job.Spec) { s.Priority = -1 }, "priority -1 is not within 1 and 4"},
	{"timeout longest", func(s *job.Spec) { s.Timeout = math.MaxInt64 }, ""},
	{"timeout negative", func(s *job.Spec) { s.Timeout = -time.Second }, "timeout -1s is negative; leave it out for no limit"},

	{"payload null", func(s *job.Spec) { s.Payload = json.RawMessage("null") }, ""},
	{"payload empty", func(s *job.Spec) { s.Payload = json.RawMessage{} }, "payload is not valid JSON"},
	{"payload cut", func(s *job.Spec) { s.Payload = json.RawMessage(`{"a":`) }, "payload is not valid JSON"},
	{"payload of two values", func(s *job.Spec) { s.Payload = json.RawMessage(`1,"state":2`) }, "payload is not valid JSON"},
	{"payload deep", func(s *job.Spec) { s.Payload = nested(9900) }, ""},
	{"payload too deep", func(s *job.Spec) { s.Payload = nested(9901) }, "payload is nested too deeply to be part of a record"},
}

func TestSpecCheck(t *testing.T) {
	t.Parallel()
	for _, tt := range specRules {
		t.Run(tt.rule, func(t *testing.T) {
			t.Parallel()
			spec := specWith(tt.change)
			wantInvalid(t, spec.Check(), tt.want)
			if tt.want == "" {
				readBack(t, spec)
			}
		})
	}
}

// readBack checks that a good spec survives the way into a record and out of it.
func readBack(t *testing.T, spec job.Spec) {
	t.Helper()
	record := mustNew(t, spec)
	if decoded := decodeJob(t, record.AppendJSON(nil)); !spec.Same(decoded) {
		t.Errorf("the stored record is of another spec: %s", record.AppendJSON(nil))
	}
}

func TestSpecCheckSaysTheFirstRuleBroken(t *testing.T) {
	t.Parallel()
	spec := job.Spec{InputRevision: -1, AvailableAt: time.Unix(-1, 0), Priority: 9, Key: strings.Repeat("k", 999)}
	fixes := []struct {
		want string
		fix  func()
	}{
		{"id must not be empty", func() { spec.ID = "a.b" }},
		{"stage must not be empty", func() { spec.Stage = "S" }},
		{"input_ref must not be empty", func() { spec.InputRef = "x" }},
		{"input_revision must be nonnegative", func() { spec.InputRevision = 0 }},
		{"max_attempts must be positive", func() { spec.MaxAttempts = 1 }},
		{"available_at must be nonnegative", func() { spec.AvailableAt = t0 }},
		{`id "a.b" is not 1 to 128 of A-Z a-z 0-9 _ = -`, func() { spec.ID = "a" }},
		{`stage "S" is not a-z or 0-9 followed by up to 63 of a-z 0-9 _ -`, func() { spec.Stage = "s" }},
		{"key of 999 bytes is longer than 256", func() { spec.Key = "" }},
		{"priority 9 is not within 1 and 4", func() { spec.Priority = 1 }},
	}
	for _, step := range fixes {
		wantInvalid(t, spec.Check(), step.want)
		step.fix()
	}
	wantInvalid(t, spec.Check(), "")
}

func TestSpecSizeIsBounded(t *testing.T) {
	t.Parallel()
	spec := plainSpec()
	room := job.MaxSpecSize - len(spec.AppendJSON(nil))
	spec.InputRef += strings.Repeat("x", room)
	wantInvalid(t, spec.Check(), "")
	spec.InputRef += "x"
	wantInvalid(t, spec.Check(), "spec of 131073 bytes is larger than 131072; put the input where input_ref can name it")
}

func TestSpecRefusesMembersOfTheRecord(t *testing.T) {
	t.Parallel()
	// A record's own members in a spec would stand in the record twice, and
	// whoever reads it would take the second.
	spec := decodeMap(t, plainSpec().AppendJSON(nil))
	for _, state := range job.States() {
		record := inState(t, state)
		record.Key, record.KeyOrder, record.ItemSeq, record.Progress = "k", 1, 1, json.RawMessage("1")
		record.WaitingOn = []string{"jb_2"}
		for name, value := range decodeMap(t, record.AppendJSON(nil)) {
			if _, shared := spec[name]; shared || name == "key" || name == "available_at" {
				continue
			}
			text, err := json.Marshal(map[string]any{
				"id": "jb_1", "stage": "build", "input_ref": "x", "max_attempts": 1, name: value,
			})
			if err != nil {
				t.Fatal(err)
			}
			want := name + " is a member of the record and cannot be part of a spec"
			wantInvalid(t, decodeSpec(t, string(text)).Check(), want)
		}
	}
}

func TestNewStartsWaiting(t *testing.T) {
	t.Parallel()
	spec := specWith(func(s *job.Spec) { s.Dependencies = []string{"a", "b"} })
	now := t0.In(time.FixedZone("far", 3*3600))
	j := must(t)(job.New(spec, now))
	if j.State != job.StateWaiting || j.Attempt != 0 || j.Fence != 0 || len(j.WaitingOn) != 2 {
		t.Errorf("a fresh job is %#v", j)
	}
	if j.AvailableAt != t0 || j.CreatedAt != t0 || j.UpdatedAt != t0 {
		t.Errorf("times are %s, %s, %s; want %s in UTC", j.AvailableAt, j.CreatedAt, j.UpdatedAt, t0)
	}
	spec.AvailableAt = at(60).In(time.Local)
	if j = must(t)(job.New(spec, now)); j.AvailableAt != at(60) {
		t.Errorf("available at %s, want %s", j.AvailableAt, at(60))
	}
}

func TestSpecLaneAndString(t *testing.T) {
	t.Parallel()
	for priority, lane := range map[int]int{0: 3, 1: 1, 3: 3, 4: 4} {
		if got := (job.Spec{Priority: priority}).Lane(); got != lane {
			t.Errorf("priority %d is in lane %d, want %d", priority, got, lane)
		}
	}
	if got := plainSpec().String(); got != "build/jb_1" {
		t.Errorf("String() = %q", got)
	}
}

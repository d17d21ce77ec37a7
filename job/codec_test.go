package job_test

// The wire form: what is written in each state, what is kept although it is not
// known, what survives byte for byte, and which records cannot be read.

import (
	"bytes"
	"encoding/json"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weft-fabric/weft/job"
)

// record is the text of a waiting record with one more piece of text in it.
func record(more string) string {
	return `{"id":"jb_1","stage":"build","input_ref":"x","max_attempts":3,"attempt":0,"fence":0,"state":"waiting"` + more + `}`
}

func TestRecordHoldsTheMembersOfItsState(t *testing.T) {
	t.Parallel()
	const common = "attempt attempts_log fence id input_ref input_revision key key_order max_attempts stage state"
	want := map[job.State]string{
		job.StateWaiting:      "available_at waiting_on",
		job.StateRetryWaiting: "available_at reason waiting_on",
		job.StateLeased:       "item_seq lease_expires_at progress worker_id",
		job.StateSucceeded:    "finished_at output_ref",
		job.StateFailed:       "finished_at reason",
		job.StateCancelled:    "finished_at reason",
	}
	for _, state := range job.States() {
		everything := `{"id":"jb_1","stage":"build","input_ref":"x","input_revision":1,"max_attempts":3,"attempt":1,"fence":1,
			"state":"` + string(state) + `","key":"k","key_order":5,"waiting_on":["jb_2"],"available_at":"2026-01-02T03:04:05Z",
			"worker_id":"rn_a","lease_expires_at":"2026-01-02T03:04:05Z","item_seq":9,"progress":{"done":1},"output_ref":"y",
			"reason":"why","finished_at":"2026-01-02T03:04:05Z","attempts_log":[{"number":1,"fence":1,"worker":"rn_a",
			"started":"2026-01-02T03:04:05Z"}]}`
		j := decodeJob(t, []byte(everything))
		text := j.AppendJSON(nil)
		members := strings.Fields(common + " " + want[state])
		slices.Sort(members)
		if got := slices.Sorted(maps.Keys(decodeMap(t, text))); !slices.Equal(got, members) {
			t.Errorf("%s: members %v,\nwant %v", state, got, members)
		}
		if again := decodeJob(t, text); !reflect.DeepEqual(again, j) {
			t.Errorf("%s: fields of other states are set: %#v", state, j)
		}
	}
}

func TestEmptyMembersAreNotWritten(t *testing.T) {
	t.Parallel()
	text := record(`,"key":"","key_order":9,"dependencies":[],"waiting_on":[],"labels":{},"priority":0,"timeout":"0s",
		"payload":null,"attempts_log":[],"on_dependency_failure":null,"available_at":null`)
	want := `{"id":"jb_1","stage":"build","input_ref":"x","input_revision":0,"max_attempts":3,"attempt":0,"fence":0,"state":"waiting"}`
	if got := string(decodeJob(t, []byte(text)).AppendJSON(nil)); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	want = `{"id":"jb_1","stage":"","input_ref":"","input_revision":0}`
	if got := string(job.Spec{ID: "jb_1"}.AppendJSON(nil)); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestFullSpecOnTheWire(t *testing.T) {
	t.Parallel()
	spec := job.Spec{
		ID: "jb_1", Stage: "build", InputRef: "s3://in/1", InputRevision: 7, Dependencies: []string{"jb_2"},
		OnDependencyFailure: job.CancelOnFailure, Key: "k", Payload: json.RawMessage(`{ "a": 1 }`), MaxAttempts: 5,
		Priority: 1, Timeout: 90 * time.Second, Labels: map[string]string{"b": "2", "a": "1"}, AvailableAt: at(0),
	}
	want := `{"id":"jb_1","stage":"build","input_ref":"s3://in/1","input_revision":7,"dependencies":["jb_2"],` +
		`"on_dependency_failure":"cancel","key":"k","payload":{ "a": 1 },"priority":1,"timeout":"1m30s",` +
		`"labels":{"a":"1","b":"2"},"max_attempts":5,"available_at":"2026-01-02T03:04:05Z"}`
	if got := string(spec.AppendJSON(nil)); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if again := decodeSpec(t, want); !reflect.DeepEqual(again, spec) {
		t.Errorf("read back as %#v", again)
	}
	if got := string(spec.AppendJSON([]byte("before "))); got != "before "+want {
		t.Errorf("appended as %s", got)
	}
}

func TestUnknownMembersAreKeptSorted(t *testing.T) {
	t.Parallel()
	const unknown = `,"Stage":"other","a":{ "z" : [1, 2.50, 1e400] },"null":null,"é":" <&>\u2028","\u003c":true,"":0`
	j := decodeJob(t, []byte(record(unknown)))
	want := []string{"", "<", "Stage", "a", "null", "é"}
	if got := j.UnknownMembers(); !slices.Equal(got, want) {
		t.Errorf("unknown members %q, want %q", got, want)
	}
	j, token := mustClaim(t, j, "rn_a", t0)
	j = must(t)(j.Complete(token, "rn_a", "y", at(1)))
	text := string(j.AppendJSON(nil))
	const tail = `,"":0,"<":true,"Stage":"other","a":{ "z" : [1, 2.50, 1e400] },"null":null,"é":" <&>\u2028"}`
	if !strings.HasSuffix(text, tail) {
		t.Errorf("got %s,\nwant the end %s", text, tail)
	}
	if again := decodeJob(t, []byte(text)); !slices.Equal(again.UnknownMembers(), want) || again.Stage != "build" {
		t.Errorf("read back with %q and stage %s", again.UnknownMembers(), again.Stage)
	}
}

func TestUnknownMembersOfASpecReachTheRecord(t *testing.T) {
	t.Parallel()
	spec := decodeSpec(t, `{"id":"jb_1","stage":"build","input_ref":"x","max_attempts":3,"zeta":1,"STATE":{"b": 2}}`)
	if got := spec.UnknownMembers(); !slices.Equal(got, []string{"STATE", "zeta"}) {
		t.Errorf("unknown members %q", got)
	}
	for _, text := range [][]byte{spec.AppendJSON(nil), mustNew(t, spec).AppendJSON(nil)} {
		if !bytes.HasSuffix(text, []byte(`,"STATE":{"b": 2},"zeta":1}`)) {
			t.Errorf("the unknown members are not at the end of %s", text)
		}
	}
	if got := plainSpec().UnknownMembers(); len(got) != 0 {
		t.Errorf("a plain spec has unknown members %q", got)
	}
}

func TestOfTwoMembersOfOneNameTheLastCounts(t *testing.T) {
	t.Parallel()
	j := decodeJob(t, []byte(record(`,"stage":"second","STAGE":"third","x":1,"x":2`)))
	if j.Stage != "second" || !slices.Equal(j.UnknownMembers(), []string{"STAGE", "x"}) {
		t.Errorf("stage %s, unknown %q", j.Stage, j.UnknownMembers())
	}
	if text := string(j.AppendJSON(nil)); strings.Count(text, `"stage"`) != 1 || !strings.HasSuffix(text, `"STAGE":"third","x":2}`) {
		t.Errorf("written as %s", text)
	}
}

func TestPayloadIsKeptByteForByte(t *testing.T) {
	t.Parallel()
	payloads := []string{
		`{}`, `[ ]`, `0`, `-0.0`, `1E+2`, `123456789012345678901234567890`, `""`, `false`,
		`{ "b" : 1,` + "\n\t" + `"a" : [ ] }`, `"<a href='x'>&amp;"`, "\"\u2028\u2029\"", `"\u003c\/\ud83d\ude00"`,
		`{"a":1,"a":2}`, `"\ud800"`, "\"\xff\"", `{"id":"another","state":"failed"}`, `[null]`,
	}
	for _, want := range payloads {
		j := mustNew(t, specWith(payload(want)))
		j, _ = mustClaim(t, j, "rn_a", t0)
		j.Progress = json.RawMessage(want)
		again := decodeJob(t, j.AppendJSON(nil))
		if string(again.Payload) != want || string(again.Progress) != want {
			t.Errorf("payload %s became %s, progress %s", want, again.Payload, again.Progress)
		}
	}
}

func TestTextsSurvive(t *testing.T) {
	t.Parallel()
	texts := []string{
		"plain", `"quoted" \ back`, "<script>&'", "line\nfeed\ttab\r\b\f", "\x00\x01\x1f\x7f", "\u2028\u2029", "é漢😀", "\uFFFD\uFEFF",
	}
	for _, text := range texts {
		spec := specWith(func(s *job.Spec) {
			s.InputRef, s.Key, s.Labels = text, text, map[string]string{text: text}
		})
		j := mustNew(t, spec)
		j, token := mustClaim(t, j, text, t0)
		j = must(t)(j.Fail(token, text, text, at(1), 0))
		encoded := j.AppendJSON(nil)
		if again := decodeJob(t, encoded); !reflect.DeepEqual(again, j) {
			t.Errorf("%q: read back as %#v from %s", text, again, encoded)
		}
		if !json.Valid(encoded) {
			t.Errorf("%q: not JSON: %s", text, encoded)
		}
	}
}

func TestTimesAreReadAsInstants(t *testing.T) {
	t.Parallel()
	const want = "2026-01-02T03:04:05.000000001Z"
	for _, text := range []string{want, "2026-01-02T05:34:05.000000001+02:30", "2026-01-01T23:04:05.000000001000-04:00"} {
		j := decodeJob(t, []byte(record(`,"available_at":"`+text+`","attempts_log":[{"started":"`+text+`"}]`)))
		if j.AvailableAt.Format(time.RFC3339Nano) != want || j.AttemptsLog[0].Started != j.AvailableAt {
			t.Errorf("%s was read as %s and %s", text, j.AvailableAt, j.AttemptsLog[0].Started)
		}
	}
}

// unreadable are texts that are no records, and what is said of them.
var unreadable = []struct{ rule, text, want string }{
	{"nothing", ``, "unexpected end of JSON input"},
	{"cut off", record("")[:50], "unexpected end of JSON input"},
	{"null", `null`, "record: not a JSON object"},
	{"an array", `[{}]`, "record: not a JSON object"},
	{"a string", `"waiting"`, "record: not a JSON object"},
	{"two objects", `{}{}`, "invalid character '{' after top-level value"},
	{"no id", `{"state":"waiting"}`, "record: id is missing"},
	{"no state", `{"id":"a"}`, "record: state is missing"},
	{"state null", `{"id":"a","state":null}`, "record: state is missing"},
	{"state unknown", record(`,"state":"paused"`), `record: state "paused" is unknown`},
	{"state in capitals", record(`,"state":"Waiting"`), `record: state "Waiting" is unknown`},
	{"state long", record(`,"state":"` + strings.Repeat("x", 999) + `"`), `record: state "` + strings.Repeat("x", 80) + `"... is unknown`},
	{"state a number", record(`,"state":1`), "record: member state: a JSON number is not of the right type, it must be a string"},
	{"stage an array", record(`,"stage":[]`), "record: member stage: a JSON array is not of the right type, it must be a string"},
	{"fence a string", record(`,"fence":"1"`), "record: member fence: a JSON string is not of the right type, it must be a whole number"},
	{"fence a fraction", record(`,"fence":1.5`), "record: member fence: a JSON number 1.5 is not of the right type, it must be a whole number"},
	{
		"fence too great", record(`,"fence":9223372036854775808`),
		"record: member fence: a JSON number 9223372036854775808 is not of the right type, it must be a whole number",
	},
	{
		"fence of endless digits", record(`,"fence":1` + strings.Repeat("0", 999)),
		"record: member fence: a JSON number 1" + strings.Repeat("0", 72) + " is not of the right type, it must be a whole number",
	},
	{"fence negative", record(`,"fence":-1`), "record: attempt and fence must be nonnegative"},
	{"attempt negative", record(`,"attempt":-1`), "record: attempt and fence must be nonnegative"},
	{"labels an array", record(`,"labels":[]`), "record: member labels: a JSON array is not of the right type, it must be an object"},
	{"labels of numbers", record(`,"labels":{"a":1}`), "record: member labels: a JSON number is not of the right type, it must be a string"},
	{"dependencies a string", record(`,"dependencies":"a"`), "record: member dependencies: a JSON string is not of the right type, it must be an array"},
	{"history of strings", record(`,"attempts_log":["a"]`), "record: member attempts_log: a JSON string is not of the right type, it must be an object"},
	{"leased by nobody", `{"id":"a","state":"leased","lease_expires_at":"2026-01-02T03:04:05Z"}`, "record: a leased record needs worker_id and lease_expires_at"},
	{"leased for ever", `{"id":"a","state":"leased","worker_id":"rn_a"}`, "record: a leased record needs worker_id and lease_expires_at"},
	{"a time in words", record(`,"created_at":"yesterday"`), `record: member created_at: "yesterday" is not a time such as 2006-01-02T15:04:05Z`},
	{"a time without a zone", record(`,"created_at":"2026-01-02T03:04:05"`), `record: member created_at: "2026-01-02T03:04:05" is not a time such as 2006-01-02T15:04:05Z`},
	{"a time as a number", record(`,"created_at":17`), "record: member created_at: a JSON number is not of the right type, it must be a string"},
	{"a time beyond its year", record(`,"created_at":"9999-12-31T23:59:59-01:00"`), "record: member created_at: the year 10000 in UTC is not within 0 and 9999"},
	{"a time before its year", record(`,"attempts_log":[{"started":"0000-01-01T00:00:00+01:00"}]`), "record: member attempts_log: the year -1 in UTC is not within 0 and 9999"},
	{"a timeout without a unit", record(`,"timeout":"30"`), `record: member timeout: "30" is not a Go duration such as 1m30s`},
	{"a timeout as a number", record(`,"timeout":30`), "record: member timeout: a JSON number is not of the right type, it must be a string"},
}

func TestRecordsThatCannotBeRead(t *testing.T) {
	t.Parallel()
	for _, tt := range unreadable {
		t.Run(tt.rule, func(t *testing.T) {
			t.Parallel()
			j := job.Job{Spec: job.Spec{ID: "before"}}
			err := json.Unmarshal([]byte(tt.text), &j)
			if err == nil || err.Error() != tt.want {
				t.Errorf("got %v,\nwant %s", err, tt.want)
			}
			if j.ID != "before" {
				t.Error("the job that was read into has changed")
			}
		})
	}
}

func TestSpecsThatCannotBeRead(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`null`:              "spec: not a JSON object",
		`{"stage":1}`:       "spec: member stage: a JSON number is not of the right type, it must be a string",
		`{"timeout":"1 s"}`: `spec: member timeout: "1 s" is not a Go duration such as 1m30s`,
	} {
		var s job.Spec
		if err := json.Unmarshal([]byte(text), &s); err == nil || err.Error() != want {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
}

func TestLargestNumbersSurvive(t *testing.T) {
	t.Parallel()
	j := inState(t, job.StateLeased)
	j.Key, j.KeyOrder, j.ItemSeq = "k", math.MinInt64, math.MaxUint64
	j.InputRevision, j.MaxAttempts, j.Attempt, j.Fence = math.MaxInt64, math.MaxInt64, math.MaxInt64, math.MaxInt64
	j.Timeout = math.MaxInt64
	if again := decodeJob(t, j.AppendJSON(nil)); !reflect.DeepEqual(again, j) {
		t.Errorf("read back as %#v", again)
	}
}

func TestMarshalJSONHoldsTheSameMembers(t *testing.T) {
	t.Parallel()
	j := mustNew(t, specWith(payload(`{ "a" : "<" }`)))
	for _, value := range []interface {
		json.Marshaler
		AppendJSON([]byte) []byte
	}{j, j.Spec} {
		wrapped, err := json.Marshal(map[string]any{"in": value})
		if err != nil {
			t.Fatal(err)
		}
		if got := decodeMap(t, wrapped)["in"]; !reflect.DeepEqual(got, any(decodeMap(t, value.AppendJSON(nil)))) {
			t.Errorf("%T inside another value: %v", value, got)
		}
	}
}

package job_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/weft-fabric/weft/job"
)

const traceParent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

func TestTraceOfTakesWhatIsWellFormed(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		parent, state string
		want          job.Trace
	}{
		"none":               {"", "", job.Trace{}},
		"parent":             {traceParent, "", job.Trace{Parent: traceParent}},
		"both":               {" " + traceParent + " ", "a=1,b=\"2\"", job.Trace{Parent: traceParent, State: "a=1,b=\"2\""}},
		"state alone":        {"", "a=1", job.Trace{}},
		"state is too long":  {traceParent, strings.Repeat("a", 513), job.Trace{Parent: traceParent}},
		"state is not ASCII": {traceParent, "a=ä", job.Trace{Parent: traceParent}},
		"upper case":         {strings.ToUpper(traceParent), "", job.Trace{}},
		"no trace id":        {"00-" + strings.Repeat("0", 32) + "-b7ad6b7169203331-01", "", job.Trace{}},
		"no parent id":       {"00-0af7651916cd43dd8448eb211c80319c-" + strings.Repeat("0", 16) + "-01", "", job.Trace{}},
		"version ff":         {"ff" + traceParent[2:], "", job.Trace{}},
		"later version":      {"01" + traceParent[2:] + "-more", "", job.Trace{Parent: "01" + traceParent[2:] + "-more"}},
		"longer than 00":     {traceParent + "-more", "", job.Trace{}},
		"far too long":       {"01" + traceParent[2:] + "-" + strings.Repeat("a", 100), "", job.Trace{}},
		"cut":                {traceParent[:54], "", job.Trace{}},
		"other dashes":       {strings.ReplaceAll(traceParent, "-", "_"), "", job.Trace{}},
	} {
		if got := job.TraceOf(test.parent, test.state); got != test.want {
			t.Errorf("%s: got %+v, want %+v", name, got, test.want)
		}
	}
}

func TestTraceOfASpecIsChecked(t *testing.T) {
	t.Parallel()
	for text, trace := range map[string]job.Trace{
		"traceparent": {Parent: "x"},
		"without":     {State: "a=1"},
		"longer than": {Parent: traceParent, State: strings.Repeat("a", 513)},
		"ASCII":       {Parent: traceParent, State: "ä"},
	} {
		_, err := job.New(job.Spec{ID: "a", Stage: "s", InputRef: "r", MaxAttempts: 1, Trace: trace}, time.Unix(1, 0))
		if !errors.Is(err, job.ErrInvalidJob) || !strings.Contains(err.Error(), text) {
			t.Errorf("%+v: %v", trace, err)
		}
	}
}

// The trace stays what it is through every transition of the record, and is part
// of neither the spec's identity nor its unknown members.
func TestTraceLivesInTheRecord(t *testing.T) {
	t.Parallel()
	var spec job.Spec
	text := `{"id":"a","stage":"s","input_ref":"r","max_attempts":1,"traceparent":"` + traceParent + `","tracestate":"a=1","other":2}`
	if err := json.Unmarshal([]byte(text), &spec); err != nil {
		t.Fatal(err)
	}
	if got := spec.UnknownMembers(); len(got) != 1 || got[0] != "other" {
		t.Errorf("unknown members are %q", got)
	}
	now := time.Unix(100, 0).UTC()
	j, err := job.New(spec, now)
	if err != nil {
		t.Fatal(err)
	}
	j, token, err := j.Claim("w", now, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if j, err = j.Fail(token, "w", "no", now, 0); err != nil {
		t.Fatal(err)
	}
	if j, err = j.Retry(j.Fence, "once more", now); err != nil {
		t.Fatal(err)
	}
	again, err := job.Decode(j.AppendJSON(nil))
	if err != nil {
		t.Fatal(err)
	}
	if want := (job.Trace{Parent: traceParent, State: "a=1"}); again.Trace != want {
		t.Errorf("the record has %+v, want %+v", again.Trace, want)
	}
	spec.Trace = job.Trace{}
	if !spec.Same(again) {
		t.Error("another trace makes another spec")
	}
}

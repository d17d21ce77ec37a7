package job_test

// Fuzzing of everything that is read from the wire. Nothing panics; whatever
// decodes is written as valid JSON, reads back as an equal value, and is then
// written as the same bytes.

import (
	"bytes"
	"encoding/json"
	"os"
	"reflect"
	"testing"

	"github.com/weft-fabric/weft/job"
)

// seedVectors adds the jobs, or tokens, of some of the transition vectors.
func seedVectors(f *testing.F, member string) {
	f.Helper()
	text, err := os.ReadFile("testdata/transitions.jsonl")
	if err != nil {
		f.Fatal(err)
	}
	for i, line := range bytes.SplitAfterN(text, []byte("\n"), 41) {
		var v struct{ Args map[string]json.RawMessage }
		if i < 40 && json.Unmarshal(line, &v) == nil && v.Args[member] != nil {
			f.Add([]byte(v.Args[member]))
		}
	}
}

// seedTexts are pieces of JSON that have their own way through the decoders.
var seedTexts = []string{
	`null`, `[]`, `{}`, `{"a":{}}`, "\xff",
	record(`,"payload":{ "a" : "<\u2028" },"Stage":1,"x":null,"":[]`),
	record(`,"state":"leased","worker_id":"rn_a","lease_expires_at":"2026-01-02T03:04:05+01:00","progress":0,"item_seq":1`),
	record(`,"state":"failed","reason":"\u0000\ud800","attempts_log":[{"number":1,"ended":"2026-01-02T03:04:05.1-23:59"},null]`),
	record(`,"key":"k","key_order":-1,"timeout":"1h0.5s","labels":{"a":null},"dependencies":[null]`),
	record(`,"worker_id":"rn_a","progress":1,"output_ref":"y","reason":"why","finished_at":"2026-01-02T03:04:05Z","key_order":1`),
	record(`,"available_at":"9999-12-31T23:59:59-01:00"`),
	record(`,"available_at":"0000-01-01T00:00:00+01:00"`),
	record(`,"available_at":"0001-01-01T01:00:00+01:00"`),
}

func FuzzJobDecode(f *testing.F) {
	seedVectors(f, "job")
	for _, text := range seedTexts {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var j job.Job
		if j.UnmarshalJSON(text) != nil {
			if !reflect.DeepEqual(j, job.Job{}) {
				t.Fatalf("a record that cannot be read left %#v", j)
			}
			return
		}
		encoded := j.AppendJSON(nil)
		if !json.Valid(encoded) {
			t.Fatalf("written as %q", encoded)
		}
		checkReadBack(t, j)
		if again := decodeJob(t, encoded); !reflect.DeepEqual(again, j) {
			t.Fatalf("read back %#v, want %#v", again, j)
		}
		if _, err := json.Marshal(j); err != nil {
			t.Fatalf("marshal: %v", err)
		}
		runTransitions(t, j)
	})
}

// runTransitions takes a record from anywhere one step further.
func runTransitions(t *testing.T, j job.Job) {
	watched, untouched := watch(j)
	token := watched.Token()
	steps := []func() (job.Job, error){
		func() (job.Job, error) { next, _, err := watched.Claim("rn_z", t0, lease); return next, err },
		func() (job.Job, error) {
			next, _, err := watched.Renew(token, token.WorkerID, t0, lease)
			return next, err
		},
		func() (job.Job, error) { return watched.Complete(token, token.WorkerID, "x", t0) },
		func() (job.Job, error) { return watched.Return(token, token.WorkerID, "why", t0, 0) },
		func() (job.Job, error) { return watched.Expire(watched.Fence, t0) },
		func() (job.Job, error) { return watched.Cancel(watched.Fence, "why", t0) },
		func() (job.Job, error) { return watched.Retry(watched.Fence, "why", t0) },
	}
	for _, step := range steps {
		if next, err := step(); err == nil {
			checkReadBack(t, next)
		}
	}
	if !untouched() {
		t.Fatal("a transition changed its receiver")
	}
}

func FuzzSpecDecode(f *testing.F) {
	f.Add([]byte(`{"id":"a","stage":"s","input_ref":"x","max_attempts":1,"payload":[ 1 ],"labels":{"a":"b"},"more":1}`))
	f.Add([]byte(`{"id":"a","stage":"s","input_ref":"x","max_attempts":1,"state":"failed","fence":5}`))
	f.Add([]byte(`{"id":"a","stage":"s","input_ref":"x","max_attempts":1,"timeout":"-2562047h47m16.854775808s"}`))
	for _, text := range seedTexts {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var spec job.Spec
		if spec.UnmarshalJSON(text) != nil {
			return
		}
		encoded := spec.AppendJSON(nil)
		if !json.Valid(encoded) {
			t.Fatalf("written as %q", encoded)
		}
		again := decodeSpec(t, string(encoded))
		if !reflect.DeepEqual(again, spec) {
			t.Fatalf("read back %#v, want %#v", again, spec)
		}
		if got := again.AppendJSON(nil); !bytes.Equal(got, encoded) {
			t.Fatalf("written again as %s, was %s", got, encoded)
		}
		if spec.Check() == nil {
			j := mustNew(t, spec)
			checkReadBack(t, j)
			if !spec.Same(j) {
				t.Fatal("the job counts as made from another spec")
			}
		}
	})
}

func FuzzTokenDecode(f *testing.F) {
	seedVectors(f, "token")
	f.Add([]byte(`{"JOB_ID":"a","fence":-1,"expires_at":"9999-12-31T23:59:59.999999999-23:59","x":1}`))
	f.Add([]byte(`{"job_id":"\ud800<","expires_at":null}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var token, again job.Token
		if json.Unmarshal(text, &token) != nil {
			return
		}
		encoded, err := json.Marshal(token)
		if err != nil {
			t.Fatalf("%+v: %v", token, err)
		}
		if err := json.Unmarshal(encoded, &again); err != nil {
			t.Fatalf("%s: %v", encoded, err)
		}
		if got, err := json.Marshal(again); err != nil || !bytes.Equal(got, encoded) {
			t.Fatalf("written again as %s, %v, was %s", got, err, encoded)
		}
		if !again.ExpiresAt.Equal(token.ExpiresAt) {
			t.Fatalf("expires at %s, want %s", again.ExpiresAt, token.ExpiresAt)
		}
		again.ExpiresAt = token.ExpiresAt
		if again != token {
			t.Fatalf("read back %#v, want %#v", again, token)
		}
	})
}

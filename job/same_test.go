package job_test

// Spec.Same: enqueueing a job once more is a repeat if the spec means the same,
// however it is written and whatever has become of the job; else a conflict.

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/weft-fabric/weft/job"
)

func payload(text string) func(*job.Spec) {
	return func(s *job.Spec) { s.Payload = json.RawMessage(text) }
}

func nothing(*job.Spec) {}

func labels(m map[string]string) func(*job.Spec) { return func(s *job.Spec) { s.Labels = m } }

// sameRules say which changes to a spec make it another one.
var sameRules = []struct {
	rule        string
	made, again func(*job.Spec)
	want        bool
}{
	{"an equal spec repeats", nothing, nothing, true},
	{"another id conflicts", nothing, func(s *job.Spec) { s.ID = "jb_2" }, false},
	{"another stage conflicts", nothing, func(s *job.Spec) { s.Stage = "test" }, false},
	{"another input conflicts", nothing, func(s *job.Spec) { s.InputRef = "s3://in/2" }, false},
	{"another revision conflicts", nothing, func(s *job.Spec) { s.InputRevision = 8 }, false},
	{"another key conflicts", nothing, func(s *job.Spec) { s.Key = "k" }, false},
	{"another timeout conflicts", nothing, func(s *job.Spec) { s.Timeout = time.Minute }, false},
	{"more attempts conflict", nothing, func(s *job.Spec) { s.MaxAttempts = 4 }, false},
	{"fewer attempts conflict", nothing, func(s *job.Spec) { s.MaxAttempts = 2 }, false},
	{"another time repeats", nothing, func(s *job.Spec) { s.AvailableAt = at(99) }, true},

	{"the default policy repeats", nothing, func(s *job.Spec) { s.OnDependencyFailure = job.WaitOnFailure }, true},
	{"another policy conflicts", nothing, func(s *job.Spec) { s.OnDependencyFailure = job.CancelOnFailure }, false},
	{"the default lane repeats", nothing, func(s *job.Spec) { s.Priority = job.DefaultPriority }, true},
	{"another lane conflicts", nothing, func(s *job.Spec) { s.Priority = 1 }, false},
	{"no dependencies repeat", nothing, func(s *job.Spec) { s.Dependencies = []string{} }, true},
	{
		"dependencies in another order conflict",
		func(s *job.Spec) { s.Dependencies = []string{"a", "b"} },
		func(s *job.Spec) { s.Dependencies = []string{"b", "a"} }, false,
	},

	{"no labels repeat", nothing, labels(map[string]string{}), true},
	{"equal labels repeat", labels(map[string]string{"a": "1", "b": "2"}), labels(map[string]string{"b": "2", "a": "1"}), true},
	{"another label conflicts", labels(map[string]string{"a": "1"}), labels(map[string]string{"a": "2"}), false},
	{"one label more conflicts", nothing, labels(map[string]string{"a": ""}), false},

	{"payload in another form repeats", payload(`{"a":1,"b":[2]}`), payload("{ \"b\": [ 2 ],\n\"a\": 1 }"), true},
	{"payload with other escapes repeats", payload(`"é<"`), payload(`"\u00e9\u003c"`), true},
	{"payload of another value conflicts", payload(`{"a":1}`), payload(`{"a":2}`), false},
	{"payload of another type conflicts", payload(`1`), payload(`"1"`), false},
	{"payload in another order conflicts", payload(`[1,2]`), payload(`[2,1]`), false},
	{"long numbers compare by their digits", payload(`9007199254740993`), payload(`9007199254740992`), false},
	{"payload missing conflicts", payload(`{}`), nothing, false},
	{"payload null is none", payload(`null`), nothing, true},
	{"none is payload null", nothing, payload(` null `), true},
}

func TestSame(t *testing.T) {
	t.Parallel()
	for _, tt := range sameRules {
		t.Run(tt.rule, func(t *testing.T) {
			t.Parallel()
			made := mustNew(t, specWith(tt.made))
			stored := decodeJob(t, made.AppendJSON(nil))
			again := specWith(tt.again)
			if got := again.Same(made); got != tt.want {
				t.Errorf("with the record that was made: %t, want %t", got, tt.want)
			}
			if got := again.Same(stored); got != tt.want {
				t.Errorf("with the record that was stored: %t, want %t", got, tt.want)
			}
		})
	}
}

func TestSameWhateverBecameOfTheJob(t *testing.T) {
	t.Parallel()
	for _, state := range job.States() {
		if j := inState(t, state); !plainSpec().Same(j) {
			t.Errorf("the spec of a %s job counts as another", state)
		}
	}
}

func TestSameAfterAnOperatorsRetry(t *testing.T) {
	t.Parallel()
	// Failed for good at its first attempt of three, then retried twice.
	j := inState(t, job.StateFailed)
	j = must(t)(j.Retry(j.Fence, "fixed", at(2)))
	check := func(step string) {
		t.Helper()
		if !plainSpec().Same(j) {
			t.Errorf("%s: the spec that the job was made from counts as another", step)
		}
		if more := specWith(func(s *job.Spec) { s.MaxAttempts = j.MaxAttempts + 1 }); more.Same(j) {
			t.Errorf("%s: a spec of more attempts counts as the same", step)
		}
	}
	check("retried")
	j, token := mustClaim(t, j, "rn_a", at(3))
	check("claimed")
	j = must(t)(j.FailPermanently(token, "rn_a", "again", at(4)))
	j = must(t)(j.Retry(j.Fence, "fixed", at(5)))
	check("retried twice")
	j, token = mustClaim(t, j, "rn_a", at(6))
	j = must(t)(j.Release(token, "rn_a", at(7)))
	check("released")
	if fewer := specWith(func(s *job.Spec) { s.MaxAttempts = 1 }); fewer.Same(j) {
		t.Error("a spec of fewer attempts than any retry explains counts as the same")
	}
}

package job_test

// The helpers that the other test files share: a plain spec, the first steps of
// a job, and watch, which proves that a transition left its receiver alone.

import (
	"encoding/json"
	"errors"
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weft-fabric/weft/job"
)

// t0 is the time at which the jobs of the tests are made.
var t0 = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

const lease = 30 * time.Second

// seconds after t0.
func at(seconds int) time.Time { return t0.Add(time.Duration(seconds) * time.Second) }

func plainSpec() job.Spec {
	return job.Spec{ID: "jb_1", Stage: "build", InputRef: "s3://in/1", InputRevision: 7, MaxAttempts: 3}
}

// specWith is the plain spec after a change.
func specWith(change func(*job.Spec)) job.Spec {
	spec := plainSpec()
	change(&spec)
	return spec
}

func mustNew(t rapid.TB, spec job.Spec) job.Job {
	t.Helper()
	j, err := job.New(spec, t0)
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	return j
}

func mustClaim(t rapid.TB, j job.Job, worker string, now time.Time) (job.Job, job.Token) {
	t.Helper()
	j, token, err := j.Claim(worker, now, lease)
	if err != nil {
		t.Fatalf("Claim: %v", err)
	}
	return j, token
}

// must passes on a transition that has to succeed.
func must(t rapid.TB) func(job.Job, error) job.Job {
	return func(j job.Job, err error) job.Job {
		t.Helper()
		if err != nil {
			t.Fatalf("refused: %v", err)
		}
		return j
	}
}

// inState brings a job that may be tried three times into a state, by its
// shortest way.
func inState(t rapid.TB, state job.State) job.Job {
	t.Helper()
	waiting := mustNew(t, plainSpec())
	leased, token := mustClaim(t, waiting, "rn_a", t0)
	switch state {
	case job.StateWaiting:
		return waiting
	case job.StateRetryWaiting:
		return must(t)(leased.Fail(token, "rn_a", "boom", at(1), time.Second))
	case job.StateLeased:
		return leased
	case job.StateSucceeded:
		return must(t)(leased.Complete(token, "rn_a", "s3://out/1", at(1)))
	case job.StateFailed:
		return must(t)(leased.FailPermanently(token, "rn_a", "bad input", at(1)))
	case job.StateCancelled:
		return must(t)(leased.Cancel(leased.Fence, "operator", at(1)))
	}
	t.Fatalf("state %s is unknown", state)
	return job.Job{}
}

func decodeJob(t rapid.TB, text []byte) job.Job {
	t.Helper()
	var j job.Job
	if err := json.Unmarshal(text, &j); err != nil {
		t.Fatalf("decode %s: %v", text, err)
	}
	return j
}

func decodeSpec(t rapid.TB, text string) job.Spec {
	t.Helper()
	var s job.Spec
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		t.Fatalf("decode %s: %v", text, err)
	}
	return s
}

// decodeMap reads a JSON object as the values it holds.
func decodeMap(t testing.TB, text []byte) map[string]any {
	t.Helper()
	var values map[string]any
	if err := json.Unmarshal(text, &values); err != nil {
		t.Fatalf("decode %s: %v", text, err)
	}
	return values
}

// refusal is the job error in err; the test fails if there is none.
func refusal(t rapid.TB, err error) *job.Error {
	t.Helper()
	refused, ok := errors.AsType[*job.Error](err)
	if !ok {
		t.Fatalf("got error %v, want a *job.Error", err)
	}
	return refused
}

// wantCode checks that err is a job error of the code, or nil for no code.
func wantCode(t rapid.TB, err error, code job.Code) {
	t.Helper()
	switch {
	case code == "" && err != nil:
		t.Errorf("refused with %v, want success", err)
	case code != "" && !errors.Is(err, &job.Error{Code: code}):
		t.Errorf("got error %v, want %s", err, code)
	}
}

// watch gives the slices of j spare room filled with marks, and a function that
// tells whether j and the marks are untouched. A transition that appends in
// place, or edits what it shares with its receiver, is seen by it.
func watch(j job.Job) (job.Job, func() bool) {
	j.Dependencies = roomy(j.Dependencies, "mark")
	j.WaitingOn = roomy(j.WaitingOn, "mark")
	j.Payload = roomy(j.Payload, '#')
	j.Progress = roomy(j.Progress, '#')
	j.AttemptsLog = roomy(j.AttemptsLog, job.Attempt{Reason: "mark"})
	before := wholeCopy(j)
	return j, func() bool { return reflect.DeepEqual(wholeCopy(j), before) }
}

func roomy[S ~[]E, E any](s S, mark E) S {
	if s == nil {
		return nil
	}
	room := append(make(S, 0, len(s)+2), s...)
	return append(room, mark, mark)[:len(s)]
}

// wholeCopy copies j deeply, with its slices up to their capacity.
func wholeCopy(j job.Job) job.Job {
	j.Dependencies = slices.Clone(j.Dependencies[:cap(j.Dependencies)])
	j.WaitingOn = slices.Clone(j.WaitingOn[:cap(j.WaitingOn)])
	j.Payload = slices.Clone(j.Payload[:cap(j.Payload)])
	j.Progress = slices.Clone(j.Progress[:cap(j.Progress)])
	j.AttemptsLog = slices.Clone(j.AttemptsLog[:cap(j.AttemptsLog)])
	j.Labels = maps.Clone(j.Labels)
	return j
}

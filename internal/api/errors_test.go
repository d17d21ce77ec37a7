package api_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weft-fabric/weft/fabric"
	"github.com/weft-fabric/weft/internal/api"
	"github.com/weft-fabric/weft/internal/natstest"
	"github.com/weft-fabric/weft/job"
	"github.com/weft-fabric/weft/kv"
)

func (s *site) eventually(what string, ok func() bool) {
	s.t.Helper()
	natstest.Eventually(s.t, patience, what, ok)
}

func noErrors(e fabric.Enqueued) error { return e.Err }

// breakRecord puts something under a job's id that is no record.
func (s *site) breakRecord(id string) {
	s.t.Helper()
	js, err := jetstream.New(s.nc)
	if err != nil {
		s.t.Fatal(err)
	}
	if _, err := js.Publish(s.t.Context(), "$KV.weft."+kv.JobKey(id), []byte("{")); err != nil {
		s.t.Fatal(err)
	}
}

func TestRefusals(t *testing.T) {
	s := newSite(t)
	s.start()
	s.enqueue("a")
	s.breakRecord("broken")
	for _, id := range []string{"get", "cancel", "retry"} {
		if f := s.refused("missing_job", id, o{"id": "none"}); f.JobID != "none" {
			t.Errorf("%s: %+v", id, f)
		}
	}
	s.refused("missing_job", "wait", o{"id": "none", "wait": "1m"})
	s.refused("missing_job", "wait", o{"id": "none", "wait": "0s"})
	s.refused("unreadable_record", "get", o{"id": "broken"}, "broken")
	s.refused("unreadable_record", "cancel", o{"id": "broken"}, "broken")
	s.refused("duplicate_job", "enqueue", o{"id": "a", "stage": "hash", "input_ref": "data:,y"}, "a", "another spec")
	if f := s.refused("missing_dependency", "enqueue", o{"id": "b", "stage": "hash", "input_ref": "data:,y", "dependencies": []string{"none"}}); f.JobID != "none" {
		t.Errorf("%+v", f)
	}
	s.refused("not_failed", "retry", o{"id": "a"})
	call[job.Job](s, "cancel", o{"id": "a", "reason": "why"})
	s.refused("terminal_job", "cancel", o{"id": "a"})
	s.refused("stale_lease", "complete", o{"token": token("a"), "output_ref": "data:,x"}, "a")
	if f := s.refused("stale_lease", "renew", o{"token": token("a")}); f.Job == nil || f.Job.State != job.StateCancelled {
		t.Errorf("%+v", f)
	}
}

// token is one that nobody gave.
func token(id string) o {
	return o{"job_id": id, "input_revision": 0, "worker_id": "w", "fence": 1, "expires_at": "2100-01-01T00:00:00Z"}
}

func tokenWith(name string, value any) o {
	k := token("a")
	k[name] = value
	return k
}

// TestBadInput: each line names what was sent, the rule, and the way out.
func TestBadInput(t *testing.T) {
	s := newSite(t)
	s.start()
	s.enqueue("a")
	deep := `{"stage":"s","input_ref":"x","payload":` + strings.Repeat("[", 20000) + strings.Repeat("]", 20000) + `}`
	for _, test := range []struct {
		verb    string
		request any
		parts   []string
	}{
		{"enqueue", "", []string{"enqueue is empty", "JSON object", "stage and input_ref"}},
		{"enqueue", "{", []string{"is not JSON", "unexpected end"}},
		{"enqueue", "[]", []string{"no JSON object"}},
		{"enqueue", "null", []string{"no JSON object"}},
		{"enqueue", o{"stage": "hash"}, []string{"input_ref must not be empty"}},
		{"enqueue", o{"input_ref": "x"}, []string{"stage must not be empty"}},
		{"enqueue", o{"stage": "Hash", "input_ref": "x"}, []string{`"Hash"`, "a-z"}},
		{"enqueue", o{"stage": "hash", "input_ref": "x", "imput": 1}, []string{`"imput"`, "payload or labels"}},
		{"enqueue", o{"stage": "hash", "input_ref": "x", "state": "waiting"}, []string{`no member "state"`}},
		{"enqueue", o{"stage": "hash", "input_ref": "x", "max_attempts": "3"}, []string{"max_attempts", "whole number"}},
		{"enqueue", o{"stage": "hash", "input_ref": "x", "timeout": 3}, []string{"timeout"}},
		{"enqueue", o{"stage": "hash", "input_ref": "x", "available_at": "soon"}, []string{"available_at", "soon", "2006-01-02"}},
		{"enqueue", o{"stage": "hash", "input_ref": "x", "key": "k", "on_conflict": "fight"}, []string{"fight", "supersede, reject or coalesce"}},
		{"enqueue", o{"stage": "hash", "input_ref": "x", "on_conflict": 1}, []string{"on_conflict", "supersede, reject or coalesce"}},
		{"enqueue", o{"stage": "hash", "input_ref": "x", "on_conflict": "reject"}, []string{"reject needs a key"}},
		{"enqueue", o{"stage": "hash", "input_ref": "x", "payload": strings.Repeat("x", 200<<10)}, []string{"larger than"}},
		{"enqueue", deep, []string{"depth"}},
		{"get", "", []string{"get is empty", "JSON object of id"}},
		{"get", "nonsense", []string{"not JSON", "JSON object of id"}},
		{"get", o{}, []string{"id must not be empty"}},
		{"get", o{"id": "a b"}, []string{`"a b"`}},
		{"get", o{"id": 7}, []string{"id: a JSON number", "a string"}},
		{"get", o{"ID": "a"}, []string{`no member "ID"`, "it has id"}},
		{"get", o{strings.Repeat("m\n", 5000): "a"}, []string{"no member", "..."}},
		{"cancel", o{"id": "a", "why": "x"}, []string{`no member "why"`, "id, reason"}},
		{"retry", o{"id": "a", "reason": []string{}}, []string{"reason", "a string"}},
		{"wait", o{"id": "a"}, []string{"wait is missing", "1m"}},
		{"wait", o{"id": "a", "wait": "2h"}, []string{"2h0m0s", "1m0s", "ask again"}},
		{"wait", o{"id": "a", "wait": "-1s"}, []string{"-1s"}},
		{"wait", o{"id": "a", "wait": "long"}, []string{`"long"`, "1m30s"}},
		{"wait", o{"id": "a", "wait": 5}, []string{"wait: 5", "1m30s"}},
		{"list", o{"limit": 0}, []string{"limit 0", "1 and 1000"}},
		{"list", o{"limit": 1.5}, []string{"limit", "1.5", "whole number"}},
		{"list", o{"limit": 1001}, []string{"limit 1001"}},
		{"list", o{"after": "a"}, []string{`after "a"`, "leave it out"}},
		{"list", o{"states": []string{"done"}}, []string{`"done"`, "succeeded"}},
		{"list", o{"states": "waiting"}, []string{"states", "array"}},
		{"list", o{"labels": []string{}}, []string{"labels", "object"}},
		{"list", o{"stage": "A"}, []string{`"A"`}},
		{"list", o{"state": "waiting"}, []string{`no member "state"`, "states"}},
		{"claim", o{"stage": "hash"}, []string{"worker", "id of its own"}},
		{"claim", o{"stage": "hash", "worker": "a.b"}, []string{`"a.b"`}},
		{"claim", o{"worker": "w"}, []string{"stage must not be empty"}},
		{"claim", o{"stage": "hash", "worker": "w", "n": 0}, []string{"n 0", "1 and 100"}},
		{"claim", o{"stage": "hash", "worker": "w", "n": 101}, []string{"n 101"}},
		{"claim", o{"stage": "hash", "worker": "w", "wait": "61s"}, []string{"1m1s"}},
		{"renew", o{}, []string{"token is missing", "claim or renew"}},
		{"renew", o{"token": "abc"}, []string{"token is no JSON object", "fence"}},
		{"renew", o{"token": tokenWith("fense", 1)}, []string{`token has no member "fense"`}},
		{"renew", o{"token": tokenWith("fence", 0)}, []string{"fence 0"}},
		{"renew", o{"token": tokenWith("job_id", "")}, []string{"token", "id must not be empty"}},
		{"renew", o{"token": tokenWith("worker_id", "a b")}, []string{"token", `"a b"`}},
		{"renew", o{"token": tokenWith("expires_at", nil)}, []string{"expires_at is missing"}},
		{"renew", o{"token": tokenWith("expires_at", "soon")}, []string{"expires_at", "soon"}},
		{"complete", o{"token": token("a")}, []string{"output_ref", "output"}},
		{"complete", o{"token": token("a"), "output": "x", "output_ref": "data:,x"}, []string{"either"}},
		{"fail", o{"token": token("a")}, []string{"needs a reason"}},
		{"fail", o{"token": token("a"), "reason": "x", "permanent": true, "delay": "1s"}, []string{"permanent", "delay"}},
		{"fail", o{"token": token("a"), "reason": "x", "permanent": 1}, []string{"permanent", "true or false"}},
		{"fail", o{"token": token("a"), "reason": "x", "delay": "-1s"}, []string{"delay -1s"}},
		{"release", o{"token": token("a"), "delay": "-1s"}, []string{"delay -1s"}},
		{"release", o{"token": token("a"), "drain": true}, []string{`no member "drain"`}},
	} {
		s.refused("invalid_job", test.verb, test.request, test.parts...)
	}
	if f := s.refused("invalid_job", "get", o{"id": strings.Repeat("é\r\n", 10000)}); len(f.Message) > 2000 {
		t.Errorf("a line of %d bytes", len(f.Message))
	}
	c := s.claim("w", "a")
	s.refused("invalid_job", "renew", o{"token": c.Token, "progress": strings.Repeat("x", 9<<10)}, "progress", "8192")
	s.refused("invalid_job", "complete", o{"token": c.Token, "output_ref": strings.Repeat("x", 30<<10)}, "output_ref")
	call[none](s, "complete", o{"token": c.Token, "output": ""}) // none of it has harmed the claim
}

// TestEveryCode: the codes of all refusals come out as they are, whatever wraps
// them, and everything else is told apart by what the caller can do.
func TestEveryCode(t *testing.T) {
	t.Parallel()
	for _, code := range []job.Code{
		job.CodeMissingJob, job.CodeDuplicateJob, job.CodeMissingDependency, job.CodeIncompleteDependency, job.CodeInvalidJob,
		job.CodeNotAvailable, job.CodeLeaseHeld, job.CodeAttemptLimitReached, job.CodeTerminalJob, job.CodeStaleLease,
		job.CodeLeaseExpired, job.CodeNotFailed, job.CodeFenceChanged,
	} {
		if got := api.CodeOf(fmt.Errorf("wrapped: %w", &job.Error{Code: code})); got != string(code) {
			t.Errorf("%s is answered as %s", code, got)
		}
	}
	for want, errs := range map[string][]error{
		"unavailable": {kv.ErrUndecided, context.DeadlineExceeded, context.Canceled, nats.ErrTimeout, nats.ErrConnectionClosed,
			&fabric.ServerError{Reason: "is away"}},
		"unreadable_record": {kv.ErrUnreadable},
		"internal":          {errors.New("anything")},
	} {
		for _, err := range errs {
			if got := api.CodeOf(fmt.Errorf("wrapped: %w", err)); got != want {
				t.Errorf("%v is answered as %s, want %s", err, got, want)
			}
		}
	}
}

func TestBusy(t *testing.T) {
	s := newSite(t)
	i := s.start()
	s.enqueue("a")
	empty := i.Fill("wait")
	s.refused("busy", "wait", o{"id": "a", "wait": "1s"}, "repeat")
	empty()
	call[job.Job](s, "wait", o{"id": "a", "wait": "0s"})
}

// TestServersThatAreAway: the API still answers, but what it needs is gone. What
// may have been written is named, so that the request can be repeated.
func TestServersThatAreAway(t *testing.T) {
	s := newSite(t)
	i := s.start()
	apart := s.server.Connect() // the service answers on a connection of its own
	service, err := api.Start(apart, i.f, api.Options{Namespace: "weft"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = stop(service) })
	if err := stop(i.Service); err != nil {
		t.Fatal(err)
	}
	i.nc.Close()
	var asking sync.WaitGroup
	for verb, request := range map[string]o{
		"get": {"id": "a"}, "cancel": {"id": "a"}, "enqueue": {"id": "a", "stage": "hash", "input_ref": "x"},
		"complete": {"token": token("a"), "output": ""},
	} {
		asking.Go(func() {
			if f := s.ask(verb, request); f.Header.Get("Nats-Service-Error-Code") != "unavailable" || !strings.Contains(string(f.Data), `"job_id":"a"`) {
				t.Errorf("%s: %v %s", verb, f.Header, f.Data)
			}
		})
	}
	asking.Wait()
}

package api_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/weft-fabric/weft/job"
)

func TestABackendsWholeDay(t *testing.T) {
	s := newSite(t)
	s.start()
	spec := `{"id":"a","stage":"hash","input_ref":"data:,x","payload":{"b" : [1.0,"<&>"]},"labels":{"who":"me"},"key":"k",` +
		`"timeout":"1m","priority":2,"max_attempts":1,"available_at":"2020-01-01T00:00:00Z","input_revision":4}`
	j := call[job.Job](s, "enqueue", spec)
	if j.State != job.StateWaiting || j.Labels["who"] != "me" || j.Timeout != time.Minute || j.InputRevision != 4 {
		t.Fatalf("%+v", j)
	}
	if raw := s.ask("get", o{"id": "a"}).Data; !strings.Contains(string(raw), `"payload":{"b" : [1.0,"<&>"]}`) {
		t.Errorf("the payload changed: %s", raw)
	}
	if again := call[job.Job](s, "enqueue", spec); !again.CreatedAt.Equal(j.CreatedAt) {
		t.Errorf("enqueued twice: %+v", again)
	}
	c := s.claim("w", "a")
	call[none](s, "fail", o{"token": c.Token, "reason": "no"})
	if j := call[job.Job](s, "wait", o{"id": "a", "wait": "20s"}); j.State != job.StateFailed || j.Reason != "no" {
		t.Fatalf("%+v", j)
	}
	if j := call[job.Job](s, "retry", o{"id": "a", "reason": "again"}); j.State != job.StateRetryWaiting || j.Reason != "again" {
		t.Fatalf("%+v", j)
	}
	if j := call[job.Job](s, "cancel", o{"id": "a"}); j.State != job.StateCancelled || j.Reason == "" {
		t.Fatalf("%+v", j)
	}
}

func TestTraceOfARequest(t *testing.T) {
	s := newSite(t)
	s.start()
	const first = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	const second = "00-11111111111111111111111111111111-2222222222222222-00"
	for _, test := range []struct{ id, header, member, want string }{
		{"none", "", "", ""}, {"header", first, "", first}, {"member", "", second, second},
		{"both", first, second, second}, {"malformed", "nonsense", "", ""},
	} {
		msg := nats.NewMsg("weft.api.enqueue")
		msg.Header.Set("traceparent", test.header)
		msg.Data = fmt.Appendf(nil, `{"id":%q,"stage":"hash","input_ref":"data:,x"}`, test.id)
		if test.member != "" {
			msg.Data = fmt.Appendf(nil, `{"id":%q,"stage":"hash","input_ref":"data:,x","traceparent":%q}`, test.id, test.member)
		}
		answer, err := s.nc.RequestMsg(msg, patience)
		if err != nil || answer.Header.Get(micro.ErrorCodeHeader) != "" {
			t.Fatalf("%s: %v %s", test.id, err, answer.Data)
		}
		if got := s.get(test.id).Trace.Parent; got != test.want {
			t.Errorf("%s: the record has the trace %q, want %q", test.id, got, test.want)
		}
	}
	s.refused("invalid_job", "enqueue", `{"id":"bad","stage":"hash","input_ref":"data:,x","traceparent":"nonsense"}`, "traceparent")
}

func TestConflictPolicies(t *testing.T) {
	s := newSite(t)
	s.start()
	spec := func(id, policy string) string {
		return fmt.Sprintf(`{"on_conflict":%q,"id":%q,"stage":"hash","input_ref":"data:,x","key":"k","payload":{ }}`, policy, id)
	}
	call[job.Job](s, "enqueue", spec("a", "supersede"))
	if f := s.refused("duplicate_job", "enqueue", spec("b", "reject")); f.JobID != "a" {
		t.Errorf("%+v", f)
	}
	if j := call[job.Job](s, "enqueue", spec("c", "coalesce")); j.ID != "a" || string(j.Payload) != "{ }" {
		t.Errorf("%+v", j)
	}
	if j := call[job.Job](s, "enqueue", spec("d", "")); j.ID != "d" || len(j.UnknownMembers()) > 0 {
		t.Errorf("%+v", j)
	}
	if j := s.get("a"); j.State != job.StateCancelled {
		t.Errorf("%+v", j)
	}
}

type listed struct {
	Jobs       []job.Job `json:"jobs"`
	Unreadable []string  `json:"unreadable"`
	Next       string    `json:"next"`
}

// pages reads a list to its end.
func pages(s *site, request o) (all []job.Job, count int, unreadable []string) {
	s.t.Helper()
	for {
		p := call[listed](s, "list", request)
		all, unreadable, count = append(all, p.Jobs...), append(unreadable, p.Unreadable...), count+1
		if p.Next == "" {
			return all, count, unreadable
		}
		request["after"] = p.Next
	}
}

func ids(jobs []job.Job) (ids []string) {
	for _, j := range jobs {
		ids = append(ids, j.ID)
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

func TestPagesOfAThousandJobs(t *testing.T) {
	s := newSite(t)
	i := s.start()
	specs := func(yield func(job.Spec) bool) {
		for n := range 1000 {
			stage, key := []string{"hash", "sort"}[n%2], ""
			if n == 7 {
				key = "seven"
			}
			if !yield(job.Spec{ID: fmt.Sprintf("j%03d", n), Stage: stage, InputRef: "data:,x", Key: key, Labels: map[string]string{"tens": fmt.Sprint(n / 10)}}) {
				return
			}
		}
	}
	if err := i.f.EnqueueMany(t.Context(), specs, noErrors); err != nil {
		t.Fatal(err)
	}
	if _, err := i.f.Cancel(t.Context(), "j011", "why"); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		request      o
		jobs, atMost int
	}{
		"all":             {o{}, 1000, 11},
		"as many as ever": {o{"limit": 1000}, 1000, 2},
		"in small parts":  {o{"limit": 7, "stage": "sort", "labels": o{"tens": "5"}}, 5, 3},
		"a stage":         {o{"limit": 300, "stage": "hash"}, 500, 3},
		"a state":         {o{"states": []string{"cancelled", "failed"}}, 1, 2},
		"a key":           {o{"key": "seven"}, 1, 2},
		"labels":          {o{"labels": o{"tens": "12"}}, 10, 2},
		"nothing":         {o{"stage": "none"}, 0, 1},
	} {
		all, count, _ := pages(s, test.request)
		if got := ids(all); len(got) != test.jobs || len(all) != test.jobs || count > test.atMost {
			t.Errorf("%s: %d jobs, %d of them different, on %d pages; want %d on at most %d", name, len(all), len(got), count, test.jobs, test.atMost)
		}
	}
}

func TestAPageFitsIntoAMessage(t *testing.T) {
	s := newSite(t)
	i := s.start()
	payload, _ := json.Marshal(strings.Repeat("x", 100<<10))
	for n := range 25 {
		if _, err := i.f.Enqueue(t.Context(), job.Spec{ID: fmt.Sprint("j", n), Stage: "hash", InputRef: "data:,x", Payload: payload}); err != nil {
			t.Fatal(err)
		}
	}
	if all, count, _ := pages(s, o{}); len(ids(all)) != 25 || count < 3 {
		t.Errorf("%d jobs on %d pages", len(all), count)
	}
}

func TestAListGoesOnAtWhatCannotBeRead(t *testing.T) {
	s := newSite(t)
	s.start()
	s.enqueue("a")
	s.breakRecord("broken")
	s.enqueue("b")
	all, _, unreadable := pages(s, o{"limit": 1})
	if len(ids(all)) != 2 || !slices.Equal(unreadable, []string{"broken"}) {
		t.Errorf("%v, unreadable %v", ids(all), unreadable)
	}
}

func TestWaitAnswersInTime(t *testing.T) {
	s := newSite(t)
	i := s.start()
	s.enqueue("a")
	for _, wait := range []string{"0s", "300ms"} {
		began, most := time.Now(), 5*time.Second
		j := call[job.Job](s, "wait", o{"id": "a", "wait": wait})
		least, _ := time.ParseDuration(wait)
		if took := time.Since(began); j.State != job.StateWaiting || took < least || took > most {
			t.Errorf("waited %s of %s: %+v", took, wait, j)
		}
	}
	c := s.claim("w", "a")
	inbox := s.nc.NewInbox()
	answers, err := s.nc.SubscribeSync(inbox)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.nc.PublishRequest("weft.api.wait", inbox, []byte(`{"id":"a","wait":"1m"}`)); err != nil {
		t.Fatal(err)
	}
	s.eventually("the request waits", func() bool { return i.InFlight("wait") == 1 })
	call[none](s, "complete", o{"token": c.Token, "output": "y"})
	msg, err := answers.NextMsg(patience)
	if err != nil {
		t.Fatal(err)
	}
	if j, err := job.Decode(msg.Data); err != nil || j.State != job.StateSucceeded {
		t.Errorf("%s, %v", msg.Data, err)
	}
}

// TestACallerThatGoesAwayLeavesNothing closes the connection of somebody who
// waits: what it started ends by itself.
func TestACallerThatGoesAwayLeavesNothing(t *testing.T) {
	s := newSite(t)
	i := s.start()
	s.enqueue("a")
	gone := s.server.Connect()
	for range 10 {
		if err := gone.PublishRequest("weft.api.wait", gone.NewInbox(), []byte(`{"id":"a","wait":"1s"}`)); err != nil {
			t.Fatal(err)
		}
	}
	if err := gone.Flush(); err != nil {
		t.Fatal(err)
	}
	s.eventually("ten requests wait", func() bool { return i.InFlight("wait") == 10 })
	gone.Close()
	s.eventually("none waits", func() bool { return i.InFlight("wait") == 0 })
}

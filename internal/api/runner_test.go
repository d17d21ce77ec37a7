package api_test

import (
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/weft-fabric/weft/internal/api"
	"github.com/weft-fabric/weft/job"
)

func TestARunnersWholeDay(t *testing.T) {
	s := newSite(t)
	i := s.start()
	for name, test := range map[string]struct {
		verb   string
		member o
		want   job.State
	}{
		"output-ref": {"complete", o{"output_ref": "data:,y"}, job.StateSucceeded},
		"output":     {"complete", o{"output": "y"}, job.StateSucceeded},
		"fail":       {"fail", o{"reason": "no", "delay": "1h"}, job.StateRetryWaiting},
		"permanent":  {"fail", o{"reason": "no", "permanent": true}, job.StateFailed},
		"return":     {"release", o{"reason": "not yet", "delay": "1h"}, job.StateWaiting},
	} {
		s.enqueue(name)
		c := s.claim("w", name)
		if c.Lease != long.String() || c.Job.State != job.StateLeased || c.Token.WorkerID != "w" || c.Token.Fence != 1 {
			t.Fatalf("%+v", c)
		}
		r := call[claimed](s, "renew", o{"token": c.Token, "progress": o{"percent": 50}})
		if r.Token.Fence != 1 || r.Token.ExpiresAt.Before(c.Token.ExpiresAt) || r.Lease != c.Lease {
			t.Errorf("%s: %+v", name, r)
		}
		if j := s.get(name); string(j.Progress) != `{"percent":50}` {
			t.Errorf("%s: progress %s", name, j.Progress)
		}
		test.member["token"] = r.Token
		for range 2 { // an answer may get lost
			call[none](s, test.verb, test.member)
		}
		j := s.get(name)
		if j.State != test.want || len(j.AttemptsLog) != 1 {
			t.Errorf("%s: %+v", name, j)
		}
		if j.State == job.StateSucceeded && s.output(i, j) != "y" {
			t.Errorf("%s: output %q", name, s.output(i, j))
		}
	}
}

func (s *site) output(i instance, j job.Job) string {
	s.t.Helper()
	body, err := i.f.Output(s.t.Context(), j)
	if err != nil {
		s.t.Fatal(err)
	}
	defer body.Close()
	text, err := io.ReadAll(body)
	if err != nil {
		s.t.Fatal(err)
	}
	return string(text)
}

func TestAFailureAndAReleaseComeAgain(t *testing.T) {
	s := newSite(t)
	s.start()
	s.enqueue("a")
	call[none](s, "release", o{"token": s.claim("w", "a").Token})
	c := s.claim("w", "a")
	if c.Job.Attempt != 1 || c.Job.Fence != 2 {
		t.Errorf("the release was charged: %+v", c)
	}
	call[none](s, "fail", o{"token": c.Token, "reason": "no"})
	if c = s.claim("v", "a"); c.Job.Attempt != 2 {
		t.Errorf("%+v", c)
	}
	call[none](s, "complete", o{"token": c.Token, "output_ref": "data:,y"})
}

func TestNothingToClaim(t *testing.T) {
	s := newSite(t)
	s.start()
	for _, wait := range []time.Duration{0, 700 * time.Millisecond} {
		began := time.Now()
		got := call[claims](s, "claim", o{"stage": "hash", "worker": "w", "wait": wait.String()})
		if took := time.Since(began); len(got.Claims) != 0 || got.Claims == nil || took < wait || took > wait+10*time.Second {
			t.Errorf("%+v after %s of %s", got, took, wait)
		}
	}
}

func TestATakeoverMakesTheFirstRunnerStale(t *testing.T) {
	s := newSite(t)
	s.lease = short
	s.start()
	s.enqueue("a")
	first := s.claim("w", "a")
	second := s.claim("v", "a") // once the lease has run out
	if second.Token.Fence != 2 || second.Job.Attempt != 2 {
		t.Fatalf("%+v", second)
	}
	if f := s.refused("stale_lease", "renew", o{"token": first.Token}); f.Job == nil || f.Job.WorkerID != "v" {
		t.Errorf("%+v", f)
	}
	for verb, member := range map[string]o{"complete": {"output_ref": "data:,late"}, "fail": {"reason": "late"}, "release": {}} {
		member["token"] = first.Token
		s.refused("stale_lease", verb, member)
	}
	call[none](s, "complete", o{"token": second.Token, "output_ref": "data:,y"})
	s.refused("stale_lease", "fail", o{"token": second.Token, "reason": "after all"})
	s.refused("stale_lease", "complete", o{"token": second.Token, "output_ref": "data:,z"})
	if j := s.get("a"); j.OutputRef != "data:,y" || j.Attempt != 2 {
		t.Errorf("%+v", j)
	}
}

func TestALapsedLeaseThatNobodyTookIsForgiven(t *testing.T) {
	s := newSite(t)
	s.lease = short
	i := s.start(api.Quick)
	s.enqueue("a")
	c := s.claim("w", "a")
	s.eventually("the worker is forgotten", func() bool { return i.Workers() == 0 })
	r := call[claimed](s, "renew", o{"token": c.Token})
	call[none](s, "complete", o{"token": r.Token, "output_ref": "data:,y"})
	if j := s.get("a"); j.State != job.StateSucceeded || j.Attempt != 1 {
		t.Errorf("%+v", j)
	}
}

func TestACancelReachesTheRunnerAtItsNextCall(t *testing.T) {
	s := newSite(t)
	s.start()
	s.enqueue("a")
	signals, err := s.nc.SubscribeSync("weft.signal.w")
	if err != nil {
		t.Fatal(err)
	}
	c := s.claim("w", "a")
	call[job.Job](s, "cancel", o{"id": "a", "reason": "why"})
	if msg, err := signals.NextMsg(patience); err != nil || string(msg.Data) != "a" {
		t.Errorf("no hint: %v", err)
	}
	f := s.refused("stale_lease", "renew", o{"token": c.Token})
	if f.Job == nil || f.Job.State != job.StateCancelled || f.Job.Reason != "why" {
		t.Errorf("%+v", f)
	}
}

// TestOnlyWhatIsHandedOutIsLeased: a claim that got less than it asked for leaves
// nobody behind who takes the jobs that come later.
func TestOnlyWhatIsHandedOutIsLeased(t *testing.T) {
	s := newSite(t)
	s.start()
	for n := range 3 {
		s.enqueue(fmt.Sprint("j", n))
	}
	got := map[string]bool{}
	for len(got) < 3 {
		for _, c := range call[claims](s, "claim", o{"stage": "hash", "worker": "w", "n": 50, "wait": "5s"}).Claims {
			got[c.Job.ID] = true
			call[none](s, "complete", o{"token": c.Token, "output": ""})
		}
	}
	for n := range 5 {
		s.enqueue(fmt.Sprint("later", n))
	}
	all, _, _ := pages(s, o{"states": []string{"leased"}})
	if len(all) != 0 {
		t.Errorf("leased to nobody: %v", ids(all))
	}
	for n := range 5 {
		if j := s.get(fmt.Sprint("later", n)); j.Fence != 0 {
			t.Errorf("%+v", j)
		}
	}
}

func TestClaimsOfManyAtOnceFitIntoAMessage(t *testing.T) {
	s := newSite(t)
	i := s.start()
	payload := append(append([]byte{'"'}, slices.Repeat([]byte{'x'}, 120<<10)...), '"')
	for n := range 12 {
		if _, err := i.f.Enqueue(t.Context(), job.Spec{ID: fmt.Sprint("j", n), Stage: "hash", InputRef: "data:,x", Payload: payload}); err != nil {
			t.Fatal(err)
		}
	}
	done := map[string]bool{}
	for len(done) < 12 {
		for _, c := range call[claims](s, "claim", o{"stage": "hash", "worker": "w", "n": 12, "wait": "20s"}).Claims {
			if c.Job.Attempt != 1 {
				t.Errorf("%s is at attempt %d: what did not fit was charged", c.Job.ID, c.Job.Attempt)
			}
			done[c.Job.ID] = true
			call[none](s, "complete", o{"token": c.Token, "output": ""})
		}
	}
}

// TestAClaimForACallerThatIsGoneIsGivenBack closes the connection of a runner that
// waits for a job, before there is one.
func TestAClaimForACallerThatIsGoneIsGivenBack(t *testing.T) {
	s := newSite(t)
	i := s.start()
	gone := s.server.Connect()
	if err := gone.PublishRequest("weft.api.claim", gone.NewInbox(), []byte(`{"stage":"hash","worker":"w","wait":"1m"}`)); err != nil {
		t.Fatal(err)
	}
	if err := gone.Flush(); err != nil {
		t.Fatal(err)
	}
	s.eventually("the request waits", func() bool { return i.InFlight("claim") == 1 })
	gone.Close()
	s.enqueue("a")
	s.eventually("the job was claimed and given back", func() bool {
		j := s.get("a")
		return j.State == job.StateWaiting && j.Fence == 1
	})
	if c := s.claim("v", "a"); c.Job.Attempt != 1 {
		t.Errorf("it was charged: %+v", c.Job)
	}
}

func TestAClaimThatCannotBeAnsweredIsGivenBack(t *testing.T) {
	s := newSite(t)
	s.start()
	s.enqueue("a")
	if err := s.nc.Publish("weft.api.claim", []byte(`{"stage":"hash","worker":"w"}`)); err != nil {
		t.Fatal(err)
	}
	s.eventually("the job was claimed and given back", func() bool {
		j := s.get("a")
		return j.State == job.StateWaiting && j.Fence == 1 && j.Attempt == 0
	})
}

func TestAClaimSurvivesTheInstanceThatMadeIt(t *testing.T) {
	s := newSite(t)
	first := s.start()
	s.enqueue("a")
	c := s.claim("w", "a")
	s.start()
	s.kill(first)
	r := call[claimed](s, "renew", o{"token": c.Token})
	for range 2 {
		call[none](s, "complete", o{"token": r.Token, "output_ref": "data:,y"})
	}
	if j := s.get("a"); j.State != job.StateSucceeded || j.Attempt != 1 || j.Fence != 1 {
		t.Errorf("%+v", j)
	}
}

// TestAnInstanceThatDiesWithItsAnswers: whoever claimed and did not learn of it
// loses an attempt, and nothing else.
func TestAnInstanceThatDiesWithItsAnswers(t *testing.T) {
	s := newSite(t)
	s.lease = short
	first := s.start()
	s.enqueue("a")
	s.claim("w", "a")
	s.kill(first)
	s.start()
	c := s.claim("w", "a")
	if c.Token.Fence != 2 {
		t.Fatalf("%+v", c)
	}
	call[none](s, "complete", o{"token": c.Token, "output_ref": "data:,y"})
}

func TestTwoInstancesShareTheWork(t *testing.T) {
	s := newSite(t)
	s.start()
	s.start()
	const jobs, runners = 60, 4
	for n := range jobs {
		s.enqueue(fmt.Sprint("j", n))
	}
	var mu sync.Mutex
	done := map[string]int{}
	var working sync.WaitGroup
	for w := range runners {
		working.Go(func() {
			for {
				got := call[claims](s, "claim", o{"stage": "hash", "worker": fmt.Sprint("w", w), "n": 3, "wait": "1s"}).Claims
				if len(got) == 0 {
					return
				}
				for _, c := range got {
					r := call[claimed](s, "renew", o{"token": c.Token})
					call[none](s, "complete", o{"token": r.Token, "output": c.Job.ID})
					mu.Lock()
					done[c.Job.ID]++
					mu.Unlock()
				}
			}
		})
	}
	working.Wait()
	all, _, _ := pages(s, o{"states": []string{"succeeded"}})
	if len(ids(all)) != jobs || len(done) != jobs {
		t.Errorf("%d succeeded, %d completed", len(ids(all)), len(done))
	}
	for _, j := range all {
		if j.Attempt != 1 || done[j.ID] != 1 {
			t.Errorf("%s was completed %d times, at attempt %d", j.ID, done[j.ID], j.Attempt)
		}
	}
}

func TestStopGivesBackWhatWasNotAnswered(t *testing.T) {
	s := newSite(t)
	i := s.start()
	s.enqueue("other")
	s.claim("v", "other")
	answers := make(chan string, 2)
	var asking sync.WaitGroup
	asking.Go(func() { answers <- string(s.ask("claim", o{"stage": "hash", "worker": "w", "wait": "1m"}).Data) })
	asking.Go(func() { answers <- string(s.ask("wait", o{"id": "other", "wait": "1m"}).Data) })
	s.eventually("both wait", func() bool { return i.InFlight("claim") == 1 && i.InFlight("wait") == 1 })
	began := time.Now()
	if err := stop(i.Service); err != nil {
		t.Fatal(err)
	}
	asking.Wait()
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it took %s", took)
	}
	for range 2 {
		text := <-answers
		j, err := job.Decode([]byte(text))
		if text != `{"claims":[]}` && (err != nil || j.State != job.StateLeased) {
			t.Errorf("answered %s", text)
		}
	}
	if i.Workers() != 0 {
		t.Errorf("%d workers are left", i.Workers())
	}
}

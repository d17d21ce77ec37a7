package main

import (
	"encoding/json"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/weft-fabric/weft/fabric"
	"github.com/weft-fabric/weft/internal/app"
)

// TestWorkerLs sees a worker come, run a job, and go.
func TestWorkerLs(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	ids := enqueueMany(t, s, 1)
	work := spawn(t, s.args([]string{"work", "slow", "--id", "rn_seen", "--concurrency", "2", "--", "sleep", "600"})...)
	var seen fabric.Presence
	poll(t, "the worker and its job", func() bool {
		r := s.weft(t, "worker", "ls", "--json").want(t, app.ExitDone)
		return json.Unmarshal([]byte(r.out), &seen) == nil && len(seen.Stages) == 1
	})
	if seen.ID != "rn_seen" || seen.Slots != 2 || seen.Stages[0] != "slow" || seen.PID == 0 {
		t.Errorf("worker is %+v", seen)
	}
	s.weft(t, "worker", "ls").want(t, app.ExitDone, "")
	work.signal(syscall.SIGTERM)
	work.signalAgain(t, syscall.SIGTERM)
	work.wait().want(t, app.ExitDone)
	if r := s.weft(t, "worker", "ls", "--json").want(t, app.ExitDone); r.out != "" {
		t.Errorf("a worker that ended is listed: %s", r.out)
	}
	if j := s.get(t, ids[0]); j.Attempt != 0 {
		t.Errorf("the drain was charged: attempt %d", j.Attempt)
	}
}

// TestDoctorRepairsSettings lets an operator change the bucket and a consumer.
func TestDoctorRepairsSettings(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	enqueueMany(t, s, 2)
	s.weft(t, "doctor").want(t, app.ExitDone, "all is as it should be")
	js, err := jetstream.New(s.conn)
	if err != nil {
		t.Fatal(err)
	}
	bucket, err := js.Stream(t.Context(), "KV_weft")
	if err != nil {
		t.Fatal(err)
	}
	drifted := bucket.CachedInfo().Config
	drifted.AllowDirect = true
	if _, err := js.UpdateStream(t.Context(), drifted); err != nil {
		t.Fatal(err)
	}
	s.weft(t, "job", "ls").want(t, app.ExitRefused, "allow_direct is true and must be false", "weft doctor --repair")
	s.weft(t, "doctor").want(t, app.ExitFailed, "findings: 1; weft doctor --repair")
	s.weft(t, "doctor", "--repair").want(t, app.ExitDone, "all repaired")
	work, err := js.Stream(t.Context(), "WEFT_slow")
	if err != nil {
		t.Fatal(err)
	}
	runners, err := work.Consumer(t.Context(), "runners")
	if err != nil {
		t.Fatal(err)
	}
	changed := runners.CachedInfo().Config
	changed.AckWait = time.Minute
	if _, err := work.UpdateConsumer(t.Context(), changed); err != nil {
		t.Fatal(err)
	}
	r := s.weft(t, "doctor", "--repair").want(t, app.ExitDone)
	if !strings.Contains(r.out, "ack_wait is 1m0s and must be 30s") {
		t.Errorf("doctor printed %q", r.out)
	}
	s.weft(t, "doctor").want(t, app.ExitDone, "all is as it should be")
	s.weft(t, "job", "ls").want(t, app.ExitDone)
}

// TestDoctorLeavesUnreadableRecords puts garbage in a record's place.
func TestDoctorLeavesUnreadableRecords(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	enqueueMany(t, s, 1)
	if err := s.conn.Publish("$KV.weft.job.broken", []byte("garbage")); err != nil {
		t.Fatal(err)
	}
	r := s.weft(t, "doctor", "--repair", "--json").want(t, app.ExitFailed, "1 are left for a person")
	var f fabric.Finding
	if err := json.Unmarshal([]byte(r.out), &f); err != nil || f.Subject != "key job.broken" || f.Repaired {
		t.Errorf("finding %q: %v", r.out, err)
	}
}

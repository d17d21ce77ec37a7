package noderunner_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/weft-fabric/weft/fabric"
	"github.com/weft-fabric/weft/internal/natstest"
	"github.com/weft-fabric/weft/job"
)

func TestSharesAStageWithAGoWorker(t *testing.T) {
	const total, slots = 1000, 6
	b := setup(t, 5*time.Second)
	victim := b.start("node-a", "--slots", strconv.Itoa(slots))
	specs := func(yield func(job.Spec) bool) {
		for i := range total {
			if !yield(job.Spec{ID: fmt.Sprintf("job-%04d", i), Stage: stage, InputRef: "data:,", Payload: json.RawMessage(`{"ms":20}`)}) {
				return
			}
		}
	}
	err := b.fabric.EnqueueMany(t.Context(), specs, func(e fabric.Enqueued) error { return e.Err })
	if err != nil {
		t.Fatal(err)
	}
	natstest.Eventually(t, patience, "the first runner has had its share", func() bool {
		return len(b.jobs(job.StateSucceeded)) >= total/10
	})
	defer b.startGo("go", slots, 60*time.Millisecond)()
	natstest.Eventually(t, patience, "much of the work is done", func() bool {
		return len(b.jobs(job.StateSucceeded)) >= total*4/10
	})

	b.stopHolding(victim)
	victim.signal(syscall.SIGKILL)
	b.start("node-b", "--slots", strconv.Itoa(slots))

	natstest.Eventually(t, patience, "all jobs have succeeded", func() bool {
		return len(b.jobs(job.StateSucceeded)) == total
	})
	b.emptied()
	share, lost := map[string]int{}, 0
	for _, j := range b.jobs(job.StateSucceeded) {
		share[b.checkRun(j)]++
		lost += int(j.Attempt) - 1
	}
	t.Logf("jobs by worker: %v; the killed runner lost %d", share, lost)
	for _, id := range []string{"node-a", "node-b", "go"} {
		if share[id] < total/20 {
			t.Errorf("%s ended %d of %d jobs, want a real share: %v", id, share[id], total, share)
		}
	}
	if lost < 1 || lost > slots {
		t.Errorf("%d jobs have a second attempt, want 1 to %d, as many as the killed runner held", lost, slots)
	}
}

// stopHolding halts the process at a moment at which it holds jobs.
func (b *bench) stopHolding(n *node) {
	b.Helper()
	holds := func() bool {
		return slices.ContainsFunc(b.jobs(job.StateLeased), func(j job.Job) bool { return j.WorkerID == n.id })
	}
	natstest.Eventually(b, patience, n.id+" holds jobs", func() bool {
		n.signal(syscall.SIGSTOP)
		held := holds()
		if held {
			held = holds() // what it had sent before may have ended the job meanwhile
		}
		if !held {
			n.signal(syscall.SIGCONT)
		}
		return held
	})
}

// checkRun checks one job that succeeded, and gives the worker that ended it.
// Only the runner that was killed may have lost an attempt. One that claims ahead of
// its slots may have given a job back, at no charge.
func (b *bench) checkRun(j job.Job) string {
	b.Helper()
	last := len(j.AttemptsLog) - 1
	charged := int64(0)
	for i, a := range j.AttemptsLog {
		number := charged + 1
		switch {
		case i == last && a.Outcome == job.AttemptSucceeded:
			charged++
		case a.Outcome == job.AttemptExpired && charged == 0 && a.Worker == "node-a":
			charged++
		case a.Outcome == job.AttemptReleased && a.Worker == "go":
		default:
			b.Errorf("%s has attempt %+v, which only a runner that was killed may have lost", j.ID, a)
		}
		if a.Number != number || a.Fence != int64(i+1) || a.Ended.Before(a.Started) {
			b.Errorf("%s has attempt %+v, want number %d and fence %d", j.ID, a, number, i+1)
		}
	}
	if j.Attempt != charged || j.Fence != int64(last+1) {
		b.Errorf("%s has attempt %d, fence %d and history %v", j.ID, j.Attempt, j.Fence, j.AttemptsLog)
	}
	by := j.AttemptsLog[last].Worker
	kind, _, _ := strings.Cut(by, "-")
	b.wantOutput(j, kind)
	return by
}

func TestFailsWithBackoffAndThenForGood(t *testing.T) {
	b := setup(t, 30*time.Second)
	b.enqueue(job.Spec{ID: "again", MaxAttempts: 2, Payload: json.RawMessage(`{"fail":"no luck"}`)})
	b.enqueue(job.Spec{ID: "never", MaxAttempts: 5, Payload: json.RawMessage(`{"fail":"bad input","permanent":true}`)})
	b.enqueue(job.Spec{ID: "slow", MaxAttempts: 1, Timeout: 100 * time.Millisecond, Payload: json.RawMessage(`{"hang":true}`)})
	n := b.start("node")

	j := b.ends("again")
	b.wantLog(j, "1/1 node failed, 2/2 node failed")
	if j.State != job.StateFailed || j.Reason != "no luck" {
		t.Errorf("again is %s: %s", j.State, j.Reason)
	}
	if wait := j.AttemptsLog[1].Started.Sub(j.AttemptsLog[0].Ended); wait < 800*time.Millisecond {
		t.Errorf("the second attempt began after %s, want the backoff of 1 s less its jitter", wait)
	}
	j = b.ends("never")
	b.wantLog(j, "1/1 node failed")
	if j.State != job.StateFailed || j.Reason != "bad input" {
		t.Errorf("never is %s: %s", j.State, j.Reason)
	}
	if j = b.ends("slow"); j.State != job.StateFailed || j.Reason != "attempt timed out after 100ms" {
		t.Errorf("slow is %s: %s", j.State, j.Reason)
	}
	b.emptied()
	b.wantRetention("never", 30*24*time.Hour)
	n.terminated()
}

// wantRetention checks that a record will be gone some time after its end.
func (b *bench) wantRetention(id string, want time.Duration) {
	b.Helper()
	js, err := b.nc.JetStream()
	if err != nil {
		b.Fatal(err)
	}
	msg, err := js.GetLastMsg("KV_weft", "$KV.weft.job."+id)
	if err != nil {
		b.Fatal(err)
	}
	if got := msg.Header.Get("Nats-TTL"); got != fmt.Sprintf("%.0fs", want.Seconds()) {
		b.Errorf("the record of %s has the TTL %q, want %s", id, got, want)
	}
}

func TestCancelReachesTheHandler(t *testing.T) {
	b := setup(t, 3*time.Second)
	for _, id := range []string{"signalled", "silent"} {
		b.enqueue(job.Spec{ID: id, Payload: json.RawMessage(`{"hang":true}`)})
	}
	n := b.start("node")
	b.hangs("signalled")
	if _, err := b.fabric.Cancel(t.Context(), "signalled", "not needed"); err != nil {
		t.Fatal(err)
	}
	b.cancelSilently("silent", "nor this")
	for id, reason := range map[string]string{"signalled": "not needed", "silent": "nor this"} {
		if got := b.heard(id); got != "job cancelled: "+reason {
			t.Errorf("the handler of %s heard %q", id, got)
		}
		j := b.get(id)
		b.wantLog(j, "1/1 node cancelled")
		if j.State != job.StateCancelled || j.Reason != reason {
			t.Errorf("%s is %s: %s", id, j.State, j.Reason)
		}
	}
	b.emptied()
	n.terminated()
}

// cancelSilently cancels a running job without a signal, so that its holder
// learns of it at its next renewal.
func (b *bench) cancelSilently(id, reason string) {
	b.Helper()
	b.hangs(id)
	js, err := b.nc.JetStream()
	if err != nil {
		b.Fatal(err)
	}
	natstest.Eventually(b, patience, id+" is cancelled", func() bool {
		stored, err := js.GetLastMsg("KV_weft", "$KV.weft.job."+id)
		if err != nil {
			b.Fatal(err)
		}
		j, err := job.Decode(stored.Data)
		if err != nil {
			b.Fatal(err)
		}
		j, err = j.Cancel(j.Fence, reason, b.fabric.Now())
		if err != nil {
			b.Fatal(err)
		}
		_, err = js.Publish(stored.Subject, j.AppendJSON(nil), nats.ExpectLastSequencePerSubject(stored.Sequence))
		return err == nil
	})
}

func TestLostLeaseStopsTheHandler(t *testing.T) {
	b := setup(t, time.Second)
	b.enqueue(job.Spec{ID: "taken", Payload: json.RawMessage(`{"hang":true}`)})
	first := b.start("node-a")
	b.hangs("taken")
	first.signal(syscall.SIGSTOP)
	second := b.start("node-b")
	b.wantLog(b.ends("taken"), "1/1 node-a expired, 2/2 node-b succeeded")
	first.signal(syscall.SIGCONT)
	if got := b.heard("taken"); got != "the lease was lost" {
		t.Errorf("the handler heard %q", got)
	}
	first.terminated()
	second.terminated()
	b.wantLog(b.get("taken"), "1/1 node-a expired, 2/2 node-b succeeded")
	b.emptied()
}

func TestTerminatedReleasesAtNoCharge(t *testing.T) {
	b := setup(t, 30*time.Second)
	b.enqueue(job.Spec{ID: "long", Payload: json.RawMessage(`{"hang":true}`)})
	first := b.start("node-a", "--drain", "0s")
	b.hangs("long")
	first.terminated()
	if got := b.heard("long"); got != "the runner stops" {
		t.Errorf("the handler heard %q", got)
	}
	if j := b.get("long"); j.State != job.StateWaiting || j.Attempt != 0 || j.Fence != 1 {
		t.Errorf("long is %s with attempt %d and fence %d, want it to wait, uncharged", j.State, j.Attempt, j.Fence)
	}
	second := b.start("node-b")
	j := b.ends("long")
	b.wantLog(j, "1/1 node-a released, 1/2 node-b succeeded")
	b.emptied()
	second.terminated()
}

func TestTakesWhatWasPublishedBare(t *testing.T) {
	b := setup(t, 30*time.Second)
	// Numbers that JavaScript cannot hold must come through the record unharmed.
	const payload = `{ "n": 12345678901234567890, "x": 1.50 }`
	b.bare("plain", `{"input_ref":"data:,hi","payload":`+payload+`,"mine":9007199254740993}`)
	b.bare("nonsense", `hello`)
	b.bare("older", `{"input_ref":"data:,","key":"k /ü"}`)
	// An enqueue's order is in whole milliseconds, that of an item in nanoseconds.
	published := b.fabric.Now()
	natstest.Eventually(t, patience, "the clock has moved on", func() bool {
		return b.fabric.Now().Sub(published) > 20*time.Millisecond
	})
	b.enqueue(job.Spec{ID: "newer", Key: "k /ü"})
	b.bare("keyed", `{"input_ref":"data:,","key":"alone"}`)
	b.enqueue(job.Spec{ID: "first", Payload: json.RawMessage(`{"ms":300}`)})
	b.bare("after", `{"input_ref":"data:,","dependencies":["first"]}`)
	b.bare("stray", `{"input_ref":"data:,","dependencies":["nobody"]}`)
	n := b.start("node")

	plain := b.ends("plain")
	b.wantOutput(plain, "node")
	if string(plain.Payload) != payload || !slices.Equal(plain.UnknownMembers(), []string{"mine"}) {
		t.Errorf("plain has the payload %s and the other members %v", plain.Payload, plain.UnknownMembers())
	}
	if raw, err := b.fabric.Raw(t.Context(), "plain"); err != nil || !bytes.Contains(raw, []byte(`"mine":9007199254740993`)) {
		t.Errorf("the record of plain is %s (%v)", raw, err)
	}
	for _, id := range []string{"nonsense", "stray"} {
		if j := b.ends(id); j.State != job.StateFailed || !strings.HasPrefix(j.Reason, "item rejected: ") {
			t.Errorf("%s is %s: %s", id, j.State, j.Reason)
		}
	}
	newer := b.ends("newer")
	b.wantOutput(newer, "node")
	older := b.ends("older")
	if older.State != job.StateCancelled || older.Reason != "superseded by newer" || older.KeyOrder >= newer.KeyOrder {
		t.Errorf("older is %s (%s) with order %d, newer has %d", older.State, older.Reason, older.KeyOrder, newer.KeyOrder)
	}
	b.wantOutput(b.ends("keyed"), "node")
	after := b.ends("after")
	b.wantOutput(after, "node")
	if first := b.ends("first"); after.AttemptsLog[0].Started.Before(first.FinishedAt) {
		t.Error("after was started before first had succeeded")
	}
	b.emptied()
	n.terminated()
}

func TestServesLanesInOrder(t *testing.T) {
	b := setup(t, 30*time.Second)
	for _, priority := range []int{4, 3, 2, 1} {
		b.enqueue(job.Spec{ID: fmt.Sprintf("p%d", priority), Priority: priority})
	}
	n := b.start("node", "--slots", "1")
	var before time.Time
	for _, id := range []string{"p1", "p2", "p3", "p4"} {
		j := b.ends(id)
		b.wantLog(j, "1/1 node succeeded")
		if j.AttemptsLog[0].Started.Before(before) {
			t.Errorf("%s was started out of turn", id)
		}
		before = j.AttemptsLog[0].Started
	}
	b.emptied()
	n.terminated()
}

// The transitions give what the fabric's own give, case by case.
func TestTransitionsAgreeWithTheFabrics(t *testing.T) {
	cases, err := filepath.Abs("../../job/testdata/transitions.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("node", "testdata/vectors.mjs", cases)
	cmd.Dir = install(t)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if n, err := strconv.Atoi(strings.TrimSpace(string(out))); err != nil || n < 300 {
		t.Errorf("looked at %s cases, want 300 or more", out)
	}
}

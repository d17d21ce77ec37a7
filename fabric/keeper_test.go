package fabric_test

// These tests prove that the keeper moves what nobody holds: exactly once though
// two believe they lead, soon though the leader was killed, and whatever was lost
// from the work queue.

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weft-fabric/weft/fabric"
	"github.com/weft-fabric/weft/internal/natstest"
	"github.com/weft-fabric/weft/job"
	"github.com/weft-fabric/weft/kv"
)

// writes counts how often each job's record was written.
type writes struct {
	mu    sync.Mutex
	count map[string]int
}

func countWrites(t *testing.T, nc *nats.Conn) *writes {
	t.Helper()
	w := &writes{count: map[string]int{}}
	sub, err := nc.Subscribe("weft.event.job.*", func(msg *nats.Msg) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.count[msg.Subject[len("weft.event.job."):]]++
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sub.Unsubscribe() })
	return w
}

func (w *writes) of(id string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.count[id]
}

func TestTwoKeepersThatLeadDoNothingTwice(t *testing.T) {
	t.Parallel()
	const jobs = 40
	server := natstest.Start(t)
	nc := server.Connect()
	written := countWrites(t, nc)
	f := open(t, nc, quiet, func(o *fabric.Options) { o.Stage.Lease = time.Second })
	lead(t, open(t, server.Connect(), quiet))
	lead(t, open(t, server.Connect(), quiet))
	lost, blocked, halfway := keepersWork(t, f, jobs)
	var ran handled
	for _, stage := range []string{"lost", "a", "b", "c"} {
		work(t, f, stage, 8, counted(&ran))
	}
	ids := slices.Concat(lost, blocked, halfway)
	awaitAll(t, f, 2*patience, ids...)
	for _, id := range ids {
		if n := ran.of(id); n != 1 {
			t.Errorf("%s ran %d times", id, n)
		}
	}
	for _, id := range lost {
		checkExpiredOnce(t, f, id)
	}
	for _, id := range blocked { // created, released, leased, succeeded
		natstest.Eventually(t, patience, "all events of "+id, func() bool { return written.of(id) >= 4 })
		if n := written.of(id); n != 4 {
			t.Errorf("%s was written %d times", id, n)
		}
	}
	if info, err := workQueue(t, nc, "b").Info(t.Context()); err != nil || info.State.LastSeq != jobs {
		t.Errorf("%d items for %d released jobs: %v", info.State.LastSeq, jobs, err)
	}
}

// keepersWork makes jobs that need a keeper: whose holder is dead, that wait for
// others, and whose enqueue died.
func keepersWork(t *testing.T, f *fabric.Fabric, n int) (lost, blocked, halfway []string) {
	t.Helper()
	for i := range n {
		lost = append(lost, enqueue(t, f, job.Spec{ID: fmt.Sprintf("lost%d", i), Stage: "lost", InputRef: "data:,x"}).ID)
	}
	if claims, err := runner(t, f, "dead").Claim(t.Context(), "lost", n); err != nil || len(claims) == 0 {
		t.Fatalf("%v, %v", claims, err)
	}
	for i := range n {
		first := fmt.Sprintf("first%d", i)
		enqueue(t, f, job.Spec{ID: first, Stage: "a", InputRef: "data:,x"})
		spec := job.Spec{ID: fmt.Sprintf("then%d", i), Stage: "b", InputRef: "data:,x", Dependencies: []string{first}}
		blocked = append(blocked, enqueue(t, f, spec).ID)
		j, err := fabric.EnqueueUpTo(t.Context(), f, job.Spec{ID: fmt.Sprintf("half%d", i), Stage: "c", InputRef: "data:,x"}, fabric.StepRecord)
		if err != nil {
			t.Fatal(err)
		}
		halfway = append(halfway, j.ID)
	}
	return lost, blocked, halfway
}

// checkExpiredOnce looks at a job whose first holder died.
func checkExpiredOnce(t *testing.T, f *fabric.Fabric, id string) {
	t.Helper()
	j, err := f.Get(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	expired := 0
	for _, a := range j.AttemptsLog {
		if a.Outcome == job.AttemptExpired {
			expired++
		}
	}
	if expired > 1 || j.Attempt > 2 {
		t.Errorf("%s expired %d times, attempt %d", id, expired, j.Attempt)
	}
}

func TestAnotherKeeperLeadsSoonAfterTheFirstWasKilled(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t)
	f := open(t, server.Connect())
	doomed := server.Connect()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	first := open(t, doomed)
	var leading sync.WaitGroup
	leading.Go(func() { _ = first.Keep(ctx) })
	released := func(id string) {
		r := runner(t, f, "")
		enqueue(t, f, job.Spec{ID: id, Stage: "a", InputRef: "data:,x"})
		enqueue(t, f, job.Spec{ID: id + "_then", Stage: "b", InputRef: "data:,x", Dependencies: []string{id}})
		finish(t, r, "a")
		natstest.Eventually(t, patience, "a keeper releases the dependent", func() bool {
			j, err := f.Get(t.Context(), id+"_then")
			return err == nil && len(j.WaitingOn) == 0
		})
	}
	released("one")
	keep(t, open(t, server.Connect()))
	doomed.Close() // killed: nothing is given up
	began := time.Now()
	released("two")
	if took := time.Since(began); took > 15*time.Second {
		t.Errorf("the other keeper led after %s", took)
	}
	cancel()
	leading.Wait()
}

// A keeper that stops gives the lead up, and nobody waits for its time to end.
func TestKeeperThatStopsGivesTheLeadUp(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t)
	f := open(t, server.Connect())
	bucket := fabric.Bucket(f)
	leads := func() bool {
		e, err := bucket.Get(t.Context(), kv.LeaderKey)
		return err == nil && e.Exists()
	}
	stop := keep(t, f)
	natstest.Eventually(t, patience, "it leads", leads)
	stop()
	if leads() {
		t.Fatal("the lead was not given up")
	}
	keep(t, open(t, server.Connect()))
	natstest.Eventually(t, 2*time.Second, "the next leads", leads)
}

// waitingJobs enqueues jobs of several kinds that all wait, and makes them old in
// the eyes of the fabric that is returned.
func waitingJobs(t *testing.T, nc *nats.Conn, n int) (*fabric.Fabric, []string) {
	t.Helper()
	var clock age
	f := open(t, nc, quiet, clock.clock)
	ids := enqueueMany(t, f, n, job.Spec{Stage: "work", InputRef: "data:,x"})
	ids = append(ids, enqueueMany(t, f, n/10, job.Spec{Stage: "work", InputRef: "data:,x", Priority: 1})...)
	ids = append(ids, enqueueMany(t, f, n/10, job.Spec{Stage: "work", InputRef: "data:,x", AvailableAt: f.Now().Add(time.Hour)})...)
	clock.add(fabric.Grace + time.Second)
	return f, ids
}

func TestAuditOffersAgainWhatAPurgeRemoved(t *testing.T) {
	t.Parallel()
	nc := natstest.Conn(t)
	f, ids := waitingJobs(t, nc, 200)
	st := workQueue(t, nc, "work")
	before := subjectsOf(t, st, "weft.>")
	if err := st.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := fabric.Audit(t.Context(), f); err != nil {
		t.Fatal(err)
	}
	after := subjectsOf(t, st, "weft.>")
	if len(before) != len(ids) || !maps.Equal(before, after) {
		t.Fatalf("%d jobs, %d offers before the purge, %d after the audit", len(ids), len(before), len(after))
	}
	var ran handled
	work(t, f, "work", 8, counted(&ran))
	natstest.Eventually(t, patience, "all jobs that are due run", func() bool { return len(ran.all()) == 220 })
}

// The stream is not purged but gone.
func TestAuditOffersAgainWhatWasDeletedWithItsStream(t *testing.T) {
	t.Parallel()
	nc := natstest.Conn(t)
	f, ids := waitingJobs(t, nc, 50)
	if err := serverJetStream(t, nc).DeleteStream(t.Context(), "WEFT_work"); err != nil {
		t.Fatal(err)
	}
	if err := fabric.Audit(t.Context(), f); err != nil {
		t.Fatal(err)
	}
	if after := subjectsOf(t, workQueue(t, nc, "work"), "weft.>"); len(after) != len(ids) {
		t.Fatalf("%d jobs, %d offers after the audit", len(ids), len(after))
	}
}

func TestAuditOffersWhatIsMissingAndMovesNothingElse(t *testing.T) {
	t.Parallel()
	const missing = 100
	nc := natstest.Conn(t)
	f, ids := waitingJobs(t, nc, 1500)
	st := workQueue(t, nc, "work")
	before := offers(t, st)
	lost := map[string]bool{}
	for i := range missing {
		id := ids[i*len(ids)/missing]
		lost[id] = true
		if err := st.DeleteMsg(t.Context(), before[id]); err != nil {
			t.Fatal(err)
		}
	}
	if err := fabric.Audit(t.Context(), f); err != nil {
		t.Fatal(err)
	}
	after := offers(t, st)
	if len(after) != len(ids) {
		t.Errorf("%d jobs, %d offers after the audit", len(ids), len(after))
	}
	for id, seq := range before {
		if moved := after[id] != seq; moved != lost[id] {
			t.Errorf("%s was lost: %v; its offer was at %d and is at %d", id, lost[id], seq, after[id])
		}
	}
	info, err := st.Info(t.Context(), jetstream.WithSubjectFilter("weft.>"))
	if err != nil || info.State.LastSeq != uint64(len(ids)+missing) {
		t.Errorf("%d messages were stored for %d jobs and %d lost items: %v", info.State.LastSeq, len(ids), missing, err)
	}
}

package fabric_test

// These tests prove that a paused stage begins nothing, whoever would begin it and
// whatever is restarted or made anew meanwhile, and that it goes on when resumed.

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/weft-fabric/weft/fabric"
	"github.com/weft-fabric/weft/internal/natstest"
	"github.com/weft-fabric/weft/job"
	"github.com/weft-fabric/weft/kv"
	"github.com/weft-fabric/weft/worker"
)

func pauseStage(t *testing.T, f *fabric.Fabric, stage string) {
	t.Helper()
	if _, err := f.PauseStage(t.Context(), stage, "me@here", "a test"); err != nil {
		t.Fatal(err)
	}
}

func resumeStage(t *testing.T, f *fabric.Fabric, stage string) {
	t.Helper()
	if _, err := f.ResumeStage(t.Context(), stage); err != nil {
		t.Fatal(err)
	}
}

// passes waits until a time is over, where a test proves that nothing happens.
func passes(t *testing.T, d time.Duration) {
	t.Helper()
	end := time.Now().Add(d)
	natstest.Eventually(t, d+patience, "a moment passes", func() bool { return time.Now().After(end) })
}

// starts notes when attempts begin.
type starts struct {
	last  atomic.Int64 // wall clock in ns
	count atomic.Int64
}

func (s *starts) note() {
	s.last.Store(time.Now().UnixNano())
	s.count.Add(1)
}

// findings are what doctor has to say, without repairing.
func findings(t *testing.T, nc *nats.Conn, repair bool) (all []fabric.Finding) {
	t.Helper()
	err := fabric.Doctor(t.Context(), nc, fabric.DefaultOptions(), repair, func(f fabric.Finding) { all = append(all, f) })
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestNothingIsClaimedAfterAPauseWhileFourWorkersAreBusy(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	backend := join(t, s, terse(t))
	var began, ended starts
	do := func(_ context.Context, task *worker.Task) job.Outcome {
		began.note()
		defer ended.note()
		if task.Job().Attempt == 1 && began.count.Load()%5 == 0 {
			return job.Failed("to be tried again") // which its worker would do out of its turn
		}
		return job.Completed("data:,done")
	}
	many(t, backend.Fabric, specs(4000, job.Spec{Stage: "hash", InputRef: "x"})...)
	for range 4 {
		work(t, join(t, s, terse(t), afterPause).Fabric, "hash", 8, do)
	}
	natstest.Eventually(t, patience, "the workers are busy", func() bool { return ended.count.Load() > 200 })
	pauseStage(t, backend.Fabric, "hash")
	paused := time.Now()
	passes(t, 6*time.Second) // by then each worker has looked at the stage again
	if late := time.Unix(0, began.last.Load()).Sub(paused); late > time.Second {
		t.Errorf("a job began %s after the pause", late)
	} else {
		t.Logf("the last job began %s after the pause", late)
	}
	left := 0
	for j, err := range backend.List(t.Context(), fabric.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		if !j.State.Terminal() {
			left++
		}
		if j.State == job.StateLeased {
			t.Errorf("%s is still leased", j.ID)
		}
	}
	if left == 0 {
		t.Fatal("nothing was left to claim; the test shows nothing")
	}
	if found := findings(t, backend.nc, false); len(found) > 0 {
		t.Errorf("doctor finds %+v", found)
	}
	before := ended.count.Load()
	resumeStage(t, backend.Fabric, "hash")
	natstest.Eventually(t, patience, "the stage goes on", func() bool { return ended.count.Load() > before+100 })
}

// afterPause is the option of a backoff by which what failed before a pause becomes
// due when it has lasted longer than it may take.
func afterPause(o *fabric.Options) {
	o.Backoff = job.Backoff{Initial: 1500 * time.Millisecond, Max: 2 * time.Second, Factor: 1}
}

// specs are n of one kind.
func specs(n int, spec job.Spec) []job.Spec {
	all := make([]job.Spec, n)
	for i := range all {
		all[i] = spec
	}
	return all
}

func TestRunningJobEndsInAPausedStage(t *testing.T) {
	t.Parallel()
	f := open(t, natstest.Conn(t))
	enqueue(t, f, job.Spec{ID: "a", Stage: "hash", InputRef: "x"})
	r := runner(t, f, "")
	c := claimNext(t, r, "hash", "a")
	pauseStage(t, f, "hash")
	c = renew(t, r, c)
	settle(t, r, c, job.Completed("data:,done"))
	if j := get(t, f, "a"); j.State != job.StateSucceeded {
		t.Errorf("it is %s", j.State)
	}
}

func TestPauseOutlivesServerConsumersAndNewLanes(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	p := join(t, s)
	enqueue(t, p.Fabric, job.Spec{ID: "a", Stage: "hash", InputRef: "x"})
	pauseStage(t, p.Fabric, "hash")
	r := runner(t, p.Fabric, "")
	claimsNone(t, p.Fabric, r, "hash", "a", time.Second)

	s.Restart()
	again := join(t, s)
	ra := runner(t, again.Fabric, "")
	claimsNone(t, again.Fabric, ra, "hash", "a", time.Second)

	if err := serverJetStream(t, again.nc).DeleteConsumer(t.Context(), "WEFT_hash", "runners"); err != nil {
		t.Fatal(err)
	}
	claimsNone(t, again.Fabric, ra, "hash", "a", 2*time.Second)

	enqueue(t, again.Fabric, job.Spec{ID: "first", Stage: "hash", InputRef: "x", Priority: 1})
	claimsNone(t, again.Fabric, ra, "hash", "first", 2*time.Second)
	if found := findings(t, again.nc, false); len(found) > 0 {
		t.Errorf("doctor finds %+v", found)
	}

	resumeStage(t, again.Fabric, "hash")
	if held := claimAll(t, ra, "hash", 2); len(held) != 2 {
		t.Errorf("claimed %v", held)
	}
}

func TestPauseSaysWhoAndWhyAndKeepsUnknownMembers(t *testing.T) {
	t.Parallel()
	p := join(t, natstest.Start(t))
	enqueue(t, p.Fabric, job.Spec{ID: "a", Stage: "hash", InputRef: "x"})
	key := "$KV.weft." + kv.StageKey("hash")
	publish(t, p.nc, key, `{"stage":"hash","lease":"40s","concurrency":0,"color":{"of":"ours"}}`, 0)
	pauseStage(t, p.Fabric, "hash")
	pauseStage(t, p.Fabric, "hash") // once more changes nothing
	e, err := fabric.Bucket(p.Fabric).Get(t.Context(), kv.StageKey("hash"))
	if err != nil {
		t.Fatal(err)
	}
	var stored map[string]any
	if err := json.Unmarshal(e.Value, &stored); err != nil {
		t.Fatal(err)
	}
	if stored["paused"] != true || stored["paused_by"] != "me@here" || stored["pause_reason"] != "a test" || stored["lease"] != "40s" || stored["color"] == nil {
		t.Errorf("stored %s", e.Value)
	}
	resumeStage(t, p.Fabric, "hash")
	if e, err = fabric.Bucket(p.Fabric).Get(t.Context(), kv.StageKey("hash")); err != nil {
		t.Fatal(err)
	}
	if text := string(e.Value); text != `{"stage":"hash","lease":"40s","concurrency":0,"color":{"of":"ours"}}` {
		t.Errorf("stored %s", text)
	}
}

func TestDoctorFindsAPauseThatIsNotTheStages(t *testing.T) {
	t.Parallel()
	p := join(t, natstest.Start(t))
	enqueue(t, p.Fabric, job.Spec{ID: "a", Stage: "hash", InputRef: "x"})
	js := serverJetStream(t, p.nc)
	if _, err := js.PauseConsumer(t.Context(), "WEFT_hash", "runners", time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if found := findings(t, p.nc, false); len(found) != 1 || found[0].Repaired {
		t.Errorf("doctor finds %+v", found)
	}
	if found := findings(t, p.nc, true); len(found) != 1 || !found[0].Repaired {
		t.Errorf("doctor repairs %+v", found)
	}
	pauseStage(t, p.Fabric, "hash")
	if _, err := js.ResumeConsumer(t.Context(), "WEFT_hash", "runners"); err != nil {
		t.Fatal(err)
	}
	if found := findings(t, p.nc, true); len(found) != 1 || !found[0].Repaired {
		t.Errorf("doctor repairs %+v", found)
	}
	if found := findings(t, p.nc, false); len(found) > 0 {
		t.Errorf("doctor finds %+v", found)
	}
}

func TestStageThatIsNotThereIsMissing(t *testing.T) {
	t.Parallel()
	f := open(t, natstest.Conn(t))
	lease := time.Minute
	_, pauseErr := f.PauseStage(t.Context(), "hash", "", "")
	_, resumeErr := f.ResumeStage(t.Context(), "hash")
	_, setErr := f.SetStage(t.Context(), "hash", fabric.StageChange{Lease: &lease})
	_, reportErr := f.StageReport(t.Context(), "hash")
	for _, err := range []error{pauseErr, resumeErr, setErr, reportErr} {
		if !errors.Is(err, fabric.ErrMissingStage) {
			t.Errorf("%v", err)
		}
	}
}

func TestRunningWorkersTakeOverWhatIsSet(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	backend := join(t, s, terse(t))
	enqueue(t, backend.Fabric, job.Spec{ID: "first", Stage: "hash", InputRef: "x"})
	var mu sync.Mutex
	running, most := 0, 0
	do := func(ctx context.Context, _ *worker.Task) job.Outcome {
		mu.Lock()
		running++
		most = max(most, running)
		mu.Unlock()
		defer func() {
			mu.Lock()
			running--
			mu.Unlock()
		}()
		select {
		case <-ctx.Done():
		case <-time.After(20 * time.Millisecond):
		}
		return job.Completed("data:,done")
	}
	for range 2 {
		work(t, join(t, s, terse(t)).Fabric, "hash", 4, do)
	}
	awaitState(t, backend.Fabric, "first", job.StateSucceeded)
	lease, limit := 7*time.Second, 1
	if _, err := backend.SetStage(t.Context(), "hash", fabric.StageChange{Lease: &lease, Concurrency: &limit}); err != nil {
		t.Fatal(err)
	}
	if found := findings(t, backend.nc, false); len(found) > 0 {
		t.Errorf("doctor finds %+v", found)
	}
	mu.Lock()
	most = running
	mu.Unlock()
	ids := enqueueMany(t, backend.Fabric, 40, job.Spec{Stage: "hash", InputRef: "x"})
	awaitAll(t, backend.Fabric, patience, ids...)
	mu.Lock()
	if most != 1 {
		t.Errorf("%d ran at once", most)
	}
	mu.Unlock()
	natstest.Eventually(t, patience, "a claim has the new lease", func() bool {
		id := enqueue(t, backend.Fabric, job.Spec{Stage: "hash", InputRef: "x"}).ID
		for j, err := range backend.Watch(t.Context(), id) {
			if err != nil {
				t.Fatal(err)
			}
			if j.State == job.StateLeased {
				took := j.LeaseExpiresAt.Sub(j.UpdatedAt)
				return took == lease
			}
			if j.State.Terminal() {
				return false
			}
		}
		return false
	})
	unlimited := 0
	if _, err := backend.SetStage(t.Context(), "hash", fabric.StageChange{Concurrency: &unlimited}); err != nil {
		t.Fatal(err)
	}
	natstest.Eventually(t, patience, "several run at once", func() bool {
		awaitAll(t, backend.Fabric, patience, enqueueMany(t, backend.Fabric, 8, job.Spec{Stage: "hash", InputRef: "x"})...)
		mu.Lock()
		defer mu.Unlock()
		return most > 1
	})
	if found := findings(t, backend.nc, false); len(found) > 0 {
		t.Errorf("doctor finds %+v", found)
	}
}

func TestBadSettingsAreRefused(t *testing.T) {
	t.Parallel()
	f := open(t, natstest.Conn(t))
	enqueue(t, f, job.Spec{Stage: "hash", InputRef: "x"})
	for _, lease := range []time.Duration{0, -time.Second, 10 * time.Millisecond, 20 * 24 * time.Hour} {
		_, err := f.SetStage(t.Context(), "hash", fabric.StageChange{Lease: &lease})
		refused(t, err, job.ErrInvalidJob)
	}
	limit := -1
	_, err := f.SetStage(t.Context(), "hash", fabric.StageChange{Concurrency: &limit})
	refused(t, err, job.ErrInvalidJob)
	if st, err := f.Stage(t.Context(), "hash"); err != nil || st.Lease != 30*time.Second || st.Concurrency != 0 {
		t.Errorf("%+v, %v", st, err)
	}
}

func TestPauseHoldsOnThreeServers(t *testing.T) {
	t.Parallel()
	servers := natstest.Cluster(t)
	f := open(t, servers[0].Connect(), terse(t), threefold)
	r := runner(t, open(t, servers[1].Connect(), terse(t), threefold), "")
	enqueue(t, f, job.Spec{ID: "a", Stage: "hash", InputRef: "x"})
	settle(t, r, claimNext(t, r, "hash", "a"), job.Completed("data:,done"))
	pauseStage(t, f, "hash")
	enqueue(t, f, job.Spec{ID: "b", Stage: "hash", InputRef: "x"})
	claimsNone(t, f, r, "hash", "b", time.Second)
	if s := stageOf(t, f, "hash"); !s.Paused || s.Waiting != 1 {
		t.Errorf("%+v", s)
	}
	resumeStage(t, f, "hash")
	claimNext(t, r, "hash", "b")
}

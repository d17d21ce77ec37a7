package fabric_test

// These tests prove that jobs outlive what happens to the server: restarts, a
// kill, changed or deleted streams and consumers, a full disk.

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weft-fabric/weft/fabric"
	"github.com/weft-fabric/weft/internal/natstest"
	"github.com/weft-fabric/weft/internal/topology"
	"github.com/weft-fabric/weft/job"
	"github.com/weft-fabric/weft/worker"
)

// inFlight starts jobs that all run until the returned channel is closed.
func inFlight(t *testing.T, f *fabric.Fabric, stage string, n int) (ids []string, release chan struct{}) {
	t.Helper()
	ids = enqueueMany(t, f, n, job.Spec{Stage: stage, InputRef: "data:,x"})
	release = make(chan struct{})
	var started atomic.Int64
	work(t, f, stage, n, func(ctx context.Context, _ *worker.Task) job.Outcome {
		started.Add(1)
		select {
		case <-release:
			return job.Completed("data:,done")
		case <-ctx.Done():
			return job.Failed("stopped")
		}
	})
	natstest.Eventually(t, patience, "all jobs run", func() bool { return started.Load() >= int64(n) })
	return ids, release
}

func TestJobsInFlightSurviveARestartOfTheServer(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	f := open(t, srv.Connect(), terse(t))
	keep(t, f)
	ids, release := inFlight(t, f, "flight", 1000)
	srv.Restart()
	close(release)
	awaitAll(t, f, 2*patience, ids...)
	checkAttempts(t, f, ids, 1)
}

func TestJobsInFlightSurviveAKilledServer(t *testing.T) {
	t.Parallel()
	port, folder := fmt.Sprint(freePort(t)), t.TempDir()
	first := startChild(t, "server", port, folder)
	nc, err := nats.Connect("nats://127.0.0.1:"+port, nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	f := open(t, nc, terse(t))
	keep(t, f)
	ids, release := inFlight(t, f, "flight", 1000)
	first.kill(t)
	close(release)
	startChild(t, "server", port, folder)
	awaitAll(t, f, 2*patience, ids...)
	checkAttempts(t, f, ids, 1)
}

func checkAttempts(t *testing.T, f *fabric.Fabric, ids []string, most int64) {
	t.Helper()
	for _, id := range ids {
		if j, err := f.Get(t.Context(), id); err != nil || j.Attempt > most {
			t.Errorf("%s needed %d attempts: %v", id, j.Attempt, err)
		}
	}
}

// The keeper's view of the records goes on after a restart too.
func TestKeeperSeesWhatChangesAfterARestart(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	f := open(t, srv.Connect())
	keep(t, f)
	r := runner(t, f, "")
	enqueue(t, f, job.Spec{ID: "first", Stage: "a", InputRef: "data:,x"})
	enqueue(t, f, job.Spec{ID: "then", Stage: "b", InputRef: "data:,x", Dependencies: []string{"first"}})
	srv.Restart()
	finish(t, r, "a")
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	claims, err := r.Claim(ctx, "b", 1)
	if err != nil || claims[0].Job.ID != "then" {
		t.Fatalf("%v, %v", claims, err)
	}
}

func TestDeletedConsumerIsRecreatedAsConfigured(t *testing.T) {
	t.Parallel()
	nc := natstest.Conn(t)
	f := open(t, nc, func(o *fabric.Options) { o.Stage = fabric.StageSettings{Lease: 20 * time.Second, Concurrency: 7} })
	work(t, f, "work", 2, nil)
	awaitAll(t, f, patience, enqueue(t, f, job.Spec{Stage: "work", InputRef: "data:,x"}).ID)
	st := workQueue(t, nc, "work")
	before := consumerConfig(t, st, "runners")
	if err := st.DeleteConsumer(t.Context(), "runners"); err != nil {
		t.Fatal(err)
	}
	awaitAll(t, f, patience, enqueue(t, f, job.Spec{Stage: "work", InputRef: "data:,x"}).ID)
	after := consumerConfig(t, st, "runners")
	if before.AckWait != 20*time.Second || before.MaxAckPending != 7 {
		t.Errorf("configured as %+v", before)
	}
	if fmt.Sprintf("%+v", before) != fmt.Sprintf("%+v", after) {
		t.Errorf("recreated as %+v, it was %+v", after, before)
	}
}

func consumerConfig(t *testing.T, st jetstream.Stream, name string) jetstream.ConsumerConfig {
	t.Helper()
	c, err := st.Consumer(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return c.CachedInfo().Config
}

// A job that runs while its consumer is deleted and made again is not lost, and
// not run twice.
func TestJobThatRunsOutlivesItsConsumer(t *testing.T) {
	t.Parallel()
	nc := natstest.Conn(t)
	f := open(t, nc)
	r := runner(t, f, "")
	enqueue(t, f, job.Spec{ID: "held", Stage: "work", InputRef: "data:,x"})
	c := claim(t, r, "work")
	if err := workQueue(t, nc, "work").DeleteConsumer(t.Context(), "runners"); err != nil {
		t.Fatal(err)
	}
	var ran handled
	work(t, f, "work", 2, counted(&ran))
	awaitAll(t, f, patience, enqueue(t, f, job.Spec{Stage: "work", InputRef: "data:,x"}).ID)
	if err := r.Settle(t.Context(), c, job.Completed("data:,done")); err != nil {
		t.Fatal(err)
	}
	if ran.of("held") != 0 {
		t.Error("the held job was run by another worker")
	}
	natstest.Eventually(t, patience, "its item is gone", func() bool {
		return len(subjectsOf(t, workQueue(t, nc, "work"), "weft.>")) == 0
	})
}

func TestDriftedSettingsAreNamedAndRepaired(t *testing.T) {
	t.Parallel()
	nc := natstest.Conn(t)
	f := open(t, nc)
	waiting := enqueue(t, f, job.Spec{Stage: "work", InputRef: "data:,x"})
	drift(t, nc)
	_, err := fabric.Open(t.Context(), nc, fabric.DefaultOptions())
	if _, ok := errors.AsType[*topology.DriftError](err); !ok || !strings.Contains(err.Error(), "allow_direct") {
		t.Fatalf("a drifted bucket was opened: %v", err)
	}
	var found []string
	for _, repair := range []bool{true, false} {
		found = nil
		err := fabric.Doctor(t.Context(), nc, fabric.DefaultOptions(), repair, func(one fabric.Finding) {
			found = append(found, one.Subject+": "+one.Problem)
		})
		if err != nil {
			t.Fatal(err)
		}
		if repair {
			checkNamed(t, found, "allow_direct", "max_age", "ack_wait")
		}
	}
	if len(found) != 0 {
		t.Errorf("after the repair: %v", found)
	}
	if after := serverStream(t, nc, "KV_weft").CachedInfo().Config; after.MaxBytes != 1<<30 {
		t.Errorf("the operator's own limit is %d", after.MaxBytes)
	}
	again := open(t, nc)
	work(t, again, "work", 1, nil)
	awaitAll(t, again, patience, waiting.ID)
}

// drift changes settings that the fabric depends on, and one that it does not.
func drift(t *testing.T, nc *nats.Conn) {
	t.Helper()
	js := serverJetStream(t, nc)
	bucket := serverStream(t, nc, "KV_weft").CachedInfo().Config
	bucket.AllowDirect, bucket.MaxBytes = true, 1<<30
	queue := workQueue(t, nc, "work")
	items := queue.CachedInfo().Config
	items.MaxAge = time.Hour
	runners := consumerConfig(t, queue, "runners")
	runners.AckWait = time.Second
	_, err := js.UpdateStream(t.Context(), bucket)
	_, err2 := js.UpdateStream(t.Context(), items)
	_, err3 := queue.UpdateConsumer(t.Context(), runners)
	if err := errors.Join(err, err2, err3); err != nil {
		t.Fatal(err)
	}
}

func checkNamed(t *testing.T, found []string, settings ...string) {
	t.Helper()
	all := strings.Join(found, "\n")
	for _, s := range settings {
		if !strings.Contains(all, s) {
			t.Errorf("%s is not named in\n%s", s, all)
		}
	}
	if len(found) != len(settings) {
		t.Errorf("found\n%s", all)
	}
}

func TestStageThatDriftedIsNamedToItsWorkers(t *testing.T) {
	t.Parallel()
	nc := natstest.Conn(t)
	enqueue(t, open(t, nc), job.Spec{Stage: "work", InputRef: "data:,x"})
	queue := workQueue(t, nc, "work")
	runners := consumerConfig(t, queue, "runners")
	runners.MaxDeliver = 3
	if _, err := queue.UpdateConsumer(t.Context(), runners); err != nil {
		t.Fatal(err)
	}
	_, err := runner(t, open(t, nc), "").Claim(t.Context(), "work", 1)
	if err == nil || !strings.Contains(err.Error(), "max_deliver is 3 and must be -1") {
		t.Fatalf("%v", err)
	}
}

// The disk is full: who enqueues and who settles is told, a job that was refused
// is not there, one that was accepted runs once there is room.
func TestFullDiskIsSaidAndNothingIsHalfDone(t *testing.T) {
	t.Parallel()
	nc := natstest.Start(t, func(o *server.Options) { o.JetStreamMaxStore = 4 << 20 }).Connect()
	f := open(t, nc)
	r := runner(t, f, "")
	enqueue(t, f, job.Spec{ID: "held", Stage: "work", InputRef: "data:,x"})
	held := claim(t, r, "work")
	free := fillDisk(t, nc)
	accepted, refused := enqueueUntilRefused(t, f)
	if _, err := f.Get(t.Context(), refused); !errors.Is(err, job.ErrMissingJob) {
		t.Errorf("the refused job is there: %v", err)
	}
	if err := r.Settle(t.Context(), held, job.Completed("data:,done")); !saysFull(err) {
		t.Errorf("settled on a full disk: %v", err)
	}
	free()
	if err := r.Settle(t.Context(), held, job.Completed("data:,done")); err != nil {
		t.Error(err)
	}
	keep(t, f)
	var ran handled
	work(t, f, "work", 2, counted(&ran))
	awaitAll(t, f, patience, append(accepted, "held")...)
	if n := ran.of(refused) + ran.of("held"); n != 0 {
		t.Errorf("the refused and the settled job ran %d times", n)
	}
}

func saysFull(err error) bool {
	return err != nil && strings.Contains(err.Error(), "no room left")
}

// fillDisk fills up what JetStream may store, until the returned function is
// called.
func fillDisk(t *testing.T, nc *nats.Conn) (free func()) {
	t.Helper()
	js := serverJetStream(t, nc)
	_, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "ballast", Subjects: []string{"ballast"}})
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = js.Publish(t.Context(), "ballast", make([]byte, 64<<10))
	}
	return func() {
		if err := js.DeleteStream(t.Context(), "ballast"); err != nil {
			t.Fatal(err)
		}
	}
}

// enqueueUntilRefused gives the jobs whose records were written, and the first
// whose was not.
func enqueueUntilRefused(t *testing.T, f *fabric.Fabric) (accepted []string, refused string) {
	t.Helper()
	for i := 0; ; i++ {
		id := fmt.Sprintf("job%d", i)
		_, err := f.Enqueue(t.Context(), job.Spec{ID: id, Stage: "work", InputRef: "data:,x"})
		switch {
		case err == nil:
			accepted = append(accepted, id)
		case !saysFull(err):
			t.Fatal(err)
		case strings.Contains(err.Error(), "its record is written"):
			accepted = append(accepted, id)
		default:
			return accepted, id
		}
	}
}

package fabric_test

// These tests prove that a keeper takes over a long backlog in little memory and
// soon. WEFT_TEST_BACKLOG=200000 is the size that the promise is made for; by
// default the backlog is a tenth of it.

import (
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weft-fabric/weft/fabric"
	"github.com/weft-fabric/weft/internal/natstest"
	"github.com/weft-fabric/weft/job"
	"github.com/weft-fabric/weft/kv"
)

func backlogSize(t *testing.T) int {
	t.Helper()
	text := os.Getenv("WEFT_TEST_BACKLOG")
	if text == "" {
		return 20_000
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// fill writes waiting jobs and their items straight into bucket and stream, as
// enqueues would, but all at once.
func fill(t *testing.T, nc *nats.Conn, f *fabric.Fabric, stage string, n int) {
	t.Helper()
	if _, err := f.Stage(t.Context(), stage); err != nil {
		t.Fatal(err)
	}
	bodies := make([][]byte, n)
	for i := range bodies {
		j, err := job.New(job.Spec{ID: fmt.Sprintf("%s%d", stage, i), Stage: stage, InputRef: "data:,x", MaxAttempts: 3}, f.Now())
		if err != nil {
			t.Fatal(err)
		}
		bodies[i] = j.AppendJSON(nil)
	}
	revisions := publishAll(t, nc, n, func(i int) *nats.Msg {
		return &nats.Msg{Subject: "$KV.weft." + kv.JobKey(fmt.Sprintf("%s%d", stage, i)), Data: bodies[i]}
	})
	publishAll(t, nc, n, func(i int) *nats.Msg {
		revision := strconv.FormatUint(revisions[i], 10)
		return &nats.Msg{
			Subject: fmt.Sprintf("weft.work.%s.%s%d", stage, stage, i),
			Header:  nats.Header{"Weft-Revision": {revision}}, Data: bodies[i],
		}
	})
}

func publishAll(t *testing.T, nc *nats.Conn, n int, message func(i int) *nats.Msg) []uint64 {
	t.Helper()
	js := serverJetStream(t, nc)
	futures := make([]jetstream.PubAckFuture, n)
	sequences := make([]uint64, n)
	for i := range n {
		future, err := js.PublishMsgAsync(message(i), jetstream.WithStallWait(time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		futures[i] = future
	}
	for i, future := range futures {
		select {
		case ack := <-future.Ok():
			sequences[i] = ack.Sequence
		case err := <-future.Err():
			t.Fatal(err)
		}
	}
	return sequences
}

func TestKeeperTakesALongBacklogOverSoonAndInLittleMemory(t *testing.T) {
	t.Parallel()
	const soon, most = 10 * time.Second, 200 << 20
	size := backlogSize(t)
	server := natstest.Start(t)
	nc := server.Connect()
	f := open(t, nc, quiet)
	fill(t, nc, f, "long", size)
	r := runner(t, f, "")
	enqueue(t, f, job.Spec{ID: "first", Stage: "a", InputRef: "data:,x"})
	enqueue(t, f, job.Spec{ID: "then", Stage: "b", InputRef: "data:,x", Dependencies: []string{"first"}})
	finish(t, r, "a")
	st := workQueue(t, nc, "long")
	natstest.Eventually(t, patience, "the backlog is older than the grace", func() bool {
		return f.Now().Sub(lastStored(t, st)) > fabric.Grace
	})
	lost := fmt.Sprintf("long%d", size/2)
	if err := st.Purge(t.Context(), jetstream.WithPurgeSubject("weft.work.long."+lost)); err != nil {
		t.Fatal(err)
	}

	began := time.Now()
	keeper := startChild(t, "keeper", server.URL())
	if j := finish(t, r, "long"); j.Stage != "long" {
		t.Fatalf("claimed %s", j)
	}
	t.Logf("the first job started after %s", time.Since(began))
	finish(t, r, "b")
	took := time.Since(began)
	t.Logf("the first job that needed the keeper started after %s", took)
	if took > soon {
		t.Errorf("the keeper took over after %s", took)
	}
	natstest.Eventually(t, patience, "the audit brings a lost item back", func() bool {
		_, err := st.GetLastMsgForSubject(t.Context(), "weft.work.long."+lost)
		return err == nil
	})
	t.Logf("a lost item came back after %s", time.Since(began))
	memory := keeper.end(t)
	t.Logf("%d jobs wait, the keeper had at most %d MB", size, memory>>20)
	if memory > most && !raceEnabled {
		t.Errorf("the keeper had %d MB", memory>>20)
	}
}

// lastStored is when a stream's last message was stored, on the server's clock.
func lastStored(t *testing.T, st jetstream.Stream) time.Time {
	t.Helper()
	info, err := st.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return info.State.LastTime
}

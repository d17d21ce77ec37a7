package fabric_test

// These tests hold what was once broken: an object read slowly or not whole, an
// item in another stage than its job's, a leader's key that nobody renews, and an
// item in a lane that nobody looked at.

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weft-fabric/weft/fabric"
	"github.com/weft-fabric/weft/internal/natstest"
	"github.com/weft-fabric/weft/job"
	"github.com/weft-fabric/weft/kv"
)

// putObject stores an object of several chunks and gives its reference.
func putObject(t *testing.T, nc *nats.Conn) (ref string, data []byte) {
	t.Helper()
	store, err := serverJetStream(t, nc).CreateObjectStore(t.Context(), jetstream.ObjectStoreConfig{Bucket: "inputs"})
	if err != nil {
		t.Fatal(err)
	}
	data = bytes.Repeat([]byte("weft"), 200_000)
	if _, err := store.PutBytes(t.Context(), "big", data); err != nil {
		t.Fatal(err)
	}
	return "nats-obj://inputs/big", data
}

func openRef(t *testing.T, f *fabric.Fabric, ref string) io.ReadCloser {
	t.Helper()
	body, err := f.OpenRef(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = body.Close() })
	return body
}

// The client gives up an object after five seconds unless it is told not to.
func TestObjectMayBeReadSlowly(t *testing.T) {
	t.Parallel()
	nc := natstest.Conn(t)
	f := open(t, nc)
	ref, data := putObject(t, nc)
	body := openRef(t, f, ref)
	head := make([]byte, 10)
	if _, err := io.ReadFull(body, head); err != nil {
		t.Fatal(err)
	}
	pauseEnds := time.Now().Add(6 * time.Second)
	natstest.Eventually(t, patience, "a reader's pause ends", func() bool { return time.Now().After(pauseEnds) })
	rest, err := io.ReadAll(body)
	if err != nil || !bytes.Equal(append(head, rest...), data) {
		t.Fatalf("read %d of %d bytes: %v", len(head)+len(rest), len(data), err)
	}
}

func TestObjectThatLacksAChunkIsAnErrorToRead(t *testing.T) {
	t.Parallel()
	for name, lacks := range map[string]func(chunks []uint64) []uint64{
		"the first":  func(chunks []uint64) []uint64 { return chunks[:1] },
		"one within": func(chunks []uint64) []uint64 { return chunks[2:3] },
		"the last":   func(chunks []uint64) []uint64 { return chunks[len(chunks)-1:] },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			nc := natstest.Conn(t)
			f := open(t, nc)
			ref, data := putObject(t, nc)
			st := serverStream(t, nc, "OBJ_inputs")
			for _, seq := range lacks(chunksOf(t, st)) {
				if err := st.DeleteMsg(t.Context(), seq); err != nil {
					t.Fatal(err)
				}
			}
			ended := make(chan struct{}, 1)
			body := openRef(t, f, ref)
			go func() {
				got, err := io.ReadAll(body)
				if err == nil {
					t.Errorf("read %d of %d bytes without an error", len(got), len(data))
				}
				ended <- struct{}{}
			}()
			natstest.Eventually(t, 3*patience, "the reading ends", func() bool { return len(ended) > 0 })
		})
	}
}

// A reader that waits for what never comes holds up neither its context's end nor
// its own.
func TestObjectReaderThatWaitsCanBeEnded(t *testing.T) {
	t.Parallel()
	for _, way := range []string{"close", "cancel"} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			nc := natstest.Conn(t)
			f := open(t, nc)
			ref, _ := putObject(t, nc)
			st := serverStream(t, nc, "OBJ_inputs")
			for _, seq := range chunksOf(t, st) {
				if err := st.DeleteMsg(t.Context(), seq); err != nil {
					t.Fatal(err)
				}
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			body, err := f.OpenRef(ctx, ref)
			if err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() {
				_, err := io.ReadAll(body)
				ended <- err
			}()
			began := time.Now()
			if way == "cancel" {
				cancel()
			} else if err := body.Close(); err != nil {
				t.Error(err)
			}
			if err := await(t, ended, "the reading ends"); err == nil {
				t.Error("it ended without an error")
			}
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("it ended after %s", took)
			}
			_ = body.Close()
		})
	}
}

// chunksOf gives the sequences of an object store's chunks.
func chunksOf(t *testing.T, st jetstream.Stream) []uint64 {
	t.Helper()
	var chunks []uint64
	for seq := st.CachedInfo().State.FirstSeq; seq <= st.CachedInfo().State.LastSeq; seq++ {
		msg, err := st.GetMsg(t.Context(), seq)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(msg.Subject, "$O.inputs.C.") {
			chunks = append(chunks, seq)
		}
	}
	if len(chunks) < 4 {
		t.Fatalf("the object has %d chunks only", len(chunks))
	}
	return chunks
}

func TestItemInAnotherStageThanItsJobsIsRemoved(t *testing.T) {
	t.Parallel()
	for name, revision := range map[string]bool{"a bare spec": false, "an item of the record": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			nc := natstest.Conn(t)
			f := open(t, nc)
			if _, err := f.Stage(t.Context(), "stb"); err != nil {
				t.Fatal(err)
			}
			id := enqueue(t, f, job.Spec{Stage: "sta", InputRef: "data:,x"}).ID
			if rec := record(t, f, id); revision {
				publish(t, nc, "weft.work.stb."+id, string(rec.Raw), rec.Revision)
			} else {
				publish(t, nc, "weft.work.stb."+id, `{"input_ref":"data:,y"}`, 0)
			}
			emptied(t, runner(t, f, ""), nc, "stb")
			if j := get(t, f, id); j.State != job.StateWaiting || j.Stage != "sta" || j.InputRef != "data:,x" || j.Fence != 0 {
				t.Fatalf("the stray item made of the job %+v", j)
			}
			r := runner(t, f, "")
			settle(t, r, claimNext(t, r, "sta", id), job.CompletedWith(nil))
			if j := get(t, f, id); j.State != job.StateSucceeded || j.Attempt != 1 {
				t.Fatalf("%s after attempt %d", j.State, j.Attempt)
			}
			nothingLeft(t, nc, "sta")
		})
	}
}

// What somebody wrote under the leader's key has no time to live, so the server
// never removes it.
func TestKeeperLeadsThoughTheLeadersKeyHoldsGarbage(t *testing.T) {
	t.Parallel()
	nc := natstest.Conn(t)
	f := open(t, nc, terse(t))
	publish(t, nc, "$KV.weft."+kv.LeaderKey, "garbage", 0)
	first, err := fabric.Bucket(f).Get(t.Context(), kv.LeaderKey)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	keep(t, f)
	natstest.Eventually(t, 2*patience, "a keeper leads", seldom(200*time.Millisecond, func() bool {
		e, err := fabric.Bucket(f).Get(t.Context(), kv.LeaderKey)
		return err == nil && e.Exists() && e.Revision != first.Revision && bytes.Contains(e.Value, []byte(`"id":"kp_`))
	}))
	if took := time.Since(began); took < 15*time.Second {
		t.Errorf("the key was taken after %s, though a leader that lives may be that old", took)
	}
}

// The lane is one that no job was in before, so no consumer reads it.
func TestAuditFindsAnItemInALaneNotInUse(t *testing.T) {
	t.Parallel()
	nc := natstest.Conn(t)
	f := open(t, nc)
	enqueue(t, f, job.Spec{ID: "usual", Stage: "s", InputRef: "data:,x"})
	publish(t, nc, "weft.lane.s.2.lost1", `{"input_ref":"data:,y"}`, 0)
	r := runner(t, f, "")
	settle(t, r, claimNext(t, r, "s", "usual"), job.CompletedWith(nil))
	if _, err := f.Get(t.Context(), "lost1"); err == nil {
		t.Fatal("the item was found without an audit")
	}
	if err := fabric.Audit(t.Context(), f); err != nil {
		t.Fatal(err)
	}
	settle(t, r, claimNext(t, r, "s", "lost1"), job.CompletedWith(nil))
	if j := get(t, f, "lost1"); j.State != job.StateSucceeded || j.Priority != 2 || j.InputRef != "data:,y" {
		t.Fatalf("it became %+v", j)
	}
	nothingLeft(t, nc, "s")
}

// No transition leads there, but another program may write it. The item must not
// come back for ever.
func TestItemOfAWaitingJobWithoutAttemptsLeftIsRemoved(t *testing.T) {
	t.Parallel()
	p := join(t, natstest.Start(t), lease(short))
	r := runner(t, p.Fabric, "")
	enqueue(t, p.Fabric, job.Spec{ID: "spent", Stage: "hash", InputRef: "data:,x"})
	text := strings.Replace(string(record(t, p.Fabric, "spent").Raw), `"attempt":0`, `"attempt":3`, 1)
	putRecord(t, p.nc, "spent", text)
	enqueue(t, p.Fabric, job.Spec{ID: "next", Stage: "hash", InputRef: "data:,x"})
	settle(t, r, claimNext(t, r, "hash", "next"), job.CompletedWith(nil))
	emptied(t, r, p.nc, "hash")
	if j := get(t, p.Fabric, "spent"); j.State != job.StateWaiting || j.Attempt != 3 {
		t.Fatalf("%+v", j)
	}
}

// The order of an adopted job's key is in the grain of an enqueued one's: within
// the same millisecond neither is ahead by its decimals.
func TestAdoptedJobsKeyOrderIsInWholeMilliseconds(t *testing.T) {
	t.Parallel()
	p := join(t, natstest.Start(t))
	r := runner(t, p.Fabric, "")
	enqueue(t, p.Fabric, job.Spec{Stage: "hash", InputRef: "data:,first"})
	settle(t, r, claim(t, r, "hash"), job.CompletedWith(nil))
	publish(t, p.nc, "weft.work.hash.bare", `{"input_ref":"data:,x","key":"k"}`, 0)
	if c := claimNext(t, r, "hash", "bare"); c.Job.KeyOrder == 0 || c.Job.KeyOrder%int64(time.Millisecond) != 0 {
		t.Fatalf("key order %d", c.Job.KeyOrder)
	}
}

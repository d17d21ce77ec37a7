package fabric_test

// Helpers of the tests that follow one job through the two-write protocol:
// processes that die, items and records that nobody of the fabric wrote, and a
// look at what is left.

import (
	"context"
	"errors"
	"flag"
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

// TestMain lets more tests run at once than there are processors: most of their
// time they wait for a lease to run out.
func TestMain(m *testing.M) {
	flag.Parse()
	asked := false
	flag.Visit(func(f *flag.Flag) { asked = asked || f.Name == "test.parallel" })
	if !asked {
		_ = flag.Set("test.parallel", "8")
	}
	os.Exit(m.Run())
}

// process is a member of the fabric with a connection of its own, so that it can
// die without a word.
type process struct {
	*fabric.Fabric
	nc *nats.Conn
}

func join(t *testing.T, s *natstest.Server, edit ...func(*fabric.Options)) process {
	t.Helper()
	nc := s.Connect()
	return process{open(t, nc, edit...), nc}
}

func (p process) die() { p.nc.Close() }

// lease is the option of a lease for the stages that the test creates.
func lease(d time.Duration) func(*fabric.Options) {
	return func(o *fabric.Options) { o.Stage.Lease = d }
}

// short is a lease that tests let run out. On a busy machine a shorter one would
// run out under those who renew it too.
const short = 2 * time.Second

// attempts is the option of how often a job is tried that does not say.
func attempts(n int64) func(*fabric.Options) {
	return func(o *fabric.Options) { o.MaxAttempts = n }
}

// impatient is the option of a backoff that tests can wait for.
func impatient(o *fabric.Options) {
	o.Backoff = job.Backoff{Initial: time.Millisecond, Max: 5 * time.Millisecond, Factor: 2}
}

func get(t *testing.T, f *fabric.Fabric, id string) job.Job {
	t.Helper()
	j, err := f.Get(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func settle(t *testing.T, r *fabric.Runner, c job.Claim, o job.Outcome) {
	t.Helper()
	if err := r.Settle(t.Context(), c, o); err != nil {
		t.Fatalf("settle %s as %s: %v", c.Job.ID, o, err)
	}
}

func renew(t *testing.T, r *fabric.Runner, c job.Claim) job.Claim {
	t.Helper()
	c, err := r.Renew(t.Context(), c, nil)
	if err != nil {
		t.Fatalf("renew %s: %v", c.Job.ID, err)
	}
	return c
}

// claimNext takes a job and checks that it is the one expected.
func claimNext(t *testing.T, r *fabric.Runner, stage, id string) job.Claim {
	t.Helper()
	c := claim(t, r, stage)
	if c.Job.ID != id {
		t.Fatalf("claimed %s, attempt %d; want %s", c.Job.ID, c.Job.Attempt, id)
	}
	return c
}

// claimAll takes jobs of a stage until there are n of them.
func claimAll(t *testing.T, r *fabric.Runner, stage string, n int) map[string]job.Claim {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	held := map[string]job.Claim{}
	for len(held) < n {
		claims, err := r.Claim(ctx, stage, n-len(held))
		if err != nil {
			t.Fatalf("%d of %d claimed: %v", len(held), n, err)
		}
		for _, c := range claims {
			if old, twice := held[c.Job.ID]; twice {
				t.Fatalf("%s was handed out twice, at fences %d and %d", c.Job.ID, old.Token.Fence, c.Token.Fence)
			}
			held[c.Job.ID] = c
		}
	}
	return held
}

// claimsNone lets a runner ask for a while, and checks that the job was not
// claimed meanwhile.
func claimsNone(t *testing.T, f *fabric.Fabric, r *fabric.Runner, stage, id string, while time.Duration) {
	t.Helper()
	before := get(t, f, id).Fence
	ctx, cancel := context.WithTimeout(t.Context(), while)
	defer cancel()
	if claims, err := r.Claim(ctx, stage, 1); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("claimed %v, %v", claims, err)
	}
	if after := get(t, f, id).Fence; after != before {
		t.Fatalf("%s was claimed meanwhile: fence %d after %d", id, after, before)
	}
}

// awaitExpiry waits until the lease of a claim is over on the server's clock.
func awaitExpiry(t *testing.T, f *fabric.Fabric, c job.Claim) {
	t.Helper()
	natstest.Eventually(t, patience, "the lease of "+c.Job.ID+" runs out", func() bool {
		return !f.Now().Before(c.Token.ExpiresAt)
	})
}

// publish puts an item into the work queue as somebody without the fabric would;
// with a revision it looks like an item of the fabric's own.
func publish(t *testing.T, nc *nats.Conn, subject, body string, revision uint64) {
	t.Helper()
	msg := nats.NewMsg(subject)
	msg.Data = []byte(body)
	if revision != 0 {
		msg.Header.Set("Weft-Revision", strconv.FormatUint(revision, 10))
	}
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.PublishMsg(t.Context(), msg); err != nil {
		t.Fatal(err)
	}
}

// offerAgain publishes the item of a job anew, as the keeper would.
func offerAgain(t *testing.T, p process, id string) {
	t.Helper()
	rec := record(t, p.Fabric, id)
	publish(t, p.nc, "weft.work."+rec.Job.Stage+"."+id, string(rec.Raw), rec.Revision)
}

// record reads a job's record with its revision.
func record(t *testing.T, f *fabric.Fabric, id string) kv.Record {
	t.Helper()
	rec, err := fabric.Bucket(f).Load(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

// putRecord writes what stands under a job's id, past all checks.
func putRecord(t *testing.T, nc *nats.Conn, id, text string) {
	t.Helper()
	publish(t, nc, "$KV.weft."+kv.JobKey(id), text, 0)
}

// emptied lets a runner take what is void until a stage has nothing left.
func emptied(t *testing.T, r *fabric.Runner, nc *nats.Conn, stage string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if claims, err := r.Claim(ctx, stage, 1); err == nil {
			t.Errorf("claimed %s, where only void items were left", claims[0].Job.ID)
		}
	}()
	nothingLeft(t, nc, stage)
	cancel()
	<-done
}

// nothingLeft waits until a stage has no item and no schedule.
func nothingLeft(t *testing.T, nc *nats.Conn, stage string) {
	t.Helper()
	st := workQueue(t, nc, stage)
	natstest.Eventually(t, patience, "stage "+stage+" has no items", func() bool {
		info, err := st.Info(t.Context())
		return err == nil && info.State.Msgs == 0
	})
}

// refused checks that a call failed with a code and nothing else.
func refused(t *testing.T, err, code error) {
	t.Helper()
	if !errors.Is(err, code) {
		t.Fatalf("%v, want %v", err, code)
	}
}

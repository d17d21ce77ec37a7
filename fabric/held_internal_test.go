package fabric

// These tests prove that an item which comes while its job is held here never
// ends a claim that its holder has just renewed, or is renewing.

import (
	"context"
	"testing"
	"time"

	"github.com/weft-fabric/weft/internal/natstest"
	"github.com/weft-fabric/weft/job"
	"github.com/weft-fabric/weft/kv"
	"github.com/weft-fabric/weft/stream"
)

// heldTwice claims a job, lets its lease run out, and gives the claim together
// with an item of the job that has just been delivered again and whose record has
// been read.
func heldTwice(t *testing.T) (*Runner, job.Claim, *taking) {
	t.Helper()
	opts := Options{}
	opts.Stage.Lease = MinLease
	f, err := Open(t.Context(), natstest.Start(t).Connect(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	r, err := f.Runner("w1")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Enqueue(t.Context(), job.Spec{ID: "a", Stage: "hash", InputRef: "data:,x"}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	claims, err := r.Claim(ctx, "hash", 1)
	if err != nil {
		t.Fatal(err)
	}
	st, err := f.stages.get(ctx, "hash", job.DefaultPriority)
	if err != nil {
		t.Fatal(err)
	}
	deliveries := make(sink, 1)
	p, err := f.queue.Pull("hash", job.DefaultPriority, st.settings(), deliveries, r.log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	p.Want()
	select {
	case d := <-deliveries:
		natstest.Eventually(t, time.Minute, "the end of the lease", func() bool { return !f.Now().Before(claims[0].Token.ExpiresAt) })
		tk := &taking{r: r, ctx: ctx, item: d, stage: st}
		if done, err := tk.read(); done || err != nil {
			t.Fatal(done, err)
		}
		return r, claims[0], tk
	case <-ctx.Done():
		t.Fatal("the item did not come again")
		return nil, job.Claim{}, nil
	}
}

// sink has room for one item.
type sink chan *stream.Delivery

func (s sink) Room() int               { return cap(s) - len(s) }
func (s sink) Reserve() bool           { return s.Room() > 0 }
func (s sink) Give(d *stream.Delivery) { s <- d }

func TestItemReadBeforeARenewalDoesNotEndTheClaim(t *testing.T) {
	t.Parallel()
	r, c, tk := heldTwice(t)
	h := r.held("a")
	h.overdue.Store(true) // asked once already
	c, err := r.Renew(t.Context(), c, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !tk.heldHere(h) {
		t.Error("the renewed claim was given up for the record of before")
	}
	if err := r.Settle(t.Context(), c, job.CompletedWith(nil)); err != nil {
		t.Fatal(err)
	}
}

func TestItemDuringARenewalDoesNotEndTheClaim(t *testing.T) {
	t.Parallel()
	r, c, tk := heldTwice(t)
	h := r.held("a")
	h.overdue.Store(true)
	h.mu.Lock() // as a renewal under way
	done := tk.heldHere(h)
	h.mu.Unlock()
	if !done {
		t.Error("a claim was given up while its holder was at it")
	}
	if _, err := r.Renew(t.Context(), c, nil); err != nil {
		t.Fatal(err)
	}
}

func TestItemEndsAClaimWhoseHolderDidNotRenew(t *testing.T) {
	t.Parallel()
	r, c, tk := heldTwice(t)
	h := r.held("a")
	if !tk.heldHere(h) {
		t.Fatal("the holder was not asked first")
	}
	if tk.heldHere(h) {
		t.Fatal("a silent holder keeps its claim for ever")
	}
	if _, err := r.Renew(t.Context(), c, nil); codeOf(err) != job.CodeStaleLease {
		t.Fatalf("the ended claim was renewed: %v", err)
	}
}

// A claim that was ready while nobody asked for it, as when the stage's settings
// cannot be read, is handed out as soon as somebody asks, and not after its lease.
func TestReadyClaimIsHandedOutThoughTheStageCannotBeRead(t *testing.T) {
	t.Parallel()
	r, _, _ := heldTwice(t)
	h := r.held("a")
	taker := newTaker(r, "hash")
	taker.ready = []*holding{h}
	h.mu.Lock()
	h.rec.Job.LeaseExpiresAt = r.f.Now().Add(time.Minute)
	h.mu.Unlock()
	breakStage(t, r.f)
	claims, err := taker.claim(t.Context(), 1)
	if err != nil || len(claims) != 1 || claims[0].Job.ID != "a" {
		t.Fatalf("%v, %v", claims, err)
	}
	if _, err := taker.claim(t.Context(), 1); err == nil {
		t.Fatal("the stage could be read")
	}
	if taker.Reserve() {
		t.Error("another item is taken, though nobody can be handed its job")
	}
}

func TestClaimWhoseLeaseRanOutWhileItWasReadyIsNotHandedOut(t *testing.T) {
	t.Parallel()
	r, c, _ := heldTwice(t) // its lease has run out
	taker := newTaker(r, "hash")
	taker.ready = []*holding{r.held("a")}
	if claims := taker.collect(1, false); len(claims) != 0 {
		t.Fatalf("handed out %v", claims)
	}
	if _, err := r.Renew(t.Context(), c, nil); codeOf(err) != job.CodeStaleLease {
		t.Fatalf("and it can still be renewed: %v", err)
	}
}

// breakStage puts settings there that cannot be read, and has them read again.
func breakStage(t *testing.T, f *Fabric) {
	t.Helper()
	e, err := f.bucket.Get(t.Context(), kv.StageKey("hash"))
	if err == nil {
		_, err = f.bucket.Swap(t.Context(), kv.Write{Key: e.Key, Value: []byte("nonsense"), Revision: e.Revision})
	}
	if err != nil {
		t.Fatal(err)
	}
	f.stages.forget("hash")
}

package fabric_test

// These tests prove that an item is only a hint: doubled, void, spoilt or
// misplaced, it harms no job, and the next item is served.

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/weft-fabric/weft/fabric"
	"github.com/weft-fabric/weft/internal/natstest"
	"github.com/weft-fabric/weft/job"
	"github.com/weft-fabric/weft/kv"
)

func TestDuplicateItemOfALeasedJobRunsNothing(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	p, other := join(t, s), join(t, s)
	enqueue(t, p.Fabric, job.Spec{ID: "a", Stage: "hash", InputRef: "data:,x"})
	mine, yours := runner(t, p.Fabric, "mine"), runner(t, other.Fabric, "yours")
	bare := record(t, p.Fabric, "a")
	c := claimNext(t, mine, "hash", "a")
	before := record(t, p.Fabric, "a")
	for name, repeat := range map[string]func(){
		"at the record's revision": func() { offerAgain(t, p, "a") },
		"at an older revision":     func() { publish(t, p.nc, "weft.work.hash.a", string(bare.Raw), bare.Revision) },
		"without revision":         func() { publish(t, p.nc, "weft.work.hash.a", `{"input_ref":"data:,x"}`, 0) },
		"with a spoilt body":       func() { publish(t, p.nc, "weft.work.hash.a", `{"`, before.Revision) },
	} {
		repeat()
		next := enqueue(t, p.Fabric, job.Spec{Stage: "hash", InputRef: "data:,y"})
		settle(t, yours, claimNext(t, yours, "hash", next.ID), job.CompletedWith(nil))
		if after := record(t, p.Fabric, "a"); after.Revision != before.Revision || after.Job.Attempt != 1 || after.Job.Fence != 1 {
			t.Fatalf("%s: the record became %s", name, after.Raw)
		}
	}
	settle(t, mine, renew(t, mine, c), job.CompletedWith(nil))
	nothingLeft(t, p.nc, "hash")
}

func TestTwoItemsOfOneJobAtOneWorkerAreOneRun(t *testing.T) {
	t.Parallel()
	p := join(t, natstest.Start(t))
	r := runner(t, p.Fabric, "")
	// A job of the lane, so that the lane is served.
	lane := enqueue(t, p.Fabric, job.Spec{Stage: "hash", InputRef: "data:,x", Priority: 1})
	settle(t, r, claimNext(t, r, "hash", lane.ID), job.CompletedWith(nil))
	for range 10 {
		j := enqueue(t, p.Fabric, job.Spec{Stage: "hash", InputRef: "data:,x"})
		rec := record(t, p.Fabric, j.ID)
		publish(t, p.nc, "weft.lane.hash.1."+j.ID, string(rec.Raw), rec.Revision)
		other := enqueue(t, p.Fabric, job.Spec{Stage: "hash", InputRef: "data:,y"})
		held := claimAll(t, r, "hash", 2)
		if c := held[j.ID]; c.Job.Fence != 1 || c.Job.Attempt != 1 || held[other.ID].Job.Fence != 1 {
			t.Fatalf("claimed %+v", held)
		}
		for _, c := range held {
			settle(t, r, c, job.CompletedWith(nil))
		}
		if j := get(t, p.Fabric, j.ID); j.Fence != 1 || len(j.AttemptsLog) != 1 {
			t.Fatalf("%+v", j)
		}
	}
	emptied(t, r, p.nc, "hash")
}

func TestItemWhoseJobIsGoneIsRemoved(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	p := join(t, s)
	r := runner(t, p.Fabric, "")
	j := enqueue(t, p.Fabric, job.Spec{ID: "gone", Stage: "hash", InputRef: "data:,x"})
	rec := record(t, p.Fabric, "gone")
	settle(t, r, claimNext(t, r, "hash", "gone"), job.CompletedWith(nil))
	ended := record(t, p.Fabric, "gone")
	if _, err := fabric.Bucket(p.Fabric).Save(t.Context(), ended.Job, ended.Revision, time.Second); err != nil {
		t.Fatal(err)
	}
	natstest.Eventually(t, patience, "the record expires", func() bool {
		_, err := p.Get(t.Context(), "gone")
		return errors.Is(err, job.ErrMissingJob)
	})
	publish(t, p.nc, "weft.work.hash.gone", string(rec.Raw), rec.Revision)
	publish(t, p.nc, "weft.work.hash.never", `{"not":"a record"}`, rec.Revision)
	healthy := enqueue(t, p.Fabric, job.Spec{Stage: "hash", InputRef: "data:,y"})
	settle(t, r, claimNext(t, r, "hash", healthy.ID), job.CompletedWith(nil))
	nothingLeft(t, p.nc, "hash")
	for _, id := range []string{j.ID, "never"} {
		if _, err := p.Get(t.Context(), id); !errors.Is(err, job.ErrMissingJob) {
			t.Errorf("%s has a record again: %v", id, err)
		}
	}
}

func TestItemOlderThanEveryRecordIsRemoved(t *testing.T) {
	t.Parallel()
	var clock age
	p := join(t, natstest.Start(t), clock.clock)
	if _, err := p.Stage(t.Context(), "hash"); err != nil {
		t.Fatal(err)
	}
	publishRecord(t, p, "old", 5)
	clock.add(31 * 24 * time.Hour)
	healthy := enqueue(t, p.Fabric, job.Spec{Stage: "hash", InputRef: "data:,y"})
	claimNext(t, runner(t, p.Fabric, ""), "hash", healthy.ID)
	if _, err := p.Get(t.Context(), "old"); !errors.Is(err, job.ErrMissingJob) {
		t.Fatalf("it has a record again: %v", err)
	}
}

// publishRecord publishes the item of a job that has no record.
func publishRecord(t *testing.T, p process, id string, revision uint64) {
	t.Helper()
	j, err := job.New(job.Spec{ID: id, Stage: "hash", InputRef: "data:,x", MaxAttempts: 3}, p.Now())
	if err != nil {
		t.Fatal(err)
	}
	publish(t, p.nc, "weft.work.hash."+id, string(j.AppendJSON(nil)), revision)
}

func TestRecordThatTheDiskLostIsMadeAgainFromItsItem(t *testing.T) {
	t.Parallel()
	p := join(t, natstest.Start(t))
	if _, err := p.Stage(t.Context(), "hash"); err != nil {
		t.Fatal(err)
	}
	publishRecord(t, p, "lost", 5)
	r := runner(t, p.Fabric, "")
	settle(t, r, claimNext(t, r, "hash", "lost"), job.CompletedWith(nil))
	if j := get(t, p.Fabric, "lost"); j.State != job.StateSucceeded || j.Fence != 1 {
		t.Fatalf("%+v", j)
	}
}

func TestLostRecordIsMadeAgainThoughItsDependencyHasExpired(t *testing.T) {
	t.Parallel()
	p := join(t, natstest.Start(t))
	if _, err := p.Stage(t.Context(), "hash"); err != nil {
		t.Fatal(err)
	}
	publish(t, p.nc, "weft.work.hash.lost", `{"id":"lost","stage":"hash","input_ref":"data:,x","dependencies":["expired"],"key":"k","key_order":5,`+
		`"max_attempts":3,"attempt":0,"fence":0,"state":"waiting"}`, 5)
	r := runner(t, p.Fabric, "")
	settle(t, r, claimNext(t, r, "hash", "lost"), job.CompletedWith(nil))
}

func TestUnreadableItemLeavesAFailedRecordThatSaysWhy(t *testing.T) {
	t.Parallel()
	p := join(t, natstest.Start(t))
	if _, err := p.Stage(t.Context(), "hash"); err != nil {
		t.Fatal(err)
	}
	r := runner(t, p.Fabric, "")
	for id, bad := range map[string]struct{ body, why string }{
		"noJSON":     {`{"input_ref":`, "unexpected end"},
		"empty":      {``, "unexpected end"},
		"array":      {`[1]`, "not a JSON object"},
		"wrongType":  {`{"input_ref":7}`, "input_ref"},
		"noInput":    {`{}`, "input_ref must not be empty"},
		"otherId":    {`{"id":"x","input_ref":"data:,x"}`, `id "x"`},
		"otherStage": {`{"stage":"x","input_ref":"data:,x"}`, `stage "x"`},
		"dependency": {`{"input_ref":"data:,x","dependencies":["nobody"]}`, "missing_dependency nobody"},
		"attempts":   {`{"input_ref":"data:,x","max_attempts":-1}`, "max_attempts"},
	} {
		publish(t, p.nc, "weft.work.hash."+id, bad.body, 0)
		healthy := enqueue(t, p.Fabric, job.Spec{Stage: "hash", InputRef: "data:,y"})
		settle(t, r, claimNext(t, r, "hash", healthy.ID), job.CompletedWith(nil))
		j := awaitRecord(t, p.Fabric, id)
		if j.State != job.StateFailed || !strings.HasPrefix(j.Reason, "item rejected: ") || !strings.Contains(j.Reason, bad.why) {
			t.Errorf("%s is %s: %q", id, j.State, j.Reason)
		}
		if j.Stage != "hash" || j.FinishedAt.IsZero() || j.Attempt != 0 {
			t.Errorf("%s: %+v", id, j)
		}
	}
	nothingLeft(t, p.nc, "hash")
}

// awaitRecord waits until a job has a record.
func awaitRecord(t *testing.T, f *fabric.Fabric, id string) (j job.Job) {
	t.Helper()
	natstest.Eventually(t, patience, id+" has a record", func() bool {
		var err error
		j, err = f.Get(t.Context(), id)
		return err == nil
	})
	return j
}

func TestUnreadableItemOfAJobWithARecordRunsTheJob(t *testing.T) {
	t.Parallel()
	p := join(t, natstest.Start(t))
	r := runner(t, p.Fabric, "")
	for id, body := range map[string]string{"spoilt": `{"id":`, "another": `{"id":"b","stage":"hash","state":"waiting"}`, "elsewhere": `{"id":"elsewhere","stage":"x","state":"waiting"}`} {
		j := enqueue(t, p.Fabric, job.Spec{ID: id, Stage: "hash", InputRef: "data:,mine"})
		publish(t, p.nc, "weft.work.hash."+id, body, record(t, p.Fabric, id).Revision)
		c := claimNext(t, r, "hash", j.ID)
		if c.Job.InputRef != "data:,mine" || c.Job.Fence != 1 {
			t.Errorf("%s: claimed %+v", id, c.Job)
		}
		settle(t, r, c, job.CompletedWith(nil))
	}
}

func TestItemOfNoPossibleJobIsRemoved(t *testing.T) {
	t.Parallel()
	p := join(t, natstest.Start(t))
	if _, err := p.Stage(t.Context(), "hash"); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"a$b", "é", strings.Repeat("x", job.MaxIDLength+1)} {
		publish(t, p.nc, "weft.work.hash."+id, `{"input_ref":"data:,x"}`, 0)
	}
	r := runner(t, p.Fabric, "")
	healthy := enqueue(t, p.Fabric, job.Spec{Stage: "hash", InputRef: "data:,y"})
	settle(t, r, claimNext(t, r, "hash", healthy.ID), job.CompletedWith(nil))
	nothingLeft(t, p.nc, "hash")
}

func TestUnreadableRecordIsLeftAndOthersGoOn(t *testing.T) {
	t.Parallel()
	p := join(t, natstest.Start(t))
	r := runner(t, p.Fabric, "")
	enqueue(t, p.Fabric, job.Spec{ID: "bad", Stage: "hash", InputRef: "data:,x"})
	whole := record(t, p.Fabric, "bad")
	const spoilt = `{"id":"bad","state":"wai`
	putRecord(t, p.nc, "bad", spoilt)
	healthy := enqueue(t, p.Fabric, job.Spec{Stage: "hash", InputRef: "data:,y"})
	settle(t, r, claimNext(t, r, "hash", healthy.ID), job.CompletedWith(nil))
	nothingLeft(t, p.nc, "hash")
	for name, touch := range map[string]func() error{
		"get":    func() error { _, err := p.Get(t.Context(), "bad"); return err },
		"cancel": func() error { _, err := p.Cancel(t.Context(), "bad", "x"); return err },
		"retry":  func() error { _, err := p.Retry(t.Context(), "bad", "x"); return err },
		"enqueue": func() error {
			_, err := p.Enqueue(t.Context(), job.Spec{ID: "bad", Stage: "hash", InputRef: "data:,x"})
			return err
		},
	} {
		if err := touch(); !errors.Is(err, kv.ErrUnreadable) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if text, err := p.Raw(t.Context(), "bad"); err != nil || string(text) != spoilt {
		t.Fatalf("the record is %q, %v", text, err)
	}
	// Repaired by a person, it runs once it is offered again.
	if !json.Valid(whole.Raw) {
		t.Fatal("no record to repair with")
	}
	putRecord(t, p.nc, "bad", string(whole.Raw))
	enqueue(t, p.Fabric, job.Spec{ID: "bad", Stage: "hash", InputRef: "data:,x"})
	settle(t, r, claimNext(t, r, "hash", "bad"), job.CompletedWith(nil))
}

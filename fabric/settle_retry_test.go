package fabric_test

// These tests prove that an operator's retry gives a failed job one more attempt
// and keeps its history, and that no other job can be retried.

import (
	"testing"
	"time"

	"github.com/weft-fabric/weft/internal/natstest"
	"github.com/weft-fabric/weft/job"
)

func TestRetryGivesAFailedJobOneMoreAttempt(t *testing.T) {
	t.Parallel()
	p := join(t, natstest.Start(t))
	r := runner(t, p.Fabric, "w")
	spec := job.Spec{ID: "a", Stage: "hash", InputRef: "data:,x", MaxAttempts: 2}
	enqueue(t, p.Fabric, spec)
	for range 2 {
		settle(t, r, claimNext(t, r, "hash", "a"), job.FailedAfter("no luck", 0))
	}
	failed := get(t, p.Fabric, "a")
	if failed.State != job.StateFailed || len(failed.AttemptsLog) != 2 {
		t.Fatalf("%+v", failed)
	}
	for n := range int64(2) {
		j, err := p.Retry(t.Context(), "a", "the disk is free again")
		if err != nil || j.State != job.StateRetryWaiting || j.MaxAttempts != 3+n || j.Attempt != 2+n || j.Reason != "the disk is free again" {
			t.Fatalf("%+v, %v", j, err)
		}
		if again := enqueue(t, p.Fabric, spec); again.State != job.StateRetryWaiting {
			t.Fatalf("the same spec once more: %+v", again)
		}
		c := claimNext(t, r, "hash", "a")
		if c.Job.Attempt != 3+n || len(c.Job.AttemptsLog) != int(3+n) || c.Job.AttemptsLog[0] != failed.AttemptsLog[0] {
			t.Fatalf("%+v", c.Job)
		}
		settle(t, r, c, job.Failed("no luck again"))
		if j := get(t, p.Fabric, "a"); j.State != job.StateFailed {
			t.Fatalf("%+v", j)
		}
	}
	nothingLeft(t, p.nc, "hash")
}

func TestRetriedRecordDoesNotExpire(t *testing.T) {
	t.Parallel()
	p := join(t, natstest.Start(t))
	r := runner(t, p.Fabric, "")
	enqueue(t, p.Fabric, job.Spec{ID: "a", Stage: "hash", InputRef: "data:,x", MaxAttempts: 1})
	settle(t, r, claimNext(t, r, "hash", "a"), job.Failed("no luck"))
	bucket := serverStream(t, p.nc, "KV_weft")
	ttl := func() string {
		msg, err := bucket.GetLastMsgForSubject(t.Context(), "$KV.weft.job.a")
		if err != nil {
			t.Fatal(err)
		}
		return msg.Header.Get("Nats-TTL")
	}
	if ttl() == "" {
		t.Fatal("a failed job is kept for ever")
	}
	if _, err := p.Retry(t.Context(), "a", "again"); err != nil {
		t.Fatal(err)
	}
	if ttl() != "" {
		t.Fatalf("a retried job expires after %s", ttl())
	}
	c := claimNext(t, r, "hash", "a")
	if ttl() != "" {
		t.Fatalf("a leased job expires after %s", ttl())
	}
	settle(t, r, c, job.CompletedWith(nil))
	if ttl() == "" {
		t.Fatal("a succeeded job is kept for ever")
	}
}

func TestOnlyFailedJobsCanBeRetried(t *testing.T) {
	t.Parallel()
	p := join(t, natstest.Start(t))
	r := runner(t, p.Fabric, "")
	refuse := func(id string, want error) {
		t.Helper()
		before, _ := p.Raw(t.Context(), id)
		_, err := p.Retry(t.Context(), id, "again")
		refused(t, err, want)
		if after, _ := p.Raw(t.Context(), id); string(after) != string(before) {
			t.Fatalf("%s became %s", before, after)
		}
	}
	refuse("nobody", job.ErrMissingJob)
	enqueue(t, p.Fabric, job.Spec{ID: "a", Stage: "hash", InputRef: "data:,x"})
	refuse("a", job.ErrNotFailed) // waiting
	c := claimNext(t, r, "hash", "a")
	refuse("a", job.ErrNotFailed) // leased
	settle(t, r, c, job.FailedAfter("no luck", 50*time.Millisecond))
	refuse("a", job.ErrNotFailed) // retry_waiting
	settle(t, r, claimNext(t, r, "hash", "a"), job.CompletedWith(nil))
	refuse("a", job.ErrNotFailed) // succeeded
	enqueue(t, p.Fabric, job.Spec{ID: "b", Stage: "hash", InputRef: "data:,x"})
	if _, err := p.Cancel(t.Context(), "b", "x"); err != nil {
		t.Fatal(err)
	}
	refuse("b", job.ErrNotFailed) // cancelled
	publish(t, p.nc, "weft.work.hash.c", `{}`, 0)
	emptied(t, r, p.nc, "hash")
	refuse("c", job.ErrInvalidJob) // rejected: there is nothing to run
}

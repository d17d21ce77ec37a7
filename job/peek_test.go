package job_test

import (
	"slices"
	"testing"
	"time"

	"github.com/weft-fabric/weft/job"
)

// Peek must see in every record what Decode sees.
func TestPeekSeesWhatDecodeSees(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 6e6, time.UTC)
	waiting, err := job.New(job.Spec{ID: "a", Stage: "s", InputRef: "x", MaxAttempts: 2, Key: "k", Dependencies: []string{"b", "c"}}, now)
	if err != nil {
		t.Fatal(err)
	}
	waiting.KeyOrder = 7
	free := waiting
	free.WaitingOn = nil
	leased, token, err := free.Claim("rn_1", now, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	failed, err := leased.FailPermanently(token, "rn_1", "no", now)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []job.Job{waiting, free, leased, failed} {
		got, err := job.Peek(want.AppendJSON(nil))
		if err != nil {
			t.Fatal(err)
		}
		if got.ID != want.ID || got.Stage != want.Stage || got.State != want.State || got.Key != want.Key || got.KeyOrder != want.KeyOrder ||
			!slices.Equal(got.WaitingOn, want.WaitingOn) || !got.LeaseExpiresAt.Equal(want.LeaseExpiresAt) {
			t.Errorf("peek sees %#v of %#v", got, want)
		}
	}
	for _, broken := range []string{``, `null`, `[]`, `{"id":"a"}`, `{"id":"a","state":"odd"}`, `{"id":"a","state":"leased"}`} {
		if _, err := job.Peek([]byte(broken)); err == nil {
			t.Errorf("peek reads %q", broken)
		}
	}
}

package fabric

import (
	"testing"
	"time"

	"github.com/weft-fabric/weft/job"
)

func TestWhichClaimsHoldAPlace(t *testing.T) {
	const lease = 30 * time.Second
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	for _, c := range []struct {
		name  string
		job   job.Job
		since time.Time
		runs  bool
	}{
		{"being claimed", job.Job{State: job.StateWaiting, Fence: 4}, ago(lease), true},
		{"not claimed in time", job.Job{State: job.StateWaiting, Fence: 4}, ago(lease + flightGrace), false},
		{"a bare item being claimed", job.Job{}, ago(time.Second), true},
		{"its record is gone", job.Job{}, ago(time.Hour), false},
		{"taken over from another", job.Job{State: job.StateLeased, Fence: 4, LeaseExpiresAt: ago(1)}, now, true},
		{"leased", job.Job{State: job.StateLeased, Fence: 5, LeaseExpiresAt: now.Add(1)}, ago(time.Hour), true},
		{"lapsed", job.Job{State: job.StateLeased, Fence: 5, LeaseExpiresAt: now}, ago(time.Hour), false},
		{"taken over by another", job.Job{State: job.StateLeased, Fence: 6, LeaseExpiresAt: now.Add(lease)}, now, false},
		{"given back", job.Job{State: job.StateWaiting, Fence: 5}, now, false},
		{"failed once", job.Job{State: job.StateRetryWaiting, Fence: 5}, now, false},
		{"succeeded", job.Job{State: job.StateSucceeded, Fence: 5}, now, false},
		{"failed", job.Job{State: job.StateFailed, Fence: 5}, now, false},
		{"cancelled just now", job.Job{State: job.StateCancelled, Fence: 5, FinishedAt: ago(lease - 1)}, ago(time.Hour), true},
		{"cancelled", job.Job{State: job.StateCancelled, Fence: 5, FinishedAt: ago(lease)}, ago(time.Hour), false},
	} {
		if got := (holder{JobID: "a", Fence: 5, Since: c.since}).runs(c.job, now, lease); got != c.runs {
			t.Errorf("%s: it runs: %v", c.name, got)
		}
	}
}

func TestGatesOfAJob(t *testing.T) {
	st := Stage{Name: "hash", PerKey: 1, PerLabel: map[string]int{"tenant": 3, "zone": 2}}
	for _, c := range []struct {
		spec job.Spec
		keys []string
	}{
		{job.Spec{}, nil},
		{job.Spec{Key: "a b"}, []string{"limit.hash.key.a=20b"}},
		{job.Spec{Labels: map[string]string{"zone": "", "tenant": "a.b", "more": "x"}}, []string{"limit.hash.label.tenant.a=2Eb", "limit.hash.label.zone.="}},
	} {
		gates := st.gates(job.Job{Spec: c.spec})
		if len(gates) != len(c.keys) {
			t.Errorf("%+v: %+v", c.spec, gates)
			continue
		}
		for i, g := range gates {
			if g.key != c.keys[i] {
				t.Errorf("%+v: %s, want %s", c.spec, g.key, c.keys[i])
			}
		}
	}
}

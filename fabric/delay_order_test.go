package fabric_test

// These tests prove in which order jobs of a stage are served: urgent lanes ahead,
// a retry that is due before a backlog of its lane, and what was given back after
// those that wait.

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/weft-fabric/weft/fabric"
	"github.com/weft-fabric/weft/internal/natstest"
	"github.com/weft-fabric/weft/job"
)

// serve claims and completes jobs one by one and gives their ids.
func serve(t *testing.T, r *fabric.Runner, stage string, n int) (ids []string) {
	t.Helper()
	for range n {
		ids = append(ids, finish(t, r, stage).ID)
	}
	return ids
}

// A more urgent lane is never behind a less urgent one, and each lane is served in
// its own order.
func TestUrgentLanesAreAhead(t *testing.T) {
	t.Parallel()
	const each = 15
	f := open(t, natstest.Conn(t), quiet)
	want := map[int][]string{}
	for _, priority := range []int{4, 3, 2, 1} {
		for i := range each {
			id := fmt.Sprintf("lane%d_%d", priority, i)
			enqueue(t, f, job.Spec{ID: id, Stage: "work", InputRef: "data:,x", Priority: priority})
			want[priority] = append(want[priority], id)
		}
	}
	r, got := runner(t, f, ""), map[int][]string{}
	for range 4 * each {
		j := finish(t, r, "work")
		got[j.Lane()] = append(got[j.Lane()], j.ID)
		if len(got[1]) < len(got[2]) || len(got[2]) < len(got[3]) || len(got[3]) < len(got[4]) {
			t.Fatalf("served %v", got)
		}
	}
	for lane, ids := range want {
		if !slices.Equal(got[lane], ids) {
			t.Errorf("lane %d was served as %v", lane, got[lane])
		}
	}
}

func TestRetryThatIsDueIsServedBeforeABacklogOfItsLane(t *testing.T) {
	t.Parallel()
	const backlog = 60
	for _, priority := range []int{0, 4} {
		t.Run(fmt.Sprintf("priority_%d", priority), func(t *testing.T) {
			t.Parallel()
			nc := natstest.Conn(t)
			f := open(t, nc)
			r := runner(t, f, "")
			enqueue(t, f, job.Spec{ID: "retried", Stage: "work", InputRef: "data:,x", Priority: priority})
			settle(t, r, claimNext(t, r, "work", "retried"), job.FailedAfter("no luck", 100*time.Millisecond))
			for i := range backlog {
				enqueue(t, f, job.Spec{ID: fmt.Sprintf("later%d", i), Stage: "work", InputRef: "data:,x", Priority: priority})
			}
			urgent := enqueue(t, f, job.Spec{ID: "urgent", Stage: "work", InputRef: "data:,x", Priority: 1})
			due := get(t, f, "retried").AvailableAt
			natstest.Eventually(t, patience, "the retry is due", func() bool { return f.Now().After(due.Add(500 * time.Millisecond)) })
			got := serve(t, r, "work", backlog+2)
			if at := slices.Index(got, "retried"); at < 0 || at > 3 {
				t.Errorf("the retry was served after %d others", at)
			}
			if at := slices.Index(got, urgent.ID); at != 0 {
				t.Errorf("the urgent job was served after %d others", at)
			}
			natstest.Eventually(t, patience, "no item is left", func() bool {
				return len(subjectsOf(t, workQueue(t, nc, "work"), "weft.>")) == 0
			})
		})
	}
}

// While a retry runs that was claimed out of its turn, its turn comes: whoever is
// handed its item leaves the job alone, and goes on.
func TestRetryClaimedOutOfItsTurnRunsOnce(t *testing.T) {
	t.Parallel()
	const backlog = 20
	nc := natstest.Conn(t)
	f := open(t, nc)
	first, second := runner(t, f, "first"), runner(t, f, "second")
	enqueue(t, f, job.Spec{ID: "retried", Stage: "work", InputRef: "data:,x"})
	settle(t, first, claimNext(t, first, "work", "retried"), job.FailedAfter("no luck", 50*time.Millisecond))
	due := get(t, f, "retried").AvailableAt
	for i := range backlog {
		enqueue(t, f, job.Spec{ID: fmt.Sprintf("other%d", i), Stage: "work", InputRef: "data:,x"})
	}
	natstest.Eventually(t, patience, "the retry is due", func() bool { return f.Now().After(due.Add(500 * time.Millisecond)) })
	c := claimNext(t, first, "work", "retried")
	enqueue(t, f, job.Spec{ID: "last", Stage: "work", InputRef: "data:,x"})
	got := serve(t, second, "work", backlog+1) // with the retry's item before the last
	if slices.Contains(got, "retried") || got[backlog] != "last" {
		t.Errorf("served %v", got)
	}
	c = renew(t, first, c)
	settle(t, first, c, job.Completed("data:,done"))
	natstest.Eventually(t, patience, "no item is left", func() bool {
		return len(subjectsOf(t, workQueue(t, nc, "work"), "weft.>")) == 0
	})
	if j := get(t, f, "retried"); j.State != job.StateSucceeded || j.Fence != 2 {
		t.Errorf("%s, fence %d", j.State, j.Fence)
	}
}

func TestGivenBackJobsAreServedAfterThoseThatWait(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]job.Outcome{
		"released": job.Released(),
		"returned": job.Snoozed("not ready", 0),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := open(t, natstest.Conn(t))
			r := runner(t, f, "")
			for _, id := range []string{"a", "b", "c", "d"} {
				enqueue(t, f, job.Spec{ID: id, Stage: "work", InputRef: "data:,x"})
			}
			settle(t, r, claimNext(t, r, "work", "a"), end)
			settle(t, r, claimNext(t, r, "work", "b"), end)
			if got := serve(t, r, "work", 4); !slices.Equal(got, []string{"c", "d", "a", "b"}) {
				t.Errorf("served %v", got)
			}
		})
	}
}

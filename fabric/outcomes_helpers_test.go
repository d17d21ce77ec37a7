package fabric_test

// Helpers of the tests of outcomes: a backend's database, and jobs that end at once.

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weft-fabric/weft/fabric"
	"github.com/weft-fabric/weft/internal/natstest"
	"github.com/weft-fabric/weft/job"
)

// database is where a backend lands outcomes.
type database struct {
	mu     sync.Mutex
	states map[string]job.State // guarded by mu: by job id, the state landed last
	times  map[string]int       // guarded by mu: by outcome id, how often it was landed
}

func newDatabase() *database {
	return &database{states: map[string]job.State{}, times: map[string]int{}}
}

func (db *database) land(_ context.Context, o fabric.Outcome) error {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.states[o.Job.ID] = o.Job.State
	db.times[o.ID()]++
	return nil
}

func (db *database) state(id string) job.State {
	db.mu.Lock()
	defer db.mu.Unlock()
	return db.states[id]
}

func (db *database) jobs() int {
	db.mu.Lock()
	defer db.mu.Unlock()
	return len(db.states)
}

// outcomes is how many different outcomes of the job were landed.
func (db *database) outcomes(id string) (n int) {
	db.mu.Lock()
	defer db.mu.Unlock()
	for outcome := range db.times {
		if strings.HasPrefix(outcome, id+"/") {
			n++
		}
	}
	return n
}

// land takes of a feed until the test ends or the returned function is called.
func land(t *testing.T, f *fabric.Fabric, name string, handle fabric.OutcomeHandler, opts ...fabric.OutcomeOption) (stop func()) {
	t.Helper()
	return background(t, func(ctx context.Context) error { return f.Outcomes(ctx, name, handle, opts...) })
}

// quick is the option of an ack-wait that tests can wait for.
var quick = fabric.OutcomeAckWait(2 * time.Second)

// end makes a job that ends at once, as cancelled.
func end(t *testing.T, f *fabric.Fabric, id, stage string) {
	t.Helper()
	enqueue(t, f, job.Spec{ID: id, Stage: stage, InputRef: "data:,x"})
	if _, err := f.Cancel(t.Context(), id, "enough"); err != nil {
		t.Fatal(err)
	}
}

func awaitLanded(t *testing.T, db *database, ids ...string) {
	t.Helper()
	for _, id := range ids {
		natstest.Eventually(t, patience, id+" is landed", func() bool { return db.state(id) != "" })
	}
}

// untaken waits until no feed has anything left to give.
func untaken(t *testing.T, f *fabric.Fabric) {
	t.Helper()
	natstest.Eventually(t, patience, "all is taken and acknowledged", func() bool {
		feeds, err := f.Feeds(t.Context())
		if err != nil { // a consumer may have no leader yet
			return false
		}
		for _, s := range feeds {
			if s.Pending > 0 || s.Unacked > 0 {
				return false
			}
		}
		return len(feeds) > 0
	})
}

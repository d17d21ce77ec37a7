package fabric

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/weft-fabric/weft/job"
)

// index is what the keeper remembers of the jobs it may have to act on: those
// under a lease, those that wait for others, those of a key, and those that
// changed a moment ago. It grows with them and not with all jobs ever kept.
type index struct {
	mu         sync.Mutex
	leased     map[string]time.Time        // guarded by mu: until when, on the server's clock
	recent     map[string]time.Time        // guarded by mu: since when a waiting job is as it is, local
	blocked    map[string][]string         // guarded by mu: what a job waits for
	dependents map[string]set              // guarded by mu: who waits for a job
	toCheck    set                         // guarded by mu: blocked jobs whose dependencies are to be read
	keys       map[string]map[string]int64 // guarded by mu: live jobs of a key and their orders
	keyOf      map[string]string           // guarded by mu: the key of a live job
}

type set map[string]struct{}

func newIndex() *index {
	return &index{
		leased: map[string]time.Time{}, recent: map[string]time.Time{}, blocked: map[string][]string{},
		dependents: map[string]set{}, toCheck: set{}, keys: map[string]map[string]int64{}, keyOf: map[string]string{},
	}
}

// put notes a job as it now is. It reports whether there is something to do at
// once: a dependency has ended, or a job begins to wait for some.
func (x *index) put(j job.Job, now time.Time) (urgent bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.drop(j.ID)
	switch {
	case j.State.Terminal():
		for id := range x.dependents[j.ID] {
			x.toCheck[id] = struct{}{}
			urgent = true
		}
		return urgent
	case j.State == job.StateLeased:
		x.leased[j.ID] = j.LeaseExpiresAt
	default:
		x.recent[j.ID] = now
	}
	if len(j.WaitingOn) > 0 {
		x.block(j)
		urgent = true
	}
	if j.Key != "" {
		x.keyOf[j.ID] = j.Key
		if x.keys[j.Key] == nil {
			x.keys[j.Key] = map[string]int64{}
		}
		x.keys[j.Key][j.ID] = j.KeyOrder
	}
	return urgent
}

// block notes whom a job waits for. Indexed first, its dependencies are read
// after: one that ends in between is seen by the one or the other. mu is held.
func (x *index) block(j job.Job) {
	x.blocked[j.ID] = j.WaitingOn
	x.toCheck[j.ID] = struct{}{}
	for _, dep := range j.WaitingOn {
		if x.dependents[dep] == nil {
			x.dependents[dep] = set{}
		}
		x.dependents[dep][j.ID] = struct{}{}
	}
}

// remove forgets a job whose record is gone.
func (x *index) remove(id string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.drop(id)
}

// drop takes a job out of everything but what others wait for. mu is held.
func (x *index) drop(id string) {
	delete(x.leased, id)
	delete(x.recent, id)
	delete(x.toCheck, id)
	for _, dep := range x.blocked[id] {
		delete(x.dependents[dep], id)
		if len(x.dependents[dep]) == 0 {
			delete(x.dependents, dep)
		}
	}
	delete(x.blocked, id)
	if key, ok := x.keyOf[id]; ok {
		delete(x.keys[key], id)
		if len(x.keys[key]) == 0 {
			delete(x.keys, key)
		}
		delete(x.keyOf, id)
	}
}

// dueJobs are the jobs that the keeper has to look at now.
type dueJobs struct {
	blocked     []string // with dependencies to read
	expired     []string // with a lease past its end
	settledDown []string // waiting unchanged for the grace
}

// due takes out what is to be looked at: local is the local clock, server the
// server's. Each job is given once; it comes back when its record changes.
func (x *index) due(local, server time.Time) dueJobs {
	x.mu.Lock()
	defer x.mu.Unlock()
	due := dueJobs{blocked: slices.Collect(maps.Keys(x.toCheck))}
	clear(x.toCheck)
	for id, until := range x.leased {
		if !server.Before(until.Add(expiryGrace)) {
			due.expired = append(due.expired, id)
			delete(x.leased, id)
		}
	}
	for id, since := range x.recent {
		if local.Sub(since) >= keeperGrace {
			due.settledDown = append(due.settledDown, id)
			delete(x.recent, id)
		}
	}
	return due
}

// rivals are the live jobs of the same key that the job supersedes.
func (x *index) rivals(j job.Job) []string {
	x.mu.Lock()
	defer x.mu.Unlock()
	var ids []string
	for id, order := range x.keys[j.Key] {
		if pointerTo(j).ahead(pointer{id, order}) {
			ids = append(ids, id)
		}
	}
	return ids
}

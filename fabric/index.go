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
// changed a moment ago. It grows with them and not with all jobs ever kept. Only
// the goroutine of the follower puts jobs in, so that what it knows never goes back
// to something older.
type index struct {
	mu         sync.Mutex
	leased     map[string]time.Time        // guarded by mu: until when, on the server's clock
	recent     map[string]time.Time        // guarded by mu: since when a waiting job is as it is, local
	failed     map[string]time.Time        // guarded by mu: since when something for a job is undone, local
	blocked    map[string][]string         // guarded by mu: what a job waits for
	dependents map[string]set              // guarded by mu: who waits for a job
	toCheck    set                         // guarded by mu: blocked jobs whose dependencies are to be read
	keys       map[string]map[string]int64 // guarded by mu: live jobs of a key and their orders
	keyOf      map[string]string           // guarded by mu: the key of a live job
	contested  map[string]time.Time        // guarded by mu: since when a key has several live jobs, local
}

type set map[string]struct{}

func newIndex() *index {
	return &index{
		leased: map[string]time.Time{}, recent: map[string]time.Time{}, failed: map[string]time.Time{},
		blocked: map[string][]string{}, dependents: map[string]set{}, toCheck: set{},
		keys: map[string]map[string]int64{}, keyOf: map[string]string{}, contested: map[string]time.Time{},
	}
}

// put notes a job as it now is. A waiting job is looked at after the grace if it
// is fresh; of one that has been as it is for longer the audit takes care. put
// reports whether there is something to do at once: a dependency has ended, or a
// job begins to wait for some.
func (x *index) put(j job.Job, now time.Time, fresh bool) (urgent bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.drop(j.ID)
	switch {
	case j.State.Terminal():
		return x.ended(j.ID)
	case j.State == job.StateLeased:
		x.leased[j.ID] = j.LeaseExpiresAt
	case fresh:
		x.recent[j.ID] = now
	}
	if len(j.WaitingOn) > 0 {
		x.block(j)
		urgent = true
	}
	if j.Key != "" {
		x.compete(j, now)
	}
	return urgent
}

// ended marks those for a look who wait for the job. mu is held.
func (x *index) ended(id string) (awaited bool) {
	for dependent := range x.dependents[id] {
		x.toCheck[dependent] = struct{}{}
		awaited = true
	}
	return awaited
}

// compete notes a live job of a key, and whether it is the only one. mu is held.
func (x *index) compete(j job.Job, now time.Time) {
	x.keyOf[j.ID] = j.Key
	if x.keys[j.Key] == nil {
		x.keys[j.Key] = map[string]int64{}
	}
	x.keys[j.Key][j.ID] = j.KeyOrder
	if _, noted := x.contested[j.Key]; len(x.keys[j.Key]) > 1 && !noted {
		x.contested[j.Key] = now
	}
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
	delete(x.failed, id)
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
		delete(x.keyOf, id)
		if len(x.keys[key]) <= 1 {
			delete(x.contested, key)
		}
		if len(x.keys[key]) == 0 {
			delete(x.keys, key)
		}
	}
}

// urgent takes out what must not wait: blocked jobs whose dependencies are to be
// read, and those whose lease is past its end on the server's clock. Each is
// given once; it comes back when its record changes.
func (x *index) urgent(server time.Time) (blocked, expired []string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	blocked = slices.Collect(maps.Keys(x.toCheck))
	clear(x.toCheck)
	for id, until := range x.leased {
		if !server.Before(until.Add(expiryGrace)) {
			expired = append(expired, id)
			delete(x.leased, id)
		}
	}
	return blocked, expired
}

// lasts notes that a lease that seemed to be over is not, unless the watch has
// said so already.
func (x *index) lasts(id string, until time.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if _, known := x.leased[id]; !known {
		x.leased[id] = until
	}
}

// patient takes out what has waited for the grace, on the local clock: jobs that
// wait unchanged, jobs for which something failed, and keys of several live jobs.
// A key comes back after another grace as long as it is contested.
func (x *index) patient(local time.Time) (settledDown, failed, contested []string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	settledDown, failed = passed(x.recent, local), passed(x.failed, local)
	contested = passed(x.contested, local)
	for _, key := range contested {
		x.contested[key] = local
	}
	return settledDown, failed, contested
}

// passed takes out the names whose grace is over.
func passed(since map[string]time.Time, now time.Time) (names []string) {
	for name, at := range since {
		if now.Sub(at) >= keeperGrace {
			names = append(names, name)
			delete(since, name)
		}
	}
	return names
}

// again has jobs looked at after the grace, since something for them failed.
func (x *index) again(ids []string, now time.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, id := range ids {
		x.failed[id] = now
	}
}

// remind marks those for a look who wait for a job that has ended.
func (x *index) remind(id string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.ended(id)
}

// live are the live jobs of a key.
func (x *index) live(key string) []pointer {
	x.mu.Lock()
	defer x.mu.Unlock()
	var jobs []pointer
	for id, order := range x.keys[key] {
		jobs = append(jobs, pointer{id, order})
	}
	return jobs
}

package fabric

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/weft-fabric/weft/job"
	"github.com/weft-fabric/weft/kv"
)

// A gate lets so many jobs of one value run at once: of a label's value, or of a key.
// Its record names those that hold it, and is changed by compare-and-set: before the
// claim by whoever is about to claim, after the record of the job by whoever settles.
//
// It is safe, since nobody is handed a job that has no place in its gates. It makes
// progress, since a place is only as good as the job's record: whoever finds the gate
// full takes out those that do not run any more, whatever became of their workers.

// gate is one limit that a job is under.
type gate struct {
	key   string // in the bucket
	what  string // for people: tenant=acme
	flag  string // of weft stage set, up to the number
	limit int
	whole bool // of the stage, and not of a value
}

// gates are the limits that a job is under, by the stage's settings.
func (s Stage) gates(j job.Job) (gates []gate) {
	if s.PerKey > 0 && j.Key != "" {
		gates = append(gates, gate{kv.LimitKey(s.Name, "key", j.Key), "key " + j.Key, "--per-key ", s.PerKey, false})
	}
	for _, name := range slices.Sorted(maps.Keys(s.PerLabel)) {
		if value, labelled := j.Labels[name]; labelled {
			gates = append(gates, gate{kv.LimitKey(s.Name, "label", name, value), name + "=" + value, "--per-label " + name + "=", s.PerLabel[name], false})
		}
	}
	if s.gated() {
		gates = append(gates, gate{kv.LimitKey(s.Name, "stage"), "the stage", "--concurrency ", s.Concurrency, true})
	}
	return gates
}

// mostGated is the greatest limit of a stage that is kept by a gate as well. The
// server counts the items that it has handed out of each lane: not of all lanes
// together, and not one that somebody has replaced by hand while its job runs.
const mostGated = 64

// gated reports whether the stage's own limit is kept by a gate.
func (s Stage) gated() bool { return s.Concurrency > 0 && s.Concurrency <= mostGated }

// holder is a claim that has a place in a gate.
type holder struct {
	JobID string    `json:"job_id"`
	Fence int64     `json:"fence"`
	Since time.Time `json:"since"`
}

// gateRecord is the stored form.
type gateRecord struct {
	Holders []holder `json:"holders"`
}

const (
	// gateKept is how long a gate's record stays that nobody touches; a holder
	// touches it four times as often.
	gateKept = 48 * time.Hour
	// gateEmpty is how long one stays that nobody holds.
	gateEmpty = time.Minute
	// flightGrace is added to the time in which a claim must have been written.
	flightGrace = time.Second
	// fullFor is how long a process takes a gate for full that it found so.
	fullFor = 200 * time.Millisecond
	// fullKnown is how many such gates a process remembers.
	fullKnown = 4096
)

// gateways are the gates that a process goes through now, each by one at a time: its
// own workers need not find out by refused writes that they meet.
type gateways struct {
	mu   sync.Mutex
	open map[string]*gateway  // guarded by mu
	full map[string]time.Time // guarded by mu: until when gates are taken for full, local
}

type gateway struct {
	users int // guarded by the mu of gateways
	mu    sync.Mutex
}

func newGateways() *gateways {
	return &gateways{open: map[string]*gateway{}, full: map[string]time.Time{}}
}

// at takes a gate for the caller alone, of this process.
func (g *gateways) at(key string) (leave func()) {
	g.mu.Lock()
	w := g.open[key]
	if w == nil {
		w = &gateway{}
		g.open[key] = w
	}
	w.users++
	g.mu.Unlock()
	w.mu.Lock()
	return func() {
		w.mu.Unlock()
		g.mu.Lock()
		defer g.mu.Unlock()
		if w.users--; w.users == 0 {
			delete(g.open, key)
		}
	}
}

func (g *gateways) knownFull(key string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return time.Now().Before(g.full[key])
}

func (g *gateways) setFull(key string, full bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.full, key)
	if len(g.full) >= fullKnown {
		clear(g.full)
	}
	if full {
		g.full[key] = time.Now().Add(fullFor)
	}
}

// changeHolders changes who holds a gate. change may be called again with what
// others have made of it, and reports whether there is something to write.
func (f *Fabric) changeHolders(ctx context.Context, key string, change func([]holder) ([]holder, bool)) error {
	defer f.gateways.at(key)()
	e, err := f.bucket.Get(ctx, key)
	for err == nil {
		next, write := change(holdersOf(e))
		if !write {
			return nil
		}
		w := kv.Write{Key: key, TTL: gateKept}
		if len(next) == 0 {
			w.TTL = gateEmpty
		}
		if e.Exists() {
			w.Revision = e.Revision
		}
		if w.Value, err = json.Marshal(gateRecord{next}); err != nil {
			return err
		}
		_, err = f.bucket.Swap(ctx, w)
		conflict, moved := errors.AsType[*kv.Conflict](err)
		if !moved {
			return err
		}
		e, err = conflict.Current, ctx.Err()
		time.Sleep(rand.N(time.Millisecond)) // else many processes refuse each other for long
	}
	return err
}

// holdersOf reads a gate. One that cannot be read is as good as none: it is written
// anew, and those who hold it come back with their next renewals.
func holdersOf(e kv.Entry) []holder {
	var rec gateRecord
	if e.Exists() {
		_ = json.Unmarshal(e.Value, &rec)
	}
	return rec.Holders
}

// enter gives a claim a place in a gate, if one is free.
func (f *Fabric) enter(ctx context.Context, g gate, mine holder, lease time.Duration) (entered bool, err error) {
	if f.gateways.knownFull(g.key) {
		return false, nil
	}
	var readErr error
	err = f.changeHolders(ctx, g.key, func(holders []holder) ([]holder, bool) {
		holders = others(holders, mine)
		if len(holders) >= g.limit {
			holders, readErr = f.holding(ctx, holders, lease)
		}
		entered = readErr == nil && len(holders) < g.limit
		return append(holders, mine), entered
	})
	if err = errors.Join(err, readErr); err != nil {
		return false, err
	}
	if !entered {
		f.gateways.setFull(g.key, true)
	}
	return entered, nil
}

// leave gives a place back.
func (f *Fabric) leave(ctx context.Context, g gate, mine holder) error {
	err := f.changeHolders(ctx, g.key, func(holders []holder) ([]holder, bool) {
		rest := others(holders, mine)
		return rest, len(rest) < len(holders)
	})
	f.gateways.setFull(g.key, false)
	return err
}

// stay makes sure that a claim which runs has its place, also one that was taken out
// after its lease had lapsed.
func (f *Fabric) stay(ctx context.Context, g gate, mine holder) error {
	return f.changeHolders(ctx, g.key, func(holders []holder) ([]holder, bool) {
		return append(others(holders, mine), mine), true
	})
}

// others takes a claim out.
func others(holders []holder, mine holder) []holder {
	return slices.DeleteFunc(slices.Clone(holders), func(h holder) bool { return h.JobID == mine.JobID && h.Fence == mine.Fence })
}

// holding are those of the holders whose claims run, or may run.
func (f *Fabric) holding(ctx context.Context, holders []holder, lease time.Duration) (running []holder, err error) {
	for _, h := range holders {
		rec, err := f.bucket.Load(ctx, h.JobID)
		if err != nil && !errors.Is(err, job.ErrMissingJob) && !errors.Is(err, kv.ErrUnreadable) {
			return holders, err
		}
		if h.runs(rec.Job, f.Now(), lease) {
			running = append(running, h)
		}
	}
	return running, nil
}

// runs tells by the job's record whether a claim may be running. A record that is
// not there, or cannot be read, has fence 0.
func (h holder) runs(j job.Job, now time.Time, lease time.Duration) bool {
	switch {
	case j.Fence < h.Fence: // the claim is being written, and handed out within a lease if at all
		return now.Before(h.Since.Add(lease + flightGrace))
	case j.Fence > h.Fence: // somebody has taken the job over
		return false
	case j.State == job.StateLeased:
		return now.Before(j.LeaseExpiresAt)
	case j.State == job.StateCancelled: // by somebody else; its holder learns of it when it renews
		return now.Before(j.FinishedAt.Add(lease))
	}
	return false // its holder has settled it, or its lease has ended
}

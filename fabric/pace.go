package fabric

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weft-fabric/weft/kv"
)

// A stage's rate is kept in one key, rate.<stage>, that all workers move forward by
// compare-and-set: whoever moves it by n intervals may begin n jobs. It is asked for
// when items have come and are about to be claimed, for as many as these are. So
// an idle stage asks for nothing, what is reserved is used at once, and a worker
// that dies has lost no more than what it was just claiming.
//
// When nothing is left for now, the item is given back until there is, and the
// process's workers of the stage ask for no more until then: the items stay in the
// queue in their order. All times are on the server's clock.

// pace is what one process knows of a stage's rate.
type pace struct {
	stage   string
	waiting atomic.Int64 // how many callers of start there are
	seen    atomic.Int64 // tat in ns, for those who do not wait for mu

	mu       sync.Mutex
	reserved int       // guarded by mu: may begin, of what was asked for those who wait
	tat      time.Time // guarded by mu: as last seen
	revision uint64    // guarded by mu: of the key, as last seen
}

// paceRecord is the stored form.
type paceRecord struct {
	TAT time.Time `json:"tat"`
}

// paceKept is how long the key stays after the last start, at least: longer than it
// says anything.
const paceKept = time.Hour

// allowance is how many jobs may begin now, as far as this process knows, and how
// long it takes until the next one may.
func (p *pace) allowance(r Rate, now time.Time) (jobs int, wait time.Duration) {
	var tat time.Time
	if seen := p.seen.Load(); seen != 0 {
		tat = time.Unix(0, seen)
	}
	jobs, _, _ = r.grant(tat, now, math.MaxInt32)
	_, _, wait = r.grant(tat, now, 0)
	return jobs, wait
}

// start asks for one job to begin, and says how long to wait where it may not.
func (p *pace) start(ctx context.Context, f *Fabric, r Rate) (wait time.Duration, err error) {
	p.waiting.Add(1)
	defer p.waiting.Add(-1)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reserved == 0 {
		if wait, err = p.reserve(ctx, f, r, int(p.waiting.Load())); wait > 0 || err != nil {
			return wait, err
		}
	}
	if p.reserved--; p.waiting.Load() == 1 {
		p.reserved = 0 // who it was for has gone away; it is not kept for later
	}
	return 0, nil
}

// reserve moves the key on by up to n jobs. mu is held.
func (p *pace) reserve(ctx context.Context, f *Fabric, r Rate, n int) (wait time.Duration, err error) {
	key := kv.RateKey(p.stage)
	for {
		now := f.Now()
		granted, next, wait := r.grant(p.tat, now, n)
		if granted == 0 && p.revision != 0 {
			// Others only move it on, so what was seen is enough to know that.
			return max(wait, time.Millisecond), nil
		}
		value, err := json.Marshal(paceRecord{next})
		if err != nil {
			return 0, err
		}
		revision, err := f.bucket.Swap(ctx, kv.Write{Key: key, Value: value, Revision: p.revision, TTL: paceKept + r.depth()})
		conflict, moved := errors.AsType[*kv.Conflict](err)
		if err == nil {
			p.tat, p.revision, p.reserved = next, revision, granted
			p.seen.Store(next.UnixNano())
			return 0, nil
		}
		if !moved {
			return 0, err
		}
		p.see(conflict.Current)
	}
}

// see takes over what the key holds. What cannot be read is written anew.
func (p *pace) see(e kv.Entry) {
	var rec paceRecord
	if e.Exists() {
		_ = json.Unmarshal(e.Value, &rec)
	}
	p.tat, p.revision = rec.TAT, 0
	if e.Exists() {
		p.revision = e.Revision
	}
	p.seen.Store(0)
	if !rec.TAT.IsZero() {
		p.seen.Store(rec.TAT.UnixNano())
	}
}

// paceOf is what this process knows of a stage's rate.
func (f *Fabric) paceOf(stage string) *pace {
	p, _ := f.paces.LoadOrStore(stage, &pace{stage: stage})
	return p.(*pace)
}

// paced is how many more jobs the stage's rate lets this worker begin now. mu is
// held.
func (t *taker) paced() int {
	if !t.rate.Limited() {
		return math.MaxInt
	}
	n, _ := t.r.f.paceOf(t.stage).allowance(t.rate, t.r.f.Now())
	return n
}

// waits reports whether the stage's rate lets nothing begin now, and has the caller
// of claim look again when it does. Workers look at different times, and the later
// the more may begin at once, so that they do not all ask for each single job.
func (t *taker) waits() bool {
	rate := t.settings.Rate
	if !rate.Limited() {
		return false
	}
	n, wait := t.r.f.paceOf(t.stage).allowance(rate, t.r.f.Now())
	if n > 0 {
		return false
	}
	if t.timer != nil {
		t.timer.Stop()
	}
	wait += rand.N(rate.depth()/4 + time.Millisecond)
	t.timer = time.AfterFunc(min(wait, stageFresh), t.poke)
	return true
}

// begins asks the stage's rate for the start of the job that is about to be claimed.
// If it is too early, the item goes back until then.
func (t *taking) begins() (ok bool, err error) {
	if !t.stage.Rate.Limited() || t.counted {
		return true, nil
	}
	wait, err := t.r.f.paceOf(t.stage.Name).start(t.ctx, t.r.f, t.stage.Rate)
	if err != nil {
		return false, err
	}
	if wait > 0 {
		t.item.Nak(min(wait, stageFresh))
		return false, nil
	}
	t.counted = true
	return true, nil
}

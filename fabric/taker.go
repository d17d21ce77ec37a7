package fabric

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/weft-fabric/weft/job"
	"github.com/weft-fabric/weft/stream"
)

// taker takes the items of one stage for a runner. Many compare-and-sets are in
// flight and none waits for another; the number of items on their way is never
// above the number of jobs that the worker asked for.
type taker struct {
	r      *Runner
	stage  string
	called bool // guarded by r.mu: a call of Claim is under way

	wake     chan struct{}  // something changed: a job is ready, or an item was void
	done     func(*holding) // finish
	claiming sync.WaitGroup

	settings Stage            // of the caller of claim alone
	pullers  []*stream.Puller // of the caller of claim alone: by priority
	lanes    []int            // of the caller of claim alone: of the pullers
	untried  []int            // of the caller of claim alone: lanes that may have something now
	timer    *time.Timer      // of the caller of claim alone: looks again; nil if none was set
	shares   *laneShares      // set before the pullers are made; nil with a single lane

	mu     sync.Mutex
	asked  int        // guarded by mu: what the last call of claim asked for and did not get
	wanted int        // guarded by mu: how many are wanted of what it asked for
	inWork int        // guarded by mu: items being claimed
	limit  int        // guarded by mu: the stage's; 0 is none
	rate   Rate       // guarded by mu: the stage's
	ready  []*holding // guarded by mu: claimed and not handed out
	review bool       // guarded by mu: they are to be looked at
	closed bool       // guarded by mu: close sees to what is ready
	due    []retry    // guarded by mu: retries of this worker's own jobs
}

func newTaker(r *Runner, stage string) *taker {
	t := &taker{r: r, stage: stage, wake: make(chan struct{}, 1)}
	t.done = t.finish
	return t
}

// claim waits for jobs. It looks at the stage's settings again from time to
// time, since lanes come into use and leases change.
func (t *taker) claim(ctx context.Context, n int) ([]job.Claim, error) {
	t.untried = append(t.untried[:0], t.lanes...)
	t.wants(n)
	var refresh <-chan time.Time // made when there is something to wait for
	for {
		err := t.adjust(ctx)
		claims := t.collect(n, err == nil)
		if len(claims) > 0 || ctx.Err() != nil {
			return claims, ctx.Err()
		}
		if err != nil {
			return nil, err
		}
		if refresh == nil {
			ticker := time.NewTicker(stageFresh)
			defer ticker.Stop()
			refresh = ticker.C
		}
		select {
		case <-ctx.Done():
		case <-t.wake:
		case <-refresh:
		}
	}
}

// adjust makes the pullers fit the stage's settings.
func (t *taker) adjust(ctx context.Context) error {
	st, err := t.r.f.stages.get(ctx, t.stage, job.DefaultPriority)
	if err != nil {
		return err
	}
	t.mu.Lock()
	t.limit, t.rate = st.Concurrency, st.Rate
	t.mu.Unlock()
	if t.pullers != nil && st.same(t.settings) {
		t.settings = st
		return nil
	}
	t.closePullers()
	t.settings, t.lanes, t.shares = st, slices.Sorted(slices.Values(append([]int{job.DefaultPriority}, st.Lanes...))), nil
	if len(t.lanes) > 1 {
		t.shares = t.r.f.sharesOf(t.stage)
		t.shares.use(t.lanes)
	}
	t.untried = append(t.untried[:0], t.lanes...)
	for _, lane := range t.lanes {
		p, err := t.r.f.queue.Pull(t.stage, lane, st.settings(), t, t.r.log)
		if err != nil {
			t.closePullers()
			return err
		}
		t.pullers = append(t.pullers, p)
	}
	return nil
}

func (t *taker) closePullers() {
	for _, p := range t.pullers {
		p.Close()
	}
	t.pullers = nil
}

// collect hands out up to n jobs that are ready, or asks for as many as are wanted
// and not yet in work. What is handed out fills its slots: an item that still comes
// for them is not for this worker until it claims again. more is false while
// nothing more is to be taken.
func (t *taker) collect(n int, more bool) []job.Claim {
	var claims []job.Claim
	for { // again if what was ready has lapsed
		t.mu.Lock()
		take := t.ready[:min(n, len(t.ready))]
		t.ready = t.ready[len(take):]
		if t.asked = max(0, min(n, t.wanted)-len(take)); !more {
			t.asked = 0
		}
		t.mu.Unlock()
		if len(take) == 0 {
			break
		}
		claims = make([]job.Claim, 0, len(take))
		for _, h := range take {
			if c, lasts := t.r.handOut(h); lasts {
				claims = append(claims, c)
			}
		}
		if len(claims) > 0 {
			return claims
		}
	}
	if more {
		t.ask()
	}
	return claims
}

// want says how many jobs are wanted of those that the call of claim asked for, which
// may still be under way.
func (t *taker) want(n int) {
	t.mu.Lock()
	more := n > t.wanted
	t.wanted = max(0, n)
	t.asked = min(t.asked, t.wanted)
	t.mu.Unlock()
	if more {
		t.poke()
	}
}

// wants begins a call of claim.
func (t *taker) wants(n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.wanted = n
}

// Room is how many more items may be on their way, as the pullers want to know.
func (t *taker) Room() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return max(0, t.missing())
}

// missing is Room, below 0 when more are on their way. mu is held.
func (t *taker) missing() int {
	return min(t.asked-len(t.ready), t.room()) - t.inWork
}

// Reserve counts an item as on its way if there is room for it. With several lanes
// more may come than was asked for; the surplus goes back before its ack-wait has
// run.
func (t *taker) Reserve() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.missing() <= 0 {
		return false
	}
	t.inWork++
	t.claiming.Add(1)
	return true
}

// Give begins the claim of an item.
func (t *taker) Give(d *stream.Delivery) {
	t.charge(d.Lane)
	t.r.take(d, t.done)
}

// charge notes which lane an item is of, where there are several.
func (t *taker) charge(lane int) {
	if t.shares != nil {
		t.shares.served(lane)
	}
}

// room is how many more jobs this worker may hold by the stage's rate and limit. The
// server counts the items that were handed out, but not one that was replaced
// while its job runs. mu is held.
func (t *taker) room() int {
	room := t.paced()
	if t.limit > 0 {
		room = min(room, t.limit-t.r.running(t.stage))
	}
	return room
}

// ask asks for items: retries that are due first, then for what is there in the
// lanes, and when no lane has anything, all lanes for what comes.
func (t *taker) ask() {
	if t.waits() {
		return
	}
	if t.shares != nil {
		if t.askInTurn() {
			return
		}
	} else if len(t.untried) > 0 {
		t.retry(t.untried[0])
		if t.Room() == 0 {
			return
		}
		t.untried = t.untried[:0]
	}
	for _, p := range t.pullers {
		p.Want()
	}
}

// finish notes the end of a claim; h is nil if the item came to nothing.
func (t *taker) finish(h *holding) {
	t.mu.Lock()
	t.inWork--
	if h != nil {
		h.claimed = time.Now()
		t.ready = append(t.ready, h)
		t.reviewLater(h.stage.Lease)
	}
	t.mu.Unlock()
	t.poke()
	t.claiming.Done()
}

// readyFor is how long a claimed job waits for a call of Claim, and readyPart the
// part of its lease that it may wait, before it is given back: whoever asked for it
// does not come for it.
const (
	readyFor  = time.Second
	readyPart = 6
)

// reviewLater has what is ready looked at. mu is held.
func (t *taker) reviewLater(lease time.Duration) {
	if !t.review {
		t.review = true
		after := min(readyFor, lease/readyPart)
		time.AfterFunc(after, func() { t.giveBackStale(lease, after) })
	}
}

// giveBackStale gives back, at no charge, what has been ready for too long, and asks
// for no more before the next call of Claim.
func (t *taker) giveBackStale(lease, after time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.review = false
	if t.closed {
		return
	}
	for len(t.ready) > 0 && time.Since(t.ready[0].claimed) >= after {
		h := t.ready[0]
		t.ready, t.asked = t.ready[1:], 0
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), giveBackWait)
			defer cancel()
			t.giveBack(ctx, h.current())
		}()
	}
	if len(t.ready) > 0 {
		t.reviewLater(lease)
	}
}

// giveBack ends a claim that was not handed out, at no charge.
func (t *taker) giveBack(ctx context.Context, c job.Claim) {
	if err := t.r.Settle(ctx, c, job.Released()); err != nil {
		t.r.log.Warn("job not given back", attemptOf(c.Job), "error", err)
	}
}

// poke has the caller of claim look again.
func (t *taker) poke() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// giveBackWait bounds how long a stopping worker tries to give back what it
// took and did not hand out. What is left then is offered again once its lease
// has run out.
const giveBackWait = 5 * time.Second

// close stops taking and gives back what was claimed and not handed out.
func (t *taker) close(claims []job.Claim) {
	t.closePullers()
	t.mu.Lock()
	t.closed = true // what is ready is given back here
	t.mu.Unlock()
	t.claiming.Wait()
	t.mu.Lock()
	ready := t.ready
	t.ready = nil
	t.mu.Unlock()
	for _, h := range ready {
		claims = append(claims, h.current())
	}
	ctx, cancel := context.WithTimeout(context.Background(), giveBackWait)
	defer cancel()
	var returning sync.WaitGroup
	for _, c := range claims {
		returning.Go(func() { t.giveBack(ctx, c) })
	}
	returning.Wait()
}

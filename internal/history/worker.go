package history

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/weft-fabric/weft/fabric"
	"github.com/weft-fabric/weft/job"
)

// worker is one worker after the other under one name: when one dies, the next
// begins. It does not leave this process, and its death is that of its connection.
func (w *world) worker(ctx context.Context, n int) {
	r := w.cfg.random("worker", int64(n))
	stage := stageNames[(processes+n)%len(stageNames)]
	for life := 1; ctx.Err() == nil; life++ {
		m, err := w.join(ctx, skew(r))
		if err != nil {
			return
		}
		w.enliven(m, fmt.Sprintf("w%d_%d", n, life), stage).run(ctx)
	}
}

func (w *world) enliven(m *member, id, stage string) *living {
	return &living{w: w, m: m, id: id, stage: stage, began: w.log.now(), free: make(chan struct{}, slots)}
}

// living is one worker.
type living struct {
	w     *world
	m     *member
	r     *fabric.Runner
	id    string
	stage string
	began time.Duration
	free  chan struct{} // holds one for each attempt that runs

	die      context.CancelFunc // ends it at once: no call of it is answered any more
	attempts sync.WaitGroup
}

// run claims and works until ctx ends, and then ends what it holds; or until it
// dies.
func (l *living) run(ctx context.Context) {
	life, die := context.WithCancel(ctx)
	defer die()
	l.die = sync.OnceFunc(func() {
		if l.w.up != nil { // a process of its own
			self, _ := os.FindProcess(os.Getpid())
			_ = self.Kill()
		}
		l.w.count("worker deaths")
		l.m.nc.Close()
		die()
	})
	defer l.m.leave()
	var err error
	if l.r, err = l.m.f.Runner(l.id); err != nil {
		return
	}
	for life.Err() == nil {
		l.claim(life)
	}
	l.attempts.Wait()
}

// claim asks for as many jobs as slots are free. What comes may have been claimed
// at any time since the process began, but not before the lease that it shows.
func (l *living) claim(life context.Context) {
	wanted := l.reserve(life)
	if wanted == 0 {
		return
	}
	claims, err := l.r.Claim(life, l.stage, wanted)
	for range wanted - len(claims) {
		<-l.free
	}
	for _, c := range claims {
		op := Op{Client: l.id, Kind: Claim, Job: c.Job.ID, Worker: l.id, Result: OK, Told: l.w.log.told(c.Job)}
		op.Call = max(l.began, op.Told.Until-lease-clockSlack)
		l.w.note(op)
		l.attempts.Go(func() {
			defer func() { <-l.free }()
			l.attempt(life, c)
		})
	}
	if err != nil {
		_ = pause(life, 50*time.Millisecond)
	}
}

// reserve waits for a free slot and takes all that are free.
func (l *living) reserve(life context.Context) (n int) {
	select {
	case <-life.Done():
		return 0
	case l.free <- struct{}{}:
	}
	for n = 1; ; n++ {
		select {
		case l.free <- struct{}{}:
		default:
			return n
		}
	}
}

// attempt works on one claim. What it does is decided by the seed, the job and
// the fence.
func (l *living) attempt(life context.Context, c job.Claim) {
	r := l.w.cfg.random(c.Job.ID, c.Token.Fence)
	deaths := 0.02
	if l.w.cfg.WorkersOnly {
		deaths = 0.15
	}
	what := r.Float64()
	switch {
	case l.w.calm.Load():
		l.settle(life, c, pickKind(r, 0.8))
	case what < deaths:
		_ = pause(life, between(r, 0, lease/2))
		l.settleAndDie(c, pickKind(r, 0.5), between(r, 0, 2*time.Millisecond))
	case what < deaths+0.2:
		l.hold(life, r, c)
	case what < deaths+0.35:
		l.stall(life, r, c)
	default:
		_ = pause(life, between(r, 0, 50*time.Millisecond))
		l.settle(life, c, pickKind(r, 0.5))
	}
}

// pickKind chooses how an attempt ends: completed in the given share.
func pickKind(r *rand.Rand, completed float64) Kind {
	if r.Float64() < completed {
		return Complete
	}
	return []Kind{Fail, Fail, Fail, Discard, Return, Release}[r.IntN(6)]
}

// hold keeps a job for longer than its lease, and renews.
func (l *living) hold(life context.Context, r *rand.Rand, c job.Claim) {
	end := l.w.log.now() + between(r, lease, 4*lease)
	for l.w.log.now() < end && !l.w.calm.Load() {
		if pause(life, lease/4) != nil {
			break
		}
		var lost bool
		if c, lost = l.renew(c); lost {
			break // it settles all the same: that is to be refused
		}
	}
	l.settle(life, c, pickKind(r, 0.5))
}

// stall does nothing for longer than the lease, as a process that was stopped,
// and then goes on as if nothing had been.
func (l *living) stall(life context.Context, r *rand.Rand, c job.Claim) {
	renews := r.Float64() < 0.3
	l.w.count("stalls")
	_ = pause(life, between(r, lease, 4*lease))
	if renews {
		c, _ = l.renew(c)
	}
	l.settle(life, c, pickKind(r, 0.5))
}

// renew reports that the job is lost when it was refused.
func (l *living) renew(c job.Claim) (job.Claim, bool) {
	ctx, cancel := call()
	defer cancel()
	op := Op{Client: l.id, Kind: Renew, Job: c.Job.ID, Call: l.w.log.now(), Worker: l.id, Fence: c.Token.Fence}
	l.w.begin(op)
	next, err := l.r.Renew(ctx, c, nil)
	op.Result = resultOf(err)
	l.w.note(op)
	if op.Result == OK {
		return next, false
	}
	return c, op.Result != Unknown
}

// settleTries is how often a worker repeats a settlement that was not answered.
const settleTries = 3

// settle ends a claim, and tries again while no answer comes: all tries are one
// operation.
func (l *living) settle(life context.Context, c job.Claim, kind Kind) {
	op := l.settlement(c, kind)
	l.w.begin(op)
	for range settleTries {
		ctx, cancel := call()
		op.Result = resultOf(l.ask(ctx, c, outcome(kind, op.Mark)))
		cancel()
		if op.Result != Unknown || pause(life, lease/4) != nil {
			break
		}
	}
	l.w.note(op)
}

// ask settles as a caller that waits does, or as a worker of package worker, which
// does not.
func (l *living) ask(ctx context.Context, c job.Claim, o job.Outcome) error {
	if c.Token.Fence%2 == 0 {
		return l.r.Settle(ctx, c, o)
	}
	answer := make(chan error, 1)
	l.r.SettleThen(ctx, c, o, func(err error) { answer <- err })
	return <-answer
}

// settleAndDie ends the process while the settlement is under way.
func (l *living) settleAndDie(c job.Claim, kind Kind, after time.Duration) {
	op := l.settlement(c, kind)
	l.w.begin(op)
	ctx, cancel := context.WithTimeout(context.Background(), after)
	defer cancel()
	time.AfterFunc(after, l.die)
	op.Result = resultOf(l.ask(ctx, c, outcome(kind, op.Mark)))
	l.w.note(op)
	l.die()
}

func (l *living) settlement(c job.Claim, kind Kind) Op {
	return Op{
		Client: l.id, Kind: kind, Job: c.Job.ID, Call: l.w.log.now(), Worker: l.id, Fence: c.Token.Fence,
		Mark: fmt.Sprintf("%s.%s.%d", l.id, c.Job.ID, c.Token.Fence),
	}
}

// outcome is a settlement that its record can be recognised by.
func outcome(kind Kind, mark string) job.Outcome {
	switch kind {
	case Complete:
		return job.Completed(outputMark(mark))
	case Fail:
		return job.Failed(mark)
	case Discard:
		return job.Discarded(mark)
	case Return:
		return job.Returned(mark)
	}
	return job.Released()
}

package fabric

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/weft-fabric/weft/job"
	"github.com/weft-fabric/weft/kv"
)

// A stage is changed in its key first, which is the truth, and then in its
// consumers, which follow it. Whoever dies in between leaves a difference that the
// same call once more sets right, and that doctor finds.

// ErrMissingStage means that there is no such stage: nobody has enqueued to it
// and no worker has asked for its jobs.
var ErrMissingStage = errors.New("there is no such stage")

// pausePoll is how old what a process knows of a stage's pause may be where it
// would begin a job that no consumer has handed out.
const pausePoll = 500 * time.Millisecond

// mostConcurrency is above what any stage runs at once; more is a slip of the hand.
const mostConcurrency = 1_000_000

// PauseStage has nothing of the stage begun any more until ResumeStage, on any
// worker: within a second of its return no claim begins. What runs goes on to its
// end, and what fails waits for its next attempt. It lasts over restarts of
// workers and servers. It fails with ErrMissingStage. A stage that is paused
// already stays paused since when it was.
func (f *Fabric) PauseStage(ctx context.Context, name, by, reason string) (Stage, error) {
	if len(reason) > job.MaxReasonSize {
		return Stage{}, stageError("pause", name, job.Invalid("a reason of %d bytes is longer than %d", len(reason), job.MaxReasonSize))
	}
	st, err := f.changeStage(ctx, name, func(st *Stage) {
		if !st.Paused {
			st.Paused, st.Pause = true, Pause{Since: f.Now(), By: by, Reason: reason}
		}
	})
	if err == nil {
		err = f.queue.SetPaused(ctx, name, true)
	}
	return st, stageError("pause", name, explain(f.nc, err))
}

// ResumeStage ends a pause, also one that somebody has put on the stage's
// consumers by hand. It fails with ErrMissingStage.
func (f *Fabric) ResumeStage(ctx context.Context, name string) (Stage, error) {
	st, err := f.changeStage(ctx, name, func(st *Stage) { st.Paused, st.Pause = false, Pause{} })
	if err == nil {
		err = f.queue.SetPaused(ctx, name, false)
	}
	return st, stageError("resume", name, explain(f.nc, err))
}

// StageChange is what SetStage changes; nil leaves what there is.
type StageChange struct {
	Lease       *time.Duration
	Concurrency *int  // 0 is no limit
	Rate        *Rate // the zero Rate is no limit
	// PerKey is how many jobs of one key may run at once; 0 is no limit.
	PerKey *int
	// PerLabel is, by label, how many jobs of one value of it may run at once; 0 is
	// no limit, and labels that are not named stay as they are.
	PerLabel map[string]int
}

// SetStage changes a stage's settings. Workers take it over within some seconds,
// each for the jobs it claims from then on. It fails with ErrMissingStage, and with
// job.ErrInvalidJob for values that could not keep the fabric's promises.
func (f *Fabric) SetStage(ctx context.Context, name string, change StageChange) (Stage, error) {
	err := f.checkSettings(change.Lease, change.Concurrency)
	if err == nil {
		err = change.checkLimits()
	}
	if err != nil {
		return Stage{}, stageError("set", name, err)
	}
	st, err := f.changeStage(ctx, name, change.apply)
	if err == nil {
		err = f.queue.Configure(ctx, name, st.settings())
	}
	return st, stageError("set", name, explain(f.nc, err))
}

// checkLimits refuses limits that nobody can mean.
func (c StageChange) checkLimits() error {
	if r := c.Rate; r != nil && r.Limited() {
		known, err := ParseRate(r.String())
		if err != nil {
			return err
		}
		if !known.Limited() {
			return job.Invalid("a rate of %d in %s; give one in a second, a minute or an hour", r.Jobs, r.Per)
		}
		if r.Burst < 1 || r.Burst > mostBurst {
			return job.Invalid("burst %d is not within 1 and %d jobs", r.Burst, mostBurst)
		}
	}
	if c.PerKey != nil && (*c.PerKey < 0 || *c.PerKey > mostPerValue) {
		return job.Invalid("limit %d of a key is not within 0, which is no limit, and %d", *c.PerKey, mostPerValue)
	}
	for name, n := range c.PerLabel {
		if name == "" {
			return job.Invalid("a limit of a label without name; give one like tenant=3")
		}
		if n < 0 || n > mostPerValue {
			return job.Invalid("limit %d of label %.80q is not within 0, which is no limit, and %d", n, name, mostPerValue)
		}
	}
	return nil
}

func (c StageChange) apply(st *Stage) {
	if c.Lease != nil {
		st.Lease = *c.Lease
	}
	if c.Concurrency != nil {
		st.Concurrency = *c.Concurrency
	}
	if c.Rate != nil {
		st.Rate = *c.Rate
	}
	if c.PerKey != nil {
		st.PerKey = *c.PerKey
	}
	if len(c.PerLabel) == 0 {
		return
	}
	limits := maps.Clone(st.PerLabel)
	if limits == nil {
		limits = map[string]int{}
	}
	maps.Copy(limits, c.PerLabel)
	maps.DeleteFunc(limits, func(_ string, n int) bool { return n == 0 })
	st.PerLabel = limits
}

func (f *Fabric) checkSettings(lease *time.Duration, concurrency *int) error {
	longest := f.opts.Retention.shortest() / retentionLeases
	switch {
	case lease != nil && *lease < MinLease:
		return job.Invalid("lease %s must be at least %s", *lease, MinLease)
	case lease != nil && *lease > longest:
		return job.Invalid("lease %s must be at most %s, a tenth of the shortest retention", *lease, longest)
	case concurrency != nil && *concurrency < 0:
		return job.Invalid("concurrency %d must not be negative; 0 is no limit", *concurrency)
	case concurrency != nil && *concurrency > mostConcurrency:
		return job.Invalid("concurrency %d must be at most %d; 0 is no limit", *concurrency, mostConcurrency)
	}
	return nil
}

// mostBurst is the greatest burst of a rate, likewise.
const mostBurst = 100_000

// mostPerValue is the greatest limit of a value: its record names all that run, and
// is written twice a job.
const mostPerValue = 256

// changeStage changes the settings of a stage that is there.
func (f *Fabric) changeStage(ctx context.Context, name string, change func(*Stage)) (Stage, error) {
	if err := job.CheckStage(name); err != nil {
		return Stage{}, err
	}
	defer f.stages.forget(name)
	for {
		st, revision, err := f.stages.read(ctx, name)
		if err == nil && revision == 0 {
			err = ErrMissingStage
		}
		if err != nil {
			return Stage{}, err
		}
		before := st
		change(&st)
		if before.same(st) && before.sameLimits(st) {
			return st, nil
		}
		value, err := json.Marshal(st)
		if err != nil {
			return Stage{}, err
		}
		_, err = f.bucket.Swap(ctx, kv.Write{Key: kv.StageKey(name), Value: value, Revision: revision})
		if _, moved := errors.AsType[*kv.Conflict](err); !moved {
			return st, err
		}
	}
}

func stageError(verb, name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s stage %s: %w", verb, name, err)
}

// paused tells whether the stage is paused, by what was read of it no longer ago
// than pausePoll. Without an answer it is what was known before.
func (s *stages) paused(name string) bool {
	s.mu.Lock()
	look := s.looks[name]
	if k := s.seen[name]; k.read.After(look.at) {
		look = pauseLook{k.stage.Paused, k.read}
	}
	s.mu.Unlock()
	if time.Since(look.at) < pausePoll {
		return look.paused
	}
	ctx, cancel := context.WithTimeout(context.Background(), pausePoll)
	defer cancel()
	began := time.Now()
	st, revision, err := s.read(ctx, name)
	if err != nil || revision == 0 {
		return look.paused
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.looks[name] = pauseLook{st.Paused, began}
	return st.Paused
}

// pauseLook is what a process has read of a stage's pause alone.
type pauseLook struct {
	paused bool
	at     time.Time
}

package fabric

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/weft-fabric/weft/internal/topology"
	"github.com/weft-fabric/weft/job"
	"github.com/weft-fabric/weft/kv"
	"github.com/weft-fabric/weft/stream"
)

// StageStatus is a stage as it stands. Nothing of it comes from looking through
// jobs, so it costs the same however many there are.
type StageStatus struct {
	Stage
	Queued
	Counts
	// Counted is when the keeper last published the counts; zero if it never had
	// anything to count.
	Counted time.Time
	// Stale is true when no keeper has kept the counts since then.
	Stale bool
	// Err is what could not be read of the stage.
	Err error
}

// Queued is what the stage's work stream says, now.
type Queued struct {
	Waiting int // to be taken
	Running int // taken by a worker
	Delayed int // to be taken later
}

// stageHands is how many stages are asked about at once.
const stageHands = 16

// Stages gives every stage with its counts, by name. A stage of which something
// cannot be read comes with the error.
func (f *Fabric) Stages(ctx context.Context) ([]StageStatus, error) {
	all, counts, err := f.readStages(ctx)
	if err != nil {
		return nil, explain(f.nc, err)
	}
	var asking sync.WaitGroup
	hands := make(chan struct{}, stageHands)
	for i := range all {
		hands <- struct{}{}
		asking.Go(func() {
			defer func() { <-hands }()
			all[i].fill(counts)
			if all[i].Err == nil {
				_, all[i].Err = f.queued(ctx, &all[i])
			}
		})
	}
	asking.Wait()
	slices.SortFunc(all, func(a, b StageStatus) int { return cmp.Compare(a.Name, b.Name) })
	return all, ctx.Err()
}

// readStages reads the keys of all stages, of their counts and of the keeper.
func (f *Fabric) readStages(ctx context.Context) (all []StageStatus, c counted, err error) {
	c.stages = map[string]countRecord{}
	entries, err := f.bucket.Few(ctx, kv.AllStages, kv.AllCounts, kv.LeaderKey)
	if err != nil {
		return nil, c, err
	}
	for _, e := range entries {
		if name, ok := kv.StageOf(e.Key); ok {
			s := StageStatus{}
			if err := json.Unmarshal(e.Value, &s.Stage); err != nil {
				s.Err = fmt.Errorf("key %s: %w: %w", e.Key, kv.ErrUnreadable, err)
			}
			s.Name = name
			all = append(all, s)
			continue
		}
		c.take(e)
	}
	return all, c, nil
}

// counted is what the keeper has published, and which one leads.
type counted struct {
	stages map[string]countRecord
	keeper string // empty if none leads
}

// take reads a key of the keeper's. Counts that cannot be read are as good as
// none.
func (c *counted) take(e kv.Entry) {
	if name, ok := kv.CountedStage(e.Key); ok {
		var r countRecord
		if json.Unmarshal(e.Value, &r) == nil {
			c.stages[name] = r
		}
		return
	}
	var leader leaderRecord
	if e.Key == kv.LeaderKey && json.Unmarshal(e.Value, &leader) == nil {
		c.keeper = leader.ID
	}
}

// fill adds what the keeper has counted. Counts of an earlier term than the one
// that runs are of its end.
func (s *StageStatus) fill(c counted) {
	r, ok := c.stages[s.Name]
	s.Counts, s.Counted = r.Counts, r.At
	s.Stale = c.keeper == "" || ok && r.Keeper != c.keeper
}

func (f *Fabric) queued(ctx context.Context, s *StageStatus) (stream.Depth, error) {
	d, err := f.queue.Depth(ctx, s.Name, s.settings())
	s.Queued = Queued{Waiting: d.Waiting(), Running: d.Taken(), Delayed: d.Delayed()}
	return d, explain(f.nc, err)
}

// StageReport is all there is to know of one stage.
type StageReport struct {
	StageStatus
	Stream  string
	Lanes   []stream.Lane
	Oldest  time.Time // when the item that has waited longest was stored; zero if none waits
	Workers []Presence
	Drift   []string // what is not as the settings say
}

// StageReport looks at one stage. It fails with ErrMissingStage.
func (f *Fabric) StageReport(ctx context.Context, name string) (StageReport, error) {
	r, err := f.stageReport(ctx, name)
	if err != nil {
		return r, fmt.Errorf("stage %s: %w", name, explain(f.nc, err))
	}
	return r, nil
}

func (f *Fabric) stageReport(ctx context.Context, name string) (r StageReport, err error) {
	if err := job.CheckStage(name); err != nil {
		return r, err
	}
	st, revision, err := f.stages.read(ctx, name)
	if err == nil && revision == 0 {
		err = ErrMissingStage
	}
	if err != nil {
		return r, err
	}
	r.Stage = st
	c := counted{stages: map[string]countRecord{}}
	entries, err := f.bucket.Few(ctx, kv.CountKey(name), kv.LeaderKey)
	if err != nil {
		return r, err
	}
	for _, e := range entries {
		c.take(e)
	}
	r.fill(c)
	depth, err := f.queued(ctx, &r.StageStatus)
	if err != nil {
		return r, err
	}
	r.Stream, r.Lanes = depth.Stream, depth.Lanes
	if r.Oldest, err = f.queue.Oldest(ctx, name, depth); err != nil {
		return r, err
	}
	if r.Workers, err = f.workersOf(ctx, name); err != nil {
		return r, err
	}
	r.Drift, err = f.stageDrift(ctx, st, depth)
	return r, err
}

// workersOf are the workers that make known that they serve the stage.
func (f *Fabric) workersOf(ctx context.Context, stage string) (workers []Presence, err error) {
	for w, err := range f.Workers(ctx) {
		if errors.Is(err, kv.ErrUnreadable) {
			continue // it is for the list of workers to report it
		}
		if err != nil {
			return nil, err
		}
		if slices.Contains(w.Stages, stage) {
			workers = append(workers, w)
		}
	}
	return workers, nil
}

// stageDrift compares the stage's stream and consumers with its settings.
func (f *Fabric) stageDrift(ctx context.Context, st Stage, d stream.Depth) (drift []string, _ error) {
	err := f.queue.Check(ctx, st.Name, st.settings())
	drifted, ok := errors.AsType[*topology.DriftError](err)
	if err != nil && !ok {
		return nil, err
	}
	if ok {
		for _, one := range drifted.Drifts {
			drift = append(drift, one.String())
		}
	}
	return append(drift, pauseDrift(st, d)...), nil
}

// pauseDrift tells which consumers are not paused as the stage is.
func pauseDrift(st Stage, d stream.Depth) (drift []string) {
	for _, l := range d.Lanes {
		switch {
		case st.Paused && !l.Paused:
			drift = append(drift, fmt.Sprintf("consumer %s of stream %s: it hands out items, and the stage is paused", l.Consumer, d.Stream))
		case !st.Paused && l.Paused:
			drift = append(drift, fmt.Sprintf("consumer %s of stream %s: it is paused until %s, and the stage is not", l.Consumer, d.Stream, l.PausedUntil.Format(time.RFC3339)))
		}
	}
	return drift
}

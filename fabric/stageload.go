package fabric

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/weft-fabric/weft/kv"
)

// StageLoad is a stage as metrics show it: what there is to do, and who does it.
type StageLoad struct {
	StageStatus
	Oldest  time.Time // when the item that has waited longest was stored; zero if none waits
	Workers int       // that make known that they serve the stage
}

// Loads is what metrics show of a fabric beside what happens in one process.
type Loads struct {
	Stages []StageLoad
	Keeper bool // some process leads as the keeper
}

// Loads looks at the named stages, or at all of them if none is named. As with
// Stages, what it costs does not depend on how many jobs there are: two questions
// for everything, and one or two for each stage.
func (f *Fabric) Loads(ctx context.Context, names ...string) (Loads, error) {
	all, counts, err := f.readStages(ctx)
	if err != nil {
		return Loads{}, explain(f.nc, err)
	}
	workers, err := f.workersByStage(ctx)
	if err != nil {
		return Loads{}, err
	}
	loads := Loads{Keeper: counts.keeper != ""}
	for _, s := range all {
		if len(names) == 0 || slices.Contains(names, s.Name) {
			s.fill(counts)
			loads.Stages = append(loads.Stages, StageLoad{StageStatus: s, Workers: workers[s.Name]})
		}
	}
	var asking sync.WaitGroup
	hands := make(chan struct{}, stageHands)
	for i := range loads.Stages {
		hands <- struct{}{}
		asking.Go(func() {
			defer func() { <-hands }()
			if s := &loads.Stages[i]; s.Err == nil {
				s.Err = f.loadOf(ctx, s)
			}
		})
	}
	asking.Wait()
	return loads, ctx.Err()
}

func (f *Fabric) loadOf(ctx context.Context, s *StageLoad) error {
	depth, err := f.queued(ctx, &s.StageStatus)
	if err == nil && s.Waiting > 0 {
		s.Oldest, err = f.queue.Oldest(ctx, s.Name, depth)
	}
	return err
}

// workersByStage counts the workers that make themselves known.
func (f *Fabric) workersByStage(ctx context.Context) (map[string]int, error) {
	workers := map[string]int{}
	for w, err := range f.Workers(ctx) {
		if errors.Is(err, kv.ErrUnreadable) {
			continue // it is for the list of workers to report it
		}
		if err != nil {
			return nil, err
		}
		for _, stage := range w.Stages {
			workers[stage]++
		}
	}
	return workers, nil
}

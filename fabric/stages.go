package fabric

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weft-fabric/weft/internal/natserr"
	"github.com/weft-fabric/weft/internal/topology"
	"github.com/weft-fabric/weft/job"
	"github.com/weft-fabric/weft/kv"
)

// stageFresh is how long a stage's settings are used without being read again.
const stageFresh = 5 * time.Second

// stages remembers the stages this process has to do with.
type stages struct {
	f *Fabric

	mu    sync.Mutex
	seen  map[string]knownStage // guarded by mu
	looks map[string]pauseLook  // guarded by mu
}

type knownStage struct {
	stage Stage
	read  time.Time
}

func newStages(f *Fabric) *stages {
	return &stages{f: f, seen: map[string]knownStage{}, looks: map[string]pauseLook{}}
}

// get gives a stage's settings, and creates what a stage needs that is absent:
// its settings, its stream, its consumers and the lane.
func (s *stages) get(ctx context.Context, name string, lane int) (Stage, error) {
	if st, fresh := s.recall(name); fresh && st.uses(lane) {
		return st, nil
	}
	if err := job.CheckStage(name); err != nil {
		return Stage{}, err
	}
	st, err := s.load(ctx, name, lane)
	for try := 1; try < stageTries && ctx.Err() == nil && (passes(err) || changing(err)); try++ {
		pause(ctx, stageTryAgain)
		st, err = s.load(ctx, name, lane)
	}
	if err != nil {
		return Stage{}, fmt.Errorf("stage %s: %w", name, explain(s.f.nc, err))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen[name] = knownStage{st, time.Now()}
	return st, nil
}

// How often a server that gives no answer is asked about a stage: a stream whose
// leader is lost answers again once there is another.
const (
	stageTries    = 4
	stageTryAgain = 250 * time.Millisecond
)

// passes reports whether an error passes by itself. That nobody answers at all
// does not: there is no JetStream.
func passes(err error) bool {
	return natserr.Unknown(err) && !errors.Is(err, nats.ErrNoResponders) && !errors.Is(err, jetstream.ErrJetStreamNotEnabled)
}

// changing reports whether a stage's settings and its consumers differ, as they do
// for a moment while somebody changes them.
func changing(err error) bool {
	_, drifted := errors.AsType[*topology.DriftError](err)
	return drifted
}

func (s *stages) recall(name string) (Stage, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k, ok := s.seen[name]
	return k.stage, ok && time.Since(k.read) < stageFresh
}

// known gives a stage's settings as they were read last, be it a while ago. It is
// for whoever has no time to ask and is close to somebody who keeps them fresh.
func (s *stages) known(name string) (Stage, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k, ok := s.seen[name]
	return k.stage, ok
}

// forget makes the next get look at everything again.
func (s *stages) forget(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.seen, name)
}

// load reads the settings, or makes the first ones, and ensures the topology
// when it was not yet known to be there.
func (s *stages) load(ctx context.Context, name string, lane int) (Stage, error) {
	for {
		st, revision, err := s.read(ctx, name)
		if err != nil {
			return Stage{}, err
		}
		if revision != 0 && st.uses(lane) {
			return s.ensure(ctx, st)
		}
		if !st.uses(lane) {
			st.Lanes = append(slices.Clip(st.Lanes), lane)
			slices.Sort(st.Lanes)
		}
		value, err := json.Marshal(st)
		if err != nil {
			return Stage{}, err
		}
		_, err = s.f.bucket.Swap(ctx, kv.Write{Key: kv.StageKey(name), Value: value, Revision: revision})
		if _, moved := errors.AsType[*kv.Conflict](err); err != nil && !moved {
			return Stage{}, err
		}
	}
}

// read gives the stored settings, or those a new stage gets and revision 0.
func (s *stages) read(ctx context.Context, name string) (Stage, uint64, error) {
	e, err := s.f.bucket.Get(ctx, kv.StageKey(name))
	if err != nil {
		return Stage{}, 0, err
	}
	if !e.Exists() {
		fresh := s.f.opts.Stage
		return Stage{Name: name, Lease: fresh.Lease, Concurrency: fresh.Concurrency}, 0, nil
	}
	var st Stage
	if err := json.Unmarshal(e.Value, &st); err != nil {
		return Stage{}, 0, fmt.Errorf("key %s: %w", e.Key, err)
	}
	st.Name = name
	return st, e.Revision, nil
}

// ensure looks at the stage's stream and consumers unless it did so before for
// the same settings. A consumer that was made or paused by settings that have
// changed meanwhile would stay so; hence the settings are read once more after.
func (s *stages) ensure(ctx context.Context, st Stage) (Stage, error) {
	s.mu.Lock()
	k, ok := s.seen[st.Name]
	s.mu.Unlock()
	if ok && k.stage.same(st) {
		return st, nil
	}
	for {
		if err := s.f.queue.Ensure(ctx, st.Name, st.settings()); err != nil {
			return Stage{}, err
		}
		if !s.f.opts.LeavePauses {
			if err := s.f.queue.Follow(ctx, st.Name, st.settings()); err != nil {
				return Stage{}, err
			}
		}
		now, _, err := s.read(ctx, st.Name)
		if err != nil || now.Paused == st.Paused {
			return st, err
		}
		st = now
	}
}

// Stage gives a stage's settings, creating the stage when it is absent.
func (f *Fabric) Stage(ctx context.Context, name string) (Stage, error) {
	if err := job.CheckStage(name); err != nil {
		return Stage{}, err
	}
	return f.stages.get(ctx, name, job.DefaultPriority)
}

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
	"github.com/weft-fabric/weft/job"
	"github.com/weft-fabric/weft/kv"
	"github.com/weft-fabric/weft/stream"
)

// Stage is what all workers of a stage share, as kept under stage.<stage>.
type Stage struct {
	Name        string
	Lease       time.Duration
	Concurrency int   // 0 is no limit
	Lanes       []int // in use besides the default one
	Paused      bool
}

// stageJSON is the stored form.
type stageJSON struct {
	Stage       string `json:"stage"`
	Lease       string `json:"lease"`
	Concurrency int    `json:"concurrency"`
	Lanes       []int  `json:"lanes,omitempty"`
	Paused      bool   `json:"paused,omitempty"`
}

// MarshalJSON writes the stored form, with durations as Go writes them.
func (s Stage) MarshalJSON() ([]byte, error) {
	return json.Marshal(stageJSON{s.Name, s.Lease.String(), s.Concurrency, s.Lanes, s.Paused})
}

// UnmarshalJSON reads the stored form.
func (s *Stage) UnmarshalJSON(data []byte) error {
	var stored stageJSON
	if err := json.Unmarshal(data, &stored); err != nil {
		return err
	}
	lease, err := time.ParseDuration(stored.Lease)
	if err != nil || lease <= 0 {
		return fmt.Errorf("lease %q is not a positive Go duration", stored.Lease)
	}
	*s = Stage{stored.Stage, lease, stored.Concurrency, stored.Lanes, stored.Paused}
	return nil
}

func (s Stage) settings() stream.Settings {
	return stream.Settings{Lease: s.Lease, Concurrency: s.Concurrency, Lanes: s.Lanes}
}

// stageFresh is how long a stage's settings are used without being read again.
const stageFresh = 5 * time.Second

// stages remembers the stages this process has to do with.
type stages struct {
	f *Fabric

	mu   sync.Mutex
	seen map[string]knownStage // guarded by mu
}

type knownStage struct {
	stage Stage
	read  time.Time
}

func newStages(f *Fabric) *stages { return &stages{f: f, seen: map[string]knownStage{}} }

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
	for try := 1; try < stageTries && ctx.Err() == nil && passes(err); try++ {
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

func (st Stage) uses(lane int) bool {
	return lane == job.DefaultPriority || slices.Contains(st.Lanes, lane)
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
			return st, s.ensure(ctx, st)
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
	return st, e.Revision, nil
}

// ensure looks at the stage's stream and consumers unless it did so before for
// the same settings.
func (s *stages) ensure(ctx context.Context, st Stage) error {
	s.mu.Lock()
	k, ok := s.seen[st.Name]
	s.mu.Unlock()
	if ok && k.stage.Lease == st.Lease && k.stage.Concurrency == st.Concurrency && slices.Equal(k.stage.Lanes, st.Lanes) {
		return nil
	}
	return s.f.queue.Ensure(ctx, st.Name, st.settings())
}

// Stage gives a stage's settings, creating the stage when it is absent.
func (f *Fabric) Stage(ctx context.Context, name string) (Stage, error) {
	if err := job.CheckStage(name); err != nil {
		return Stage{}, err
	}
	return f.stages.get(ctx, name, job.DefaultPriority)
}

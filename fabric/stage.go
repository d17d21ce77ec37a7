package fabric

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/weft-fabric/weft/job"
	"github.com/weft-fabric/weft/stream"
)

// Stage is what all workers of a stage share, as kept under stage.<stage>.
type Stage struct {
	Name        string
	Lease       time.Duration
	Concurrency int            // 0 is no limit
	Lanes       []int          // in use besides the default one
	Paused      bool           // nothing of the stage is begun
	Pause       Pause          // zero unless Paused
	Rate        Rate           // of starts on all workers
	PerKey      int            // jobs of one key that run at once; 0 is no limit
	PerLabel    map[string]int // by label: jobs of one value that run at once

	// more are members that another program, or a later version, has put there.
	// They are written back.
	more map[string]json.RawMessage
}

// Pause says who paused a stage, for people.
type Pause struct {
	Since  time.Time
	By     string
	Reason string
}

// stageJSON is the stored form.
type stageJSON struct {
	Stage       string         `json:"stage"`
	Lease       string         `json:"lease"`
	Concurrency int            `json:"concurrency"`
	Lanes       []int          `json:"lanes,omitempty"`
	Paused      bool           `json:"paused,omitempty"`
	PausedAt    time.Time      `json:"paused_at,omitzero"`
	PausedBy    string         `json:"paused_by,omitempty"`
	PauseReason string         `json:"pause_reason,omitempty"`
	Rate        string         `json:"rate,omitempty"`
	Burst       int            `json:"burst,omitempty"`
	PerKey      int            `json:"per_key,omitempty"`
	PerLabel    map[string]int `json:"per_label,omitempty"`
}

// stageMembers are the names of stageJSON.
var stageMembers = []string{"stage", "lease", "concurrency", "lanes", "paused", "paused_at", "paused_by", "pause_reason", "rate", "burst", "per_key", "per_label"}

// MarshalJSON writes the stored form, with durations as Go writes them, and after
// it the members that are not the fabric's.
func (s Stage) MarshalJSON() ([]byte, error) {
	stored := stageJSON{
		Stage: s.Name, Lease: s.Lease.String(), Concurrency: s.Concurrency, Lanes: s.Lanes,
		Paused: s.Paused, PausedAt: s.Pause.Since, PausedBy: s.Pause.By, PauseReason: s.Pause.Reason,
		PerKey: s.PerKey, PerLabel: s.PerLabel,
	}
	if s.Rate.Limited() {
		stored.Rate, stored.Burst = s.Rate.String(), s.Rate.Burst
	}
	text, err := json.Marshal(stored)
	if err != nil || len(s.more) == 0 {
		return text, err
	}
	more, err := json.Marshal(s.more)
	if err != nil {
		return nil, err
	}
	return slices.Concat(bytes.TrimSuffix(text, []byte("}")), []byte(","), bytes.TrimPrefix(more, []byte("{"))), nil
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
	var rate Rate
	if stored.Rate != "" {
		if rate, err = ParseRate(stored.Rate); err != nil {
			return err
		}
		if stored.Burst > 0 {
			rate.Burst = stored.Burst
		}
	}
	var more map[string]json.RawMessage
	if err := json.Unmarshal(data, &more); err != nil {
		return err
	}
	for _, name := range stageMembers {
		delete(more, name)
	}
	*s = Stage{
		Name: stored.Stage, Lease: lease, Concurrency: stored.Concurrency, Lanes: stored.Lanes, Paused: stored.Paused,
		Pause: Pause{stored.PausedAt, stored.PausedBy, stored.PauseReason}, Rate: rate,
		PerKey: stored.PerKey, PerLabel: stored.PerLabel, more: more,
	}
	return nil
}

func (s Stage) settings() stream.Settings {
	return stream.Settings{Lease: s.Lease, Concurrency: s.Concurrency, Lanes: s.Lanes, Paused: s.Paused}
}

// same reports whether two states of a stage ask the same of its consumers.
func (s Stage) same(other Stage) bool {
	return s.Lease == other.Lease && s.Concurrency == other.Concurrency && s.Paused == other.Paused && slices.Equal(s.Lanes, other.Lanes)
}

// limited reports whether a claim has to ask for more than the job's record.
func (s Stage) limited() bool {
	return s.Rate.Limited() || s.PerKey > 0 || len(s.PerLabel) > 0 || s.gated()
}

// sameLimits reports whether two states of a stage ask the same of its workers.
func (s Stage) sameLimits(other Stage) bool {
	return s.Rate == other.Rate && s.PerKey == other.PerKey && maps.Equal(s.PerLabel, other.PerLabel)
}

func (s Stage) uses(lane int) bool {
	return lane == job.DefaultPriority || slices.Contains(s.Lanes, lane)
}

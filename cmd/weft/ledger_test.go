package main

import (
	"fmt"
	"time"

	"github.com/weft-fabric/weft/job"
)

var fabricTime = time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)

// begin notes a spec that starts, and what must not be in flight beside it.
func (l *ledger) begin(spec job.Spec) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if spec.Key != "" && l.live[spec.Key] {
		l.faults = append(l.faults, "two specs of one key at once")
	}
	for _, id := range spec.Dependencies {
		if !l.done[id] {
			l.faults = append(l.faults, fmt.Sprintf("%s before %s", spec.ID, id))
		}
	}
	l.live[mark(spec)] = true
	l.most = max(l.most, len(l.live))
}

func (l *ledger) end(spec job.Spec) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.live, mark(spec))
	l.done[spec.ID] = true
}

// mark is what a spec is known by while it is in flight.
func mark(spec job.Spec) string {
	if spec.Key != "" {
		return spec.Key
	}
	return spec.ID
}

package history

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

// figures counts what happened. It is safe for concurrent use.
type figures struct {
	mu     sync.Mutex
	counts map[string]int // guarded by mu
}

func (f *figures) add(what string, n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.counts == nil {
		f.counts = map[string]int{}
	}
	f.counts[what] += n
}

func (f *figures) count(op Op) {
	f.add("operations", 1)
	switch {
	case op.Result == Unknown:
		f.add("unknown", 1)
	case op.Result != OK:
		f.add("refused "+op.Result, 1)
	}
	if op.Kind.Settles() && op.Result == "stale_lease" {
		f.add("stale settlements refused", 1)
	}
}

func (f *figures) report() Report {
	f.mu.Lock()
	defer f.mu.Unlock()
	return Report(maps.Clone(f.counts))
}

// Report says what happened how often.
type Report map[string]int

// Add puts another round's figures on top.
func (r Report) Add(other Report) {
	for what, n := range other {
		r[what] += n
	}
}

// String is the figures in alphabetical order, on one line.
func (r Report) String() string {
	var parts []string
	for _, what := range slices.Sorted(maps.Keys(r)) {
		parts = append(parts, fmt.Sprintf("%s %d", what, r[what]))
	}
	return strings.Join(parts, ", ")
}

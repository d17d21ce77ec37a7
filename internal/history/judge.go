package history

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// Illegal is a history that breaks a promise.
type Illegal struct {
	Rule  string // the part of the judge that found it
	Job   string
	Why   string
	Lines []string // the job's history
}

// Error tells the whole history.
func (e *Illegal) Error() string {
	return fmt.Sprintf("illegal history of job %s (%s): %s\n%s", e.Job, e.Rule, e.Why, strings.Join(e.Lines, "\n"))
}

// opsLimit bounds the search for an order of one job's operations.
const opsLimit = 10 * time.Second

// judge reads everything that was written down and returns the first *Illegal
// history, in the order of the jobs' ids.
func (w *world) judge() error {
	ops, specs := w.log.byJob(), w.log.specs()
	ids := w.feed.ids()
	for id := range ops {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	rivals := w.contenders(ops)
	for _, id := range slices.Compact(ids) {
		if e := w.judgeJob(id, ops[id], specs[id], rivals); e != nil {
			e.Job, e.Lines = id, w.lines(id)
			return e
		}
	}
	return nil
}

func (w *world) judgeJob(id string, ops []Op, spec Spec, rivals map[string][]contender) *Illegal {
	changes := w.feed.of(id)
	gaps, err := judgeChanges(changes, spec, w.log.Start, w.servers.excuse)
	if err != nil {
		return &Illegal{Rule: "changes", Why: err.Error()}
	}
	w.figures.add("changes", len(changes))
	w.figures.add("gaps", gaps)
	// Without a gap in front of it, only the last change of all can be missing.
	complete := gaps == 0 && !w.tailMissing(id, changes)
	if err := judgeOutcomes(ops, changes, complete); err != nil {
		return &Illegal{Rule: "outcomes", Why: err.Error()}
	}
	if complete {
		if err := w.acks.judge(w.workStream(changes[0].job.Stage), changes); err != nil {
			return &Illegal{Rule: "items", Why: err.Error()}
		}
	}
	if len(changes) > 0 {
		if err := judgeKey(w.log.Start, ops, changes, rivals[changes[0].job.Key]); err != nil {
			return &Illegal{Rule: "keys", Why: err.Error()}
		}
	}
	switch judgeOps(ops, spec, lease, opsLimit) {
	case porcupine.Illegal:
		return &Illegal{Rule: "operations", Why: "no order of the operations explains the answers"}
	case porcupine.Unknown:
		w.figures.add("operations not decided", 1)
	}
	return nil
}

// tailMissing reports whether the last change of a job was not seen.
func (w *world) tailMissing(id string, changes []change) bool {
	if len(changes) == 0 {
		return true
	}
	last, ok := w.final[id]
	return !ok || last != sketch(changes[len(changes)-1].job)
}

// line is one event of a job's history.
type line struct {
	at   time.Duration
	text string
}

// lines tells a job's history in the order in which it began to happen.
func (w *world) lines(id string) []string {
	var all []line
	for _, op := range w.log.byJob()[id] {
		all = append(all, line{op.Call, op.String()})
	}
	for _, c := range w.feed.of(id) {
		at := c.stored.Sub(w.log.Start)
		all = append(all, line{at, fmt.Sprintf("%9.3f            record    revision %d after %d: %s", at.Seconds(), c.revision, c.before, sketch(c.job))})
	}
	if changes := w.feed.of(id); len(changes) > 0 {
		for _, s := range w.acks.of(w.workStream(changes[0].job.Stage), changes) {
			all = append(all, line{s.at, fmt.Sprintf("%9.3f            item     %d: %s", s.at.Seconds(), s.seq, s.word)})
		}
	}
	for _, h := range w.log.harms(id) {
		all = append(all, line{h.at, fmt.Sprintf("%9.3f            chaos    %s", h.at.Seconds(), h.what)})
	}
	slices.SortStableFunc(all, func(a, b line) int { return cmp.Compare(a.at, b.at) })
	texts := make([]string, len(all))
	for i, l := range all {
		texts[i] = l.text
	}
	return texts
}

package history

import (
	"fmt"
	"slices"
	"time"

	"github.com/weft-fabric/weft/job"
)

// contender is a job of a key, as its record tells.
type contender struct {
	id       string
	order    int64
	accepted time.Duration // when its enqueue was acknowledged, 0 if it was not
}

// ahead reports whether c supersedes d.
func (c contender) ahead(d contender) bool {
	return c.order > d.order || c.order == d.order && c.id > d.id
}

// contenders collects the jobs of each key.
func (w *world) contenders(ops map[string][]Op) map[string][]contender {
	byKey := map[string][]contender{}
	for _, id := range w.feed.ids() {
		j := w.feed.of(id)[0].job
		if j.Key == "" {
			continue
		}
		c := contender{id: id, order: j.KeyOrder}
		for _, op := range ops[id] {
			if op.Kind == Enqueue && op.Result == OK && (c.accepted == 0 || op.Return < c.accepted) {
				c.accepted = op.Return
			}
		}
		byKey[j.Key] = append(byKey[j.Key], c)
	}
	return byKey
}

// judgeKey refuses a claim that was handed out although it was written after a
// job that supersedes this one had been accepted. A job without key has no
// rivals.
func judgeKey(start time.Time, ops []Op, changes []change, rivals []contender) error {
	mine := contender{id: changes[0].job.ID, order: changes[0].job.KeyOrder}
	for _, c := range changes {
		at := c.stored.Sub(start) - clockSlack
		if c.job.State != job.StateLeased || !handedOut(ops, c.job.Fence) || !began(c.job) {
			continue
		}
		newer := slices.IndexFunc(rivals, func(r contender) bool { return r.ahead(mine) && r.accepted != 0 && r.accepted < at })
		if newer >= 0 {
			return fmt.Errorf("fence %d was handed out although %s had superseded the job", c.job.Fence, rivals[newer].id)
		}
	}
	return nil
}

func handedOut(ops []Op, fence int64) bool {
	return slices.ContainsFunc(ops, func(op Op) bool { return op.Kind == Claim && op.Result == OK && op.Told.Fence == fence })
}

// began reports whether this revision is the claim itself and no renewal.
func began(j job.Job) bool {
	n := len(j.AttemptsLog)
	return n > 0 && j.AttemptsLog[n-1].Started.Equal(j.UpdatedAt)
}

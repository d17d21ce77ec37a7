package fabric

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/weft-fabric/weft/job"
	"github.com/weft-fabric/weft/kv"
	"github.com/weft-fabric/weft/stream"
)

// adopt makes the record of an item that has none: of a bare spec, which
// somebody published without the fabric, of one that cannot be read, and of a job
// whose record the disk has lost. marker is the revision of what an expired
// record left behind, 0 if it left nothing.
func (t *taking) adopt(marker uint64) (done bool, err error) {
	if t.item.Revision != 0 {
		return t.restore(marker)
	}
	item := t.item.Item
	item.Trace = t.item.Trace()
	spec, err := t.r.f.bareSpec(item)
	if err != nil {
		return t.reject(err)
	}
	j, err := job.New(spec, t.asked())
	if err != nil {
		return t.reject(err)
	}
	if j.Key != "" {
		// The order is the item's time, in the grain of an enqueue's: a job
		// published before another of its key does not become current because it
		// is taken later.
		j.KeyOrder = t.item.Stored.Truncate(time.Millisecond).UnixNano()
	}
	return t.create(j)
}

// asked is when the job was asked for: when its item was stored. The two clocks
// agree but for a moment, and a job must not seem to come from the future.
func (t *taking) asked() time.Time {
	stored, now := t.item.Stored.UTC().Truncate(time.Millisecond), t.r.f.Now()
	if stored.After(now) {
		return now
	}
	return stored
}

// bareSpec reads a spec that was published as it is. The subject gives id and
// stage; a body that names others is a mistake.
func (f *Fabric) bareSpec(it stream.Item) (job.Spec, error) {
	var spec job.Spec
	if err := json.Unmarshal(it.Body, &spec); err != nil {
		return spec, err
	}
	if spec.ID != "" && spec.ID != it.JobID {
		return spec, fmt.Errorf("spec: id %q is not that of its subject", spec.ID)
	}
	if spec.Stage != "" && spec.Stage != it.Stage {
		return spec, fmt.Errorf("spec: stage %q is not that of its subject", spec.Stage)
	}
	spec.ID, spec.Stage = it.JobID, it.Stage
	if spec.Trace.IsZero() {
		spec.Trace = it.Trace
	}
	if spec.Priority == 0 && it.Lane != job.DefaultPriority {
		spec.Priority = it.Lane
	}
	return f.complete(spec), nil
}

// create writes the record and goes on with the claim as from any record.
func (t *taking) create(j job.Job) (done bool, err error) {
	if size, limit := int64(len(j.AppendJSON(nil)))+job.Growth, t.r.f.nc.MaxPayload()/2; size > limit {
		return t.reject(fmt.Errorf("a record that may grow to %d bytes is above half the server's max_payload, %d", size, limit))
	}
	if ready(j) && j.Key == "" && !j.AvailableAt.After(t.r.f.Now()) {
		// Nothing stands between this record and its claim: the claim's write
		// creates it.
		t.rec = kv.Record{Job: j}
		return false, nil
	}
	j, missing, err := t.r.f.withoutMet(t.ctx, j)
	if missing != nil {
		return t.reject(missing)
	}
	if err != nil {
		return false, err
	}
	rec, err := t.r.f.bucket.Save(t.ctx, j, 0, 0)
	if conflict, moved := errors.AsType[*kv.Conflict](err); moved {
		return t.found(kv.RecordOf(j.ID, conflict.Current))
	}
	if err != nil {
		return false, err
	}
	if rec, err = t.r.f.makeCurrent(t.ctx, rec); err != nil {
		return false, err
	}
	t.rec = rec
	return false, nil
}

// reject leaves a failed record that says why nobody can run the item.
func (t *taking) reject(why error) (done bool, err error) {
	t.report("item rejected: it cannot become a job", why)
	j := job.Rejected(t.item.JobID, t.item.Stage, "item rejected: "+why.Error(), t.r.f.Now())
	_, err = t.r.f.bucket.Save(t.ctx, j, 0, t.r.f.opts.Retention.Failed)
	if conflict, taken := errors.AsType[*kv.Conflict](err); taken { // enqueued meanwhile
		return t.found(kv.RecordOf(j.ID, conflict.Current))
	}
	if err != nil {
		return false, err
	}
	t.r.f.opts.Observer.JobFinished(j.Stage, j.State)
	t.item.Remove()
	return true, nil
}

// restore creates a record again that was there once: the item says so by its
// revision. If it can have expired, or shows that it has, the item is void.
func (t *taking) restore(marker uint64) (done bool, err error) {
	age := t.r.f.Now().Sub(t.item.Stored)
	var j job.Job
	if marker != 0 || age >= t.r.f.opts.Retention.shortest() || json.Unmarshal(t.item.Body, &j) != nil || j.ID != t.item.JobID {
		t.report("item removed: its job is gone", nil)
		t.item.Remove()
		return true, nil
	}
	t.report("record lost by the server's disk, created again from its item", nil)
	return t.create(j)
}

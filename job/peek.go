package job

import (
	"fmt"
	"strconv"
	"time"
)

// Peek reads of a record what decides where it goes next: id, stage, state, lease,
// what it waits on, and key with order. The other fields of the result are zero,
// so it must not be written back, and what they hold is not checked. It is for
// whoever follows every change of every job.
func Peek(data []byte) (Job, error) {
	if j, ok := peekPlain(data); ok {
		return j, nil
	}
	o, err := parseObject(data)
	if err != nil {
		return Job{}, fmt.Errorf("record: %w", err)
	}
	var j Job
	o.take("id", &j.ID)
	o.take("stage", &j.Stage)
	o.take("key", &j.Key)
	o.take("key_order", &j.KeyOrder)
	o.take("waiting_on", &j.WaitingOn)
	o.take("state", &j.State)
	o.take("worker_id", &j.WorkerID)
	o.takeTime("lease_expires_at", &j.LeaseExpiresAt)
	if o.err == nil {
		o.err = j.checkForm()
	}
	if o.err != nil {
		return Job{}, fmt.Errorf("record: %w", o.err)
	}
	j.tidy()
	return j, nil
}

// peekPlain walks once over a record as the fabric writes it, and gives up with
// false on whatever needs decoding or is not as it should be.
func peekPlain(data []byte) (j Job, ok bool) {
	c := cutter{data: data}
	c.space()
	if !c.skip('{') {
		return Job{}, false
	}
	var seen int
	for first := true; ; first = false {
		c.space()
		if c.skip('}') {
			break
		}
		if !first && !c.skip(',') {
			return Job{}, false
		}
		name, raw, ok := c.pair()
		if !ok {
			return Job{}, false
		}
		bit, ok := j.peekMember(name, raw)
		if !ok || seen&bit != 0 { // of a name that comes twice, encoding/json says which counts
			return Job{}, false
		}
		seen |= bit
	}
	c.space()
	if c.at != len(data) || j.checkForm() != nil {
		return Job{}, false
	}
	j.tidy()
	return j, true
}

// peekMember takes one member, and gives a bit of its own for each name it knows.
func (j *Job) peekMember(name, raw []byte) (bit int, ok bool) {
	var text string
	switch string(name) {
	case "id":
		j.ID, ok = plainText(raw)
		return 1, ok
	case "stage":
		j.Stage, ok = plainText(raw)
		return 2, ok
	case "key":
		j.Key, ok = plainText(raw)
		return 4, ok
	case "key_order":
		n, err := strconv.ParseInt(string(raw), 10, 64)
		j.KeyOrder = n
		return 8, err == nil && canonicalInt(raw)
	case "state":
		text, ok = plainText(raw)
		j.State = State(text)
		return 16, ok
	case "worker_id":
		j.WorkerID, ok = plainText(raw)
		return 32, ok
	case "lease_expires_at":
		text, ok = plainText(raw)
		t, err := time.Parse(time.RFC3339Nano, text)
		j.LeaseExpiresAt = t.UTC()
		return 64, ok && err == nil && t.Location() == time.UTC
	case "waiting_on":
		return 0, false
	}
	return 0, true
}

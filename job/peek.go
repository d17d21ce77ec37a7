package job

import "fmt"

// Peek reads of a record what decides where it goes next: id, stage, state, lease,
// what it waits on, and key with order. The other fields of the result are zero,
// so it must not be written back, and what they hold is not checked. It is for
// whoever follows every change of every job.
func Peek(data []byte) (Job, error) {
	if j, ok := peekPlain(data); ok {
		return j, nil
	}
	return peekSlowly(data)
}

// peekSlowly is Peek for what is not plain, and says what is wrong with it.
func peekSlowly(data []byte) (Job, error) {
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

// peekPlain is decodePlain for what Peek reads.
func peekPlain(data []byte) (j Job, ok bool) {
	w := walk{c: cutter{data: data}}
	for w.next() {
		if bit, ok := j.peekMember(w.name, w.raw); !ok || w.twice(bit) {
			return Job{}, false
		}
	}
	return j.decoded(w.whole)
}

// peekMember takes the members that Peek reads and passes over the others.
func (j *Job) peekMember(name, raw []byte) (bit uint32, ok bool) {
	switch string(name) {
	case "id", "stage", "key", "key_order", "state", "worker_id", "lease_expires_at", "waiting_on":
		return j.plainMember(name, raw)
	}
	return 0, true
}

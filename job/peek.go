package job

import "fmt"

// Peek reads of a record what decides where it goes next: id, stage, state, lease,
// what it waits on, and key with order. The other fields of the result are zero,
// so it must not be written back, and what they hold is not checked. It is for
// whoever follows every change of every job.
func Peek(data []byte) (Job, error) {
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

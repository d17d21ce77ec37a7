package job

import (
	"bytes"
	"encoding/json"
	"strconv"
	"time"
)

// A record is read at every claim and by the keeper at every change. Nearly all are
// as the fabric writes them, with plain texts and few members; those are read in
// one walk, without taking the object apart first. Whatever a walk does not know
// or finds odd ends it, and object decides.

// walk goes over the members of an object. It ends early, and is not whole, at a
// broken text, a name that needs decoding, and whatever its user refuses.
type walk struct {
	c     cutter
	begun bool
	seen  uint32
	whole bool   // all members were taken
	name  []byte // of the member that it is at
	raw   []byte // its value
}

// next goes to the next member.
func (w *walk) next() bool {
	w.c.space()
	if !w.begun {
		w.begun = true
		if !w.c.skip('{') {
			return false
		}
		w.c.space()
		if w.c.skip('}') {
			return w.ends()
		}
	} else if w.c.skip('}') {
		return w.ends()
	} else if !w.c.skip(',') {
		return false
	}
	var ok bool
	w.name, w.raw, ok = w.c.pair()
	return ok
}

// ends finds out whether anything comes after the object.
func (w *walk) ends() bool {
	w.c.space()
	w.whole = w.c.at == len(w.c.data)
	return false
}

// twice reports whether a member came before; of two, encoding/json says which
// counts. bit stands for its name, and is 0 for one that does not matter.
func (w *walk) twice(bit uint32) bool {
	before := w.seen&bit != 0
	w.seen |= bit
	return before
}

// decodePlain reads a record that has no member that this version does not know.
func decodePlain(data []byte) (j Job, ok bool) {
	w := walk{c: cutter{data: data}}
	for w.next() {
		if bit, ok := j.plainMember(w.name, w.raw); !ok || w.twice(bit) {
			return Job{}, false
		}
	}
	return j.decoded(w.whole)
}

// decoded is a record whose members have been taken.
func (j *Job) decoded(whole bool) (Job, bool) {
	if !whole || j.checkForm() != nil {
		return Job{}, false
	}
	j.Spec.tidy()
	j.tidy()
	return *j, true
}

// plainMember takes one member of a record.
func (j *Job) plainMember(name, raw []byte) (bit uint32, ok bool) {
	switch string(name) {
	case "id":
		return 1 << 0, putText(raw, &j.ID)
	case "stage":
		return 1 << 1, putText(raw, &j.Stage)
	case "input_ref":
		return 1 << 2, putText(raw, &j.InputRef)
	case "input_revision":
		return 1 << 3, putInt(raw, &j.InputRevision)
	case "key":
		return 1 << 4, putText(raw, &j.Key)
	case "payload":
		j.Payload = bytes.Clone(raw)
		return 1 << 5, raw[0] != 'n' && json.Valid(raw)
	case "max_attempts":
		return 1 << 6, putInt(raw, &j.MaxAttempts)
	case "priority":
		var n int64
		ok = putInt(raw, &n)
		j.Priority = int(n)
		return 1 << 7, ok && int64(j.Priority) == n
	case "available_at":
		return 1 << 8, putTime(raw, &j.AvailableAt)
	case "key_order":
		return 1 << 9, putInt(raw, &j.KeyOrder)
	case "attempt":
		return 1 << 10, putInt(raw, &j.Attempt)
	case "fence":
		return 1 << 11, putInt(raw, &j.Fence)
	case "state":
		return 1 << 12, putState(raw, &j.State)
	case "worker_id":
		return 1 << 13, putText(raw, &j.WorkerID)
	case "lease_expires_at":
		return 1 << 14, putTime(raw, &j.LeaseExpiresAt)
	case "output_ref":
		return 1 << 15, putText(raw, &j.OutputRef)
	case "reason":
		return 1 << 16, putText(raw, &j.Reason)
	case "finished_at":
		return 1 << 17, putTime(raw, &j.FinishedAt)
	case "created_at":
		return 1 << 18, putTime(raw, &j.CreatedAt)
	case "updated_at":
		return 1 << 19, putTime(raw, &j.UpdatedAt)
	case "on_dependency_failure":
		return 1 << 20, putText(raw, (*string)(&j.OnDependencyFailure))
	case "timeout":
		return 1 << 21, putDuration(raw, &j.Timeout)
	case "dependencies":
		return 1 << 22, putAny(raw, &j.Dependencies)
	case "waiting_on":
		return 1 << 23, putAny(raw, &j.WaitingOn)
	case "labels":
		return 1 << 24, putAny(raw, &j.Labels)
	case "attempts_log":
		return 1 << 25, putAny(raw, &j.AttemptsLog) && j.utcLog()
	case "traceparent":
		return 1 << 26, putText(raw, &j.Trace.Parent)
	case "tracestate":
		return 1 << 27, putText(raw, &j.Trace.State)
	}
	return 0, false
}

// utcLog puts the times of the history in UTC.
func (j *Job) utcLog() bool {
	for i := range j.AttemptsLog {
		line := &j.AttemptsLog[i]
		if !inUTC(&line.Started) || !inUTC(&line.Ended) {
			return false
		}
	}
	return true
}

// putText sets dst to a JSON string of printable ASCII without escapes.
func putText(raw []byte, dst *string) (ok bool) {
	*dst, ok = plainText(raw)
	return ok
}

// putState is putText for a state, of which there are few.
func putState(raw []byte, dst *State) bool {
	for _, s := range states {
		if len(raw) == len(s)+2 && raw[0] == '"' && raw[len(raw)-1] == '"' && string(raw[1:len(raw)-1]) == string(s) {
			*dst = s
			return true
		}
	}
	return false
}

var states = States()

// putInt sets dst to a whole number.
func putInt(raw []byte, dst *int64) bool {
	n, err := strconv.ParseInt(string(raw), 10, 64)
	*dst = n
	return err == nil && canonicalInt(raw)
}

// putTime sets dst to a time in UTC.
func putTime(raw []byte, dst *time.Time) bool {
	var t time.Time
	if len(raw) < 2 || raw[0] != '"' || !isPlain(raw[1:len(raw)-1]) || t.UnmarshalText(raw[1:len(raw)-1]) != nil {
		return false
	}
	*dst = t
	return inUTC(dst)
}

// inUTC puts a time in UTC, and reports whether RFC 3339 can write it there.
func inUTC(t *time.Time) bool {
	*t = t.UTC()
	year := t.Year()
	return year >= 0 && year <= 9999
}

func putDuration(raw []byte, dst *time.Duration) bool {
	text, ok := plainText(raw)
	d, err := time.ParseDuration(text)
	*dst = d
	return ok && err == nil
}

// putAny is for what encoding/json may as well read. It has memory of its own for
// that, so that the record can stay where it is.
func putAny[T any](raw []byte, dst *T) bool {
	value := new(T)
	err := json.Unmarshal(raw, value)
	*dst = *value
	return err == nil
}

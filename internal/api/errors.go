package api

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/weft-fabric/weft/fabric"
	"github.com/weft-fabric/weft/job"
	"github.com/weft-fabric/weft/kv"
)

// Codes of failures that are no refusal of a transition.
const (
	// codeUnavailable: the servers did not answer in time, or this instance is
	// stopping. Whether something was written is not known; repeat the request.
	codeUnavailable = "unavailable"
	// codeBusy: too many requests wait at this instance. Repeat it later.
	codeBusy = "busy"
	// codeUnreadable: the job's record is there and cannot be read.
	codeUnreadable = "unreadable_record"
	// codeInternal: none of the above; the instance's log has it.
	codeInternal = "internal"
)

// fault is an error with a code of this package.
type fault struct{ code, text string }

func (f *fault) Error() string { return f.text }

var (
	errBusy     error = &fault{codeBusy, "too many requests wait at this instance; repeat the request after a pause"}
	errStopping error = &fault{codeUnavailable, "this instance is stopping; repeat the request"}
)

// failure is an error as it is answered, its body.
type failure struct {
	Code        string          `json:"code"`
	Message     string          `json:"message"`
	JobID       string          `json:"job_id,omitempty"`
	AvailableAt time.Time       `json:"available_at,omitzero"`
	ExpiresAt   time.Time       `json:"expires_at,omitzero"`
	Job         json.RawMessage `json:"job,omitempty"`
}

// about is an error that concerns a job, and that job as it stands if it is known.
type about struct {
	error
	id  string
	job job.Job
}

func (a *about) Unwrap() error { return a.error }

// concerning adds to an error which job it is about.
func concerning(id string, err error) error {
	if err == nil {
		return nil
	}
	return &about{error: err, id: id}
}

// failureOf says what an error is to the caller.
func failureOf(nc *nats.Conn, err error) failure {
	f := failure{Code: codeOf(err), Message: oneLine(err.Error())}
	if refused, ok := errors.AsType[*job.Error](err); ok {
		f.JobID, f.AvailableAt, f.ExpiresAt = refused.JobID, refused.AvailableAt, refused.ExpiresAt
	}
	a, ok := errors.AsType[*about](err)
	if ok && f.JobID == "" {
		f.JobID = a.id
	}
	if ok && a.job.State != "" {
		f.Job = a.job.AppendJSON(nil)
		if len(f.Job)+room > int(nc.MaxPayload()) {
			f.Job = nil
		}
	}
	return f
}

func (f failure) body() []byte {
	body, err := json.Marshal(f)
	if err != nil {
		return nil
	}
	return body
}

func codeOf(err error) string {
	if own, ok := errors.AsType[*fault](err); ok {
		return own.code
	}
	if refused, ok := errors.AsType[*job.Error](err); ok {
		return string(refused.Code)
	}
	if errors.Is(err, kv.ErrUnreadable) {
		return codeUnreadable
	}
	if _, ok := errors.AsType[*fabric.ServerError](err); ok {
		return codeUnavailable
	}
	for _, sign := range []error{
		kv.ErrUndecided, context.DeadlineExceeded, context.Canceled,
		nats.ErrTimeout, nats.ErrNoResponders, nats.ErrConnectionClosed, nats.ErrDisconnected,
	} {
		if errors.Is(err, sign) {
			return codeUnavailable
		}
	}
	return codeInternal
}

// maxLine is how long the line of an error may be, in bytes.
const maxLine = 1 << 10

// oneLine makes a text fit for a header.
func oneLine(text string) string {
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }), "; ")
	if len(text) > maxLine {
		text = strings.ToValidUTF8(text[:maxLine], "") + "..."
	}
	return text
}

package kv

import (
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/weft-fabric/weft/job"
)

// ErrUndecided means that the time given for a write ran out while nobody could
// say whether it happened. It may have happened, or happen yet.
var ErrUndecided = errors.New("undecided: no answer in time, the write may have happened")

// ErrUnreadable means that a record is there and cannot be decoded. It is never
// overwritten.
var ErrUnreadable = errors.New("record unreadable")

// Conflict is a refused write: the key is at another revision than expected.
type Conflict struct {
	Key     string
	Current Entry // what is there now; Revision 0 if nothing is
}

// Error names the key and the revision found.
func (c *Conflict) Error() string {
	return fmt.Sprintf("key %s changed: it is at revision %d", c.Key, c.Current.Revision)
}

// Server codes, by measurement: a conflict has two.
const (
	codeWrongLastSequence         jetstream.ErrorCode = 10071
	codeWrongLastSequenceInFlight jetstream.ErrorCode = 10164
	codeNoMessage                 jetstream.ErrorCode = 10037
)

func isConflict(err error) bool {
	api, ok := errors.AsType[*jetstream.APIError](err)
	return ok && (api.ErrorCode == codeWrongLastSequence || api.ErrorCode == codeWrongLastSequenceInFlight)
}

func isNoMessage(err error) bool {
	api, ok := errors.AsType[*jetstream.APIError](err)
	return errors.Is(err, jetstream.ErrMsgNotFound) || ok && api.ErrorCode == codeNoMessage
}

// missing is the error of a lookup that found no record.
func missing(id string) error { return &job.Error{Code: job.CodeMissingJob, JobID: id} }

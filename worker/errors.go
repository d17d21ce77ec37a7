package worker

import "errors"

// Why a handler's context ended, for errors.Is(context.Cause(ctx), ...).
var (
	// ErrTimeout: the attempt took longer than the job's timeout.
	ErrTimeout = errors.New("attempt timed out")
	// ErrCancelled: somebody cancelled the job, or a newer one superseded it. The
	// cause is a *CancelledError, which carries the record's reason.
	ErrCancelled = errors.New("job was cancelled")
	// ErrLeaseLost: another worker may have the job, or it has ended.
	ErrLeaseLost = errors.New("lease was lost")
	// ErrDraining: the worker stops and the time for running jobs is over.
	ErrDraining = errors.New("worker is draining")
)

// What Handle and Run return.
var (
	// ErrStarted: the call came after Run.
	ErrStarted = errors.New("worker was already started")
	// ErrStrayHandlers: Run ended although handlers ignored their cancelled
	// context and still run. Their jobs have been given up.
	ErrStrayHandlers = errors.New("handlers did not stop")
	// ErrUnrecorded: outcomes could not be settled while Run drained, with the
	// server away. Their jobs will be offered again.
	ErrUnrecorded = errors.New("outcomes not recorded")
)

// CancelledError is the cause of a context whose job was cancelled. It matches
// ErrCancelled.
type CancelledError struct {
	Reason string // as the record has it
}

// Error gives one line.
func (e *CancelledError) Error() string {
	if e.Reason == "" {
		return ErrCancelled.Error()
	}
	return ErrCancelled.Error() + ": " + e.Reason
}

// Unwrap makes the error match ErrCancelled.
func (e *CancelledError) Unwrap() error { return ErrCancelled }

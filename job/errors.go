package job

import (
	"fmt"
	"time"
)

// Code names why a transition was refused. The codes are part of the wire:
// command-line programs print them and the service API answers with them.
type Code string

// The codes of all refusals.
const (
	CodeMissingJob           Code = "missing_job"
	CodeDuplicateJob         Code = "duplicate_job"
	CodeMissingDependency    Code = "missing_dependency"
	CodeIncompleteDependency Code = "incomplete_dependency"
	CodeInvalidJob           Code = "invalid_job"
	CodeNotAvailable         Code = "not_available"
	CodeLeaseHeld            Code = "lease_held"
	CodeAttemptLimitReached  Code = "attempt_limit_reached"
	CodeTerminalJob          Code = "terminal_job"
	CodeStaleLease           Code = "stale_lease"
	CodeLeaseExpired         Code = "lease_expired"
	CodeNotFailed            Code = "not_failed"
	CodeFenceChanged         Code = "fence_changed"
)

// Sentinels for errors.Is. Any *Error matches the sentinel of its code,
// whatever its other fields are.
var (
	// Enqueueing and looking up.
	ErrMissingJob   error = &Error{Code: CodeMissingJob}
	ErrDuplicateJob error = &Error{Code: CodeDuplicateJob}
	ErrInvalidJob   error = &Error{Code: CodeInvalidJob}

	// Dependencies.
	ErrMissingDependency    error = &Error{Code: CodeMissingDependency}
	ErrIncompleteDependency error = &Error{Code: CodeIncompleteDependency}

	// Claiming.
	ErrNotAvailable        error = &Error{Code: CodeNotAvailable}
	ErrLeaseHeld           error = &Error{Code: CodeLeaseHeld}
	ErrAttemptLimitReached error = &Error{Code: CodeAttemptLimitReached}
	ErrTerminalJob         error = &Error{Code: CodeTerminalJob}

	// Holding and settling.
	ErrStaleLease   error = &Error{Code: CodeStaleLease}
	ErrLeaseExpired error = &Error{Code: CodeLeaseExpired}

	// Operators and the keeper.
	ErrNotFailed    error = &Error{Code: CodeNotFailed}
	ErrFenceChanged error = &Error{Code: CodeFenceChanged}
)

// Error is a refused transition. Only the fields its code speaks of are set:
// JobID with missing_job, duplicate_job and the two dependency codes, Reason
// with invalid_job and duplicate_job, AvailableAt with not_available, ExpiresAt
// with lease_held and lease_expired.
type Error struct {
	Code        Code      `json:"code"`
	JobID       string    `json:"job_id,omitempty"`
	Reason      string    `json:"reason,omitempty"`
	AvailableAt time.Time `json:"available_at,omitzero"`
	ExpiresAt   time.Time `json:"expires_at,omitzero"`
}

// Error gives one line: the code, then what the code speaks of.
func (e *Error) Error() string {
	text := string(e.Code)
	if e.JobID != "" {
		text += " " + e.JobID
	}
	if e.Reason != "" {
		text += ": " + e.Reason
	}
	if !e.AvailableAt.IsZero() {
		text += ": available at " + e.AvailableAt.UTC().Format(time.RFC3339Nano)
	}
	if !e.ExpiresAt.IsZero() {
		text += ": lease expires at " + e.ExpiresAt.UTC().Format(time.RFC3339Nano)
	}
	return text
}

// Is reports whether target is a job error of the same code.
func (e *Error) Is(target error) bool {
	other, ok := target.(*Error)
	return ok && other.Code == e.Code
}

// Invalid is an invalid_job error whose reason is formatted as by fmt.Sprintf.
func Invalid(format string, args ...any) *Error {
	return &Error{Code: CodeInvalidJob, Reason: fmt.Sprintf(format, args...)}
}

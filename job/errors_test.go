package job_test

// Refusals: every code has a sentinel that errors.Is finds, through wrapping and
// whatever the other fields are, and no sentinel matches another code.

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/weft-fabric/weft/job"
)

// sentinels are the thirteen refusals by code.
var sentinels = map[job.Code]error{
	"missing_job":           job.ErrMissingJob,
	"duplicate_job":         job.ErrDuplicateJob,
	"missing_dependency":    job.ErrMissingDependency,
	"incomplete_dependency": job.ErrIncompleteDependency,
	"invalid_job":           job.ErrInvalidJob,
	"not_available":         job.ErrNotAvailable,
	"lease_held":            job.ErrLeaseHeld,
	"attempt_limit_reached": job.ErrAttemptLimitReached,
	"terminal_job":          job.ErrTerminalJob,
	"stale_lease":           job.ErrStaleLease,
	"lease_expired":         job.ErrLeaseExpired,
	"not_failed":            job.ErrNotFailed,
	"fence_changed":         job.ErrFenceChanged,
}

func TestErrorsMatchBySentinel(t *testing.T) {
	t.Parallel()
	if len(sentinels) != 13 {
		t.Fatalf("%d sentinels, want 13", len(sentinels))
	}
	for code := range sentinels {
		full := &job.Error{Code: code, JobID: "jb_1", Reason: "why", AvailableAt: at(1), ExpiresAt: at(2)}
		wrapped := fmt.Errorf("store: %w: %w", fmt.Errorf("settle: %w", full), io.ErrUnexpectedEOF)
		for other, sentinel := range sentinels {
			for _, err := range []error{full, wrapped, errors.Join(io.EOF, full)} {
				if got, want := errors.Is(err, sentinel), code == other; got != want {
					t.Errorf("errors.Is(%v, %s) = %t, want %t", err, other, got, want)
				}
			}
		}
	}
}

func TestErrorsOfOtherKindsDoNotMatch(t *testing.T) {
	t.Parallel()
	if errors.Is(io.EOF, job.ErrStaleLease) || errors.Is(job.ErrStaleLease, io.EOF) {
		t.Error("an error of another package matches a refusal")
	}
	if errors.Is(errors.New("stale_lease"), job.ErrStaleLease) {
		t.Error("an error matches by its text")
	}
}

func TestErrorTextAndWire(t *testing.T) {
	t.Parallel()
	tests := []struct {
		err        *job.Error
		text, wire string
	}{
		{&job.Error{Code: job.CodeStaleLease}, `stale_lease`, `{"code":"stale_lease"}`},
		{&job.Error{Code: job.CodeMissingJob, JobID: "jb_1"}, `missing_job jb_1`, `{"code":"missing_job","job_id":"jb_1"}`},
		{
			&job.Error{Code: job.CodeDuplicateJob, JobID: "jb_1", Reason: "another spec"},
			`duplicate_job jb_1: another spec`, `{"code":"duplicate_job","job_id":"jb_1","reason":"another spec"}`,
		},
		{job.Invalid("lane %d", 9), `invalid_job: lane 9`, `{"code":"invalid_job","reason":"lane 9"}`},
		{
			&job.Error{Code: job.CodeNotAvailable, AvailableAt: at(1)},
			`not_available: available at 2026-01-02T03:04:06Z`,
			`{"code":"not_available","available_at":"2026-01-02T03:04:06Z"}`,
		},
		{
			&job.Error{Code: job.CodeLeaseHeld, ExpiresAt: at(1)},
			`lease_held: lease expires at 2026-01-02T03:04:06Z`,
			`{"code":"lease_held","expires_at":"2026-01-02T03:04:06Z"}`,
		},
	}
	for _, tt := range tests {
		wire, err := json.Marshal(tt.err)
		if err != nil || string(wire) != tt.wire {
			t.Errorf("wire form %s, %v, want %s", wire, err, tt.wire)
		}
		if got := tt.err.Error(); got != tt.text {
			t.Errorf("text %q, want %q", got, tt.text)
		}
	}
}

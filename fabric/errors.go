package fabric

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weft-fabric/weft/job"
)

// explain says what a failed request to the server means, where the client's
// error alone does not: a refused permission shows as a time-out, and missing
// JetStream as nobody answering.
func explain(nc *nats.Conn, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, jetstream.ErrJetStreamNotEnabled),
		errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount),
		errors.Is(err, nats.ErrNoResponders):
		return &ServerError{URL: nc.ConnectedUrlRedacted(), Reason: "does not offer JetStream to this user; enable it with -js or in its configuration", Err: err}
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrTimeout):
		if last := nc.LastError(); errors.Is(last, nats.ErrPermissionViolation) {
			return fmt.Errorf("%w (a refused permission shows as no answer): %w", last, err)
		}
	case isFull(err):
		return fmt.Errorf("the server has no room left: free some, or raise the limit of JetStream, the account or the stream: %w", err)
	}
	return err
}

// Server codes of a refusal for want of room.
const (
	codeAccountResources jetstream.ErrorCode = 10002
	codeNoResources      jetstream.ErrorCode = 10023
	codeNoStorage        jetstream.ErrorCode = 10047
	codeStoreFailed      jetstream.ErrorCode = 10077 // a limit of the stream itself
)

func isFull(err error) bool {
	api, ok := errors.AsType[*jetstream.APIError](err)
	return ok && (api.ErrorCode == codeAccountResources || api.ErrorCode == codeNoResources ||
		api.ErrorCode == codeNoStorage || api.ErrorCode == codeStoreFailed)
}

// codeOf is the code of a refused transition, empty for any other error.
func codeOf(err error) job.Code {
	if refused, ok := errors.AsType[*job.Error](err); ok {
		return refused.Code
	}
	return ""
}

// stale is the refusal of a claim that is no longer the caller's.
func stale(id string) error {
	return fmt.Errorf("job %s: %w", id, &job.Error{Code: job.CodeStaleLease})
}

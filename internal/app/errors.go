package app

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weft-fabric/weft/fabric"
	"github.com/weft-fabric/weft/internal/topology"
	"github.com/weft-fabric/weft/job"
	"github.com/weft-fabric/weft/kv"
)

// Exit codes of every command.
const (
	ExitDone     = 0
	ExitFailed   = 1 // the work, or the program, failed
	ExitUsage    = 2 // wrong flags, arguments, settings or specs
	ExitNotFound = 3 // no such job, stage, cron entry, feed or output
	ExitRefused  = 4 // the fabric said no; the error code is printed
	ExitNoServer = 5 // no server, or none that will do
)

// UsageError is a mistake of whoever called the program.
type UsageError struct{ Err error }

// Usage makes a UsageError whose text is formatted as by fmt.Errorf.
func Usage(format string, args ...any) error { return &UsageError{fmt.Errorf(format, args...)} }

func (e *UsageError) Error() string { return e.Err.Error() }

// Unwrap keeps the cause reachable.
func (e *UsageError) Unwrap() error { return e.Err }

// ServerError is a server that is absent or will not do.
type ServerError struct{ Err error }

func (e *ServerError) Error() string { return e.Err.Error() }

// Unwrap keeps the cause reachable.
func (e *ServerError) Unwrap() error { return e.Err }

// QuietError is an end with an exit code whose reason the program has already
// told.
type QuietError struct{ Code int }

func (e *QuietError) Error() string { return fmt.Sprintf("exit %d", e.Code) }

// ExitCode is the one place that says what an error means to the shell.
func ExitCode(err error) int {
	if err == nil {
		return ExitDone
	}
	if quiet, ok := errors.AsType[*QuietError](err); ok {
		return quiet.Code
	}
	if _, ok := errors.AsType[*UsageError](err); ok {
		return ExitUsage
	}
	if refused, ok := errors.AsType[*job.Error](err); ok {
		return refusalCode(refused.Code)
	}
	if _, ok := errors.AsType[*RefusedError](err); ok {
		return ExitRefused
	}
	if errors.Is(err, fabric.ErrMissingStage) || errors.Is(err, fabric.ErrMissingCron) || errors.Is(err, fabric.ErrMissingFeed) || errors.Is(err, fabric.ErrAbsent) {
		return ExitNotFound
	}
	if _, ok := errors.AsType[*fabric.ScheduleError](err); ok {
		return ExitUsage
	}
	if _, ok := errors.AsType[*fabric.FeedConflict](err); ok {
		return ExitRefused
	}
	if _, ok := errors.AsType[*topology.DriftError](err); ok {
		return ExitRefused
	}
	if unreachable(err) {
		return ExitNoServer
	}
	return ExitFailed
}

func refusalCode(code job.Code) int {
	switch code {
	case job.CodeMissingJob:
		return ExitNotFound
	case job.CodeInvalidJob:
		return ExitUsage
	}
	return ExitRefused
}

// unreachable reports whether err says that no server, or none with JetStream,
// answered.
func unreachable(err error) bool {
	if _, ok := errors.AsType[*RefusedError](err); ok {
		return false
	}
	if _, ok := errors.AsType[*ServerError](err); ok {
		return true
	}
	if _, ok := errors.AsType[*fabric.ServerError](err); ok {
		return true
	}
	if refused, ok := errors.AsType[*jetstream.APIError](err); ok && refused.ErrorCode == clusterUnavailable {
		return true
	}
	for _, sign := range []error{
		nats.ErrNoServers, nats.ErrTimeout, nats.ErrNoResponders, nats.ErrConnectionClosed,
		nats.ErrDisconnected, nats.ErrAuthorization, nats.ErrAuthExpired,
		jetstream.ErrJetStreamNotEnabled, jetstream.ErrJetStreamNotEnabledForAccount, jetstream.ErrNoStreamResponse,
		kv.ErrUndecided,
		syscall.ECONNREFUSED, context.DeadlineExceeded,
	} {
		if errors.Is(err, sign) {
			return true
		}
	}
	return false
}

// clusterUnavailable is how JetStream says that too few of its servers are there.
const clusterUnavailable jetstream.ErrorCode = 10008

// Line gives an error as one line.
func Line(err error) string {
	lines := strings.FieldsFunc(err.Error(), func(r rune) bool { return r == '\n' || r == '\r' })
	return strings.Join(lines, "; ")
}

package job

import (
	"bytes"
	"io"
	"time"
)

// Outcome is how an attempt ended, as its handler says it. Outcomes are made by
// the constructors below and turned into a transition by the fabric; nobody
// assigns a state.
type Outcome struct {
	kind   OutcomeKind
	ref    string
	open   func() (io.ReadCloser, error)
	reason string
	delay  time.Duration
	timed  bool
}

// OutcomeKind says which transition an outcome asks for.
type OutcomeKind int

// The kinds of outcome.
const (
	KindCompleted OutcomeKind = iota + 1
	KindFailed
	KindDiscarded
	KindReturned
	KindReleased
)

// Completed is a success whose output is already at ref, which must not be
// empty.
func Completed(ref string) Outcome { return Outcome{kind: KindCompleted, ref: ref} }

// CompletedWith is a success whose output is data. The fabric keeps up to
// MaxInlineOutput bytes in the record and stores more as an object.
func CompletedWith(data []byte) Outcome {
	return CompletedFrom(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil })
}

// CompletedFrom is a success whose output is read from open, which is called
// once for each try at storing it.
func CompletedFrom(open func() (io.ReadCloser, error)) Outcome {
	return Outcome{kind: KindCompleted, open: open}
}

// Failed ends the attempt with a reason; the job is tried again after the
// stage's backoff while attempts are left.
func Failed(reason string) Outcome { return Outcome{kind: KindFailed, reason: reason} }

// FailedAfter is Failed with a delay of its own in place of the backoff.
func FailedAfter(reason string, delay time.Duration) Outcome {
	return Outcome{kind: KindFailed, reason: reason, delay: delay, timed: true}
}

// Discarded ends the job as failed, whatever attempts are left.
func Discarded(reason string) Outcome { return Outcome{kind: KindDiscarded, reason: reason} }

// Returned gives the job back by the handler's own wish, at no charge, for the
// backoff's delay. After FreeReturns in a row the next one is charged.
func Returned(reason string) Outcome { return Outcome{kind: KindReturned, reason: reason} }

// Snoozed is Returned with a delay of its own in place of the backoff.
func Snoozed(reason string, delay time.Duration) Outcome {
	return Outcome{kind: KindReturned, reason: reason, delay: delay, timed: true}
}

// Released gives the job back at no charge because its worker stops.
func Released() Outcome { return Outcome{kind: KindReleased} }

// Kind says which transition the outcome asks for; the zero Outcome has none.
func (o Outcome) Kind() OutcomeKind { return o.kind }

// Reason is why the attempt did not succeed.
func (o Outcome) Reason() string { return o.reason }

// Delay is the wait the handler asked for, and whether it asked for one.
func (o Outcome) Delay() (time.Duration, bool) { return o.delay, o.timed }

// OutputRef is where the output of a success is, empty if it still has to be
// stored from Open.
func (o Outcome) OutputRef() string { return o.ref }

// Open gives the output that has to be stored, or nil if OutputRef names it.
func (o Outcome) Open() func() (io.ReadCloser, error) { return o.open }

// String names the outcome, for logs.
func (o Outcome) String() string {
	switch o.kind {
	case KindCompleted:
		return "completed"
	case KindFailed:
		return "failed"
	case KindDiscarded:
		return "discarded"
	case KindReturned:
		return "returned"
	case KindReleased:
		return "released"
	}
	return "no outcome"
}

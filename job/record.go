package job

import (
	"encoding/json"
	"time"
)

// State is where a job is in its life.
type State string

// The states. The last three are terminal: only an operator's retry leaves
// StateFailed, and nothing leaves the other two.
const (
	StateWaiting      State = "waiting"
	StateRetryWaiting State = "retry_waiting"
	StateLeased       State = "leased"
	StateSucceeded    State = "succeeded"
	StateFailed       State = "failed"
	StateCancelled    State = "cancelled"
)

// States lists every state in the order a job may pass through them.
func States() []State {
	return []State{StateWaiting, StateRetryWaiting, StateLeased, StateSucceeded, StateFailed, StateCancelled}
}

// Terminal reports whether the job has ended.
func (s State) Terminal() bool {
	return s == StateSucceeded || s == StateFailed || s == StateCancelled
}

// Idle reports whether the job waits to be claimed.
func (s State) Idle() bool { return s == StateWaiting || s == StateRetryWaiting }

// Known reports whether s is one of States.
func (s State) Known() bool { return s.Idle() || s.Terminal() || s == StateLeased }

// Job is the record: the spec it was made from and how far it has come. Its
// JSON is the wire form. Fields that do not belong to the state are zero and are
// not written. Read the fields freely; change a job only through its methods,
// which return a changed copy.
type Job struct {
	Spec

	KeyOrder  int64    // with a key: the job of the greatest order is current
	WaitingOn []string // dependencies not yet seen to succeed; it only shrinks
	Attempt   int64    // the attempt that runs or ran last, from 1; 0 before the first
	Fence     int64    // grows by one at every claim
	State     State

	WorkerID       string          // leased: the holder
	LeaseExpiresAt time.Time       // leased: until when
	ItemSeq        uint64          // leased: stream sequence of the item that was taken
	Progress       json.RawMessage // leased: what the handler last reported

	OutputRef  string    // succeeded: where the output is
	Reason     string    // retry_waiting, failed, cancelled: why
	FinishedAt time.Time // terminal: when

	CreatedAt time.Time
	UpdatedAt time.Time

	AttemptsLog []Attempt // the last attempts that ended, and the one that runs
}

// Attempt is one line of a job's history.
type Attempt struct {
	Number  int64          `json:"number"`
	Fence   int64          `json:"fence"`
	Worker  string         `json:"worker"`
	Started time.Time      `json:"started"`
	Ended   time.Time      `json:"ended,omitzero"`
	Outcome AttemptOutcome `json:"outcome,omitempty"`
	Reason  string         `json:"reason,omitempty"`
}

// AttemptOutcome is how an attempt ended; it is empty while the attempt runs.
type AttemptOutcome string

// How attempts end. A released attempt was given back by a worker that stops, a
// returned one by its own handler; neither is charged.
const (
	AttemptSucceeded AttemptOutcome = "succeeded"
	AttemptFailed    AttemptOutcome = "failed"
	AttemptExpired   AttemptOutcome = "expired"
	AttemptReleased  AttemptOutcome = "released"
	AttemptReturned  AttemptOutcome = "returned"
	AttemptCancelled AttemptOutcome = "cancelled"
)

const (
	// keptAttempts is how many ended attempts a record remembers.
	keptAttempts = 10
	// loggedReason is how much of a reason a line of history keeps, in bytes;
	// ten full reasons would let a record outgrow its message.
	loggedReason = 512
	// FreeReturns is how many times in a row a handler may give its job back
	// before the next time is charged as an attempt, so that a handler that
	// never gets ready still comes to an end.
	FreeReturns = keptAttempts
)

// Growth is the most, in bytes, that transitions add to a record after it was
// made: a reason, progress, an inline output and a full history. Enqueueing
// leaves this much room below the message limit, so that every transition fits.
const Growth = 64 << 10

// Token is what a claim hands to its worker and what every later call must
// show. It is valid while each field matches the record.
type Token struct {
	JobID         string    `json:"job_id"`
	InputRevision int64     `json:"input_revision"`
	WorkerID      string    `json:"worker_id"`
	Fence         int64     `json:"fence"`
	ExpiresAt     time.Time `json:"expires_at"`
}

// Token is the lease token that the record's holder has; it is the zero Token
// when the job is not leased.
func (j Job) Token() Token {
	if j.State != StateLeased {
		return Token{}
	}
	return Token{JobID: j.ID, InputRevision: j.InputRevision, WorkerID: j.WorkerID, Fence: j.Fence, ExpiresAt: j.LeaseExpiresAt}
}

// Claim is a job in the hands of a worker.
type Claim struct {
	Job   Job
	Token Token
	// Lease is how long each renewal extends the lease; renew every third of it.
	Lease time.Duration
	// Left is how much of the lease was left when the claim was handed out; 0 means
	// all of it.
	Left time.Duration
	// Nudge hints that something may have happened to the job that its holder
	// should learn of by renewing now. It may be nil.
	Nudge *Nudge
}

// Returns is how many of the attempts that ended last were given back by their
// handlers, without another end between them.
func (j Job) Returns() int {
	count := 0
	for i := len(j.AttemptsLog) - 1; i >= 0; i-- {
		switch j.AttemptsLog[i].Outcome {
		case AttemptReturned:
			count++
		case "": // the one that runs
		default:
			return count
		}
	}
	return count
}

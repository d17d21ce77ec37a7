package job

import (
	"math"
	"slices"
	"time"
	"unicode/utf8"
)

// expiredReason is why an attempt whose worker fell silent has failed.
const expiredReason = "worker lease expired"

// New makes the record of a fresh job: waiting, with attempt and fence at 0. It
// fails with invalid_job and the rule that the spec breaks.
func New(spec Spec, now time.Time) (Job, error) {
	if err := spec.Check(); err != nil {
		return Job{}, err
	}
	if spec.AvailableAt.IsZero() {
		spec.AvailableAt = now
	}
	spec.AvailableAt = spec.AvailableAt.UTC()
	return Job{
		Spec:      spec,
		State:     StateWaiting,
		WaitingOn: slices.Clone(spec.Dependencies),
		CreatedAt: now.UTC(),
		UpdatedAt: now.UTC(),
	}, nil
}

// Claim leases the job to a worker until now+lease: attempt and fence grow by
// one. A lease that ran out may be taken over. It fails with terminal_job,
// lease_held, invalid_job, not_available or attempt_limit_reached.
func (j Job) Claim(worker string, now time.Time, lease time.Duration) (Job, Token, error) {
	if err := j.claimable(worker, now, lease); err != nil {
		return Job{}, Token{}, err
	}
	if j.State == StateLeased {
		j.closeAttempt(AttemptExpired, expiredReason, now)
	}
	j.enter(StateLeased, now)
	j.Attempt++
	j.Fence++
	j.WorkerID = worker
	j.LeaseExpiresAt = now.Add(lease).UTC()
	j.openAttempt(now)
	return j, j.Token(), nil
}

func (j Job) claimable(worker string, now time.Time, lease time.Duration) error {
	switch {
	case j.State.Terminal():
		return &Error{Code: CodeTerminalJob}
	case j.State == StateLeased && now.Before(j.LeaseExpiresAt):
		return &Error{Code: CodeLeaseHeld, ExpiresAt: j.LeaseExpiresAt}
	case worker == "":
		return Invalid("worker_id must not be empty")
	case lease <= 0:
		return Invalid("lease_duration must be positive")
	case j.State.Idle() && now.Before(j.AvailableAt):
		return &Error{Code: CodeNotAvailable, AvailableAt: j.AvailableAt}
	case j.Attempt >= j.MaxAttempts:
		return &Error{Code: CodeAttemptLimitReached}
	}
	return nil
}

// valid refuses a token that does not match the record in every field, with
// stale_lease, and then one whose lease has run out, with lease_expired.
func (j Job) valid(token Token, worker string, now time.Time) error {
	switch {
	case worker != token.WorkerID,
		token.JobID != j.ID,
		token.InputRevision != j.InputRevision,
		j.State != StateLeased,
		token.WorkerID != j.WorkerID,
		token.Fence != j.Fence,
		!token.ExpiresAt.Equal(j.LeaseExpiresAt):
		return &Error{Code: CodeStaleLease}
	case !now.Before(j.LeaseExpiresAt):
		return &Error{Code: CodeLeaseExpired, ExpiresAt: j.LeaseExpiresAt}
	}
	return nil
}

// held is valid, but forgives a lease that ran out while nobody took it over.
func (j Job) held(token Token, worker string, now time.Time) error {
	err := j.valid(token, worker, now)
	if refused, ok := err.(*Error); ok && refused.Code == CodeLeaseExpired {
		return nil
	}
	return err
}

// Complete ends the job as succeeded. It fails with stale_lease, lease_expired
// or invalid_job.
func (j Job) Complete(token Token, worker, outputRef string, now time.Time) (Job, error) {
	if err := j.valid(token, worker, now); err != nil {
		return Job{}, err
	}
	if err := checkOutputRef(outputRef); err != nil {
		return Job{}, err
	}
	j.closeAttempt(AttemptSucceeded, "", now)
	j.finish(StateSucceeded, "", now)
	j.OutputRef = outputRef
	return j, nil
}

func checkOutputRef(ref string) error {
	switch {
	case ref == "":
		return Invalid("output_ref must not be empty")
	case !utf8.ValidString(ref):
		return Invalid("output_ref %s is not valid UTF-8", quote(ref))
	case len(appendString(nil, ref)) > MaxOutputRefSize:
		return Invalid("output_ref of %d bytes is too long; store the output and name it", len(ref))
	}
	return nil
}

// Fail ends the attempt: the job waits retryDelay for its next one, or has
// failed when none is left. It fails with stale_lease, lease_expired or
// invalid_job.
func (j Job) Fail(token Token, worker, reason string, now time.Time, retryDelay time.Duration) (Job, error) {
	if err := j.valid(token, worker, now); err != nil {
		return Job{}, err
	}
	if retryDelay < 0 {
		return Job{}, Invalid("retry_delay must be nonnegative")
	}
	return j.retryOrFail(AttemptFailed, reason, now, retryDelay), nil
}

func (j Job) retryOrFail(outcome AttemptOutcome, reason string, now time.Time, delay time.Duration) Job {
	j.closeAttempt(outcome, reason, now)
	if j.Attempt >= j.MaxAttempts {
		j.finish(StateFailed, reason, now)
		return j
	}
	j.enter(StateRetryWaiting, now)
	j.Reason = CutReason(reason)
	j.AvailableAt = now.Add(delay).UTC()
	return j
}

// FailPermanently ends the job as failed, whatever attempts are left. It fails
// with stale_lease, lease_expired or invalid_job.
func (j Job) FailPermanently(token Token, worker, reason string, now time.Time) (Job, error) {
	if err := j.valid(token, worker, now); err != nil {
		return Job{}, err
	}
	if reason == "" {
		return Job{}, Invalid("reason must not be empty")
	}
	j.closeAttempt(AttemptFailed, reason, now)
	j.finish(StateFailed, reason, now)
	return j, nil
}

// Renew extends the lease to now+lease and makes the old token stale. A lease
// that ran out is renewed too, as long as nobody has taken the job over. It
// fails with invalid_job or stale_lease.
func (j Job) Renew(token Token, worker string, now time.Time, lease time.Duration) (Job, Token, error) {
	if lease <= 0 {
		return Job{}, Token{}, Invalid("lease_duration must be positive")
	}
	if err := j.held(token, worker, now); err != nil {
		return Job{}, Token{}, err
	}
	j.LeaseExpiresAt = now.Add(lease).UTC()
	j.UpdatedAt = now.UTC()
	return j, j.Token(), nil
}

// Release gives the job back at no charge: it waits again from now, the attempt
// does not count, and the fence stays. It fails with stale_lease.
func (j Job) Release(token Token, worker string, now time.Time) (Job, error) {
	if err := j.held(token, worker, now); err != nil {
		return Job{}, err
	}
	return j.giveBack(AttemptReleased, "", now, 0), nil
}

// Return gives the job back by its handler's own wish: it waits delay, and the
// attempt does not count unless the last FreeReturns attempts ended this way
// too; then it is charged as a failure. It fails with stale_lease or
// invalid_job.
func (j Job) Return(token Token, worker, reason string, now time.Time, delay time.Duration) (Job, error) {
	if err := j.held(token, worker, now); err != nil {
		return Job{}, err
	}
	if delay < 0 {
		return Job{}, Invalid("retry_delay must be nonnegative")
	}
	if j.Returns() >= FreeReturns {
		return j.retryOrFail(AttemptFailed, reason, now, delay), nil
	}
	return j.giveBack(AttemptReturned, reason, now, delay), nil
}

func (j Job) giveBack(outcome AttemptOutcome, reason string, now time.Time, delay time.Duration) Job {
	j.closeAttempt(outcome, reason, now)
	j.enter(StateWaiting, now)
	j.Attempt = max(0, j.Attempt-1)
	j.AvailableAt = now.Add(delay).UTC()
	return j
}

// Expire ends an attempt whose lease ran out, as Fail with no delay. The caller
// names the fence it saw, so that a replacement's lease cannot be ended. It
// fails with fence_changed, lease_held, terminal_job or stale_lease.
func (j Job) Expire(fence int64, now time.Time) (Job, error) {
	switch {
	case j.Fence != fence:
		return Job{}, &Error{Code: CodeFenceChanged}
	case j.State == StateLeased && now.Before(j.LeaseExpiresAt):
		return Job{}, &Error{Code: CodeLeaseHeld, ExpiresAt: j.LeaseExpiresAt}
	case j.State.Terminal():
		return Job{}, &Error{Code: CodeTerminalJob}
	case j.State.Idle():
		return Job{}, &Error{Code: CodeStaleLease}
	}
	return j.retryOrFail(AttemptExpired, expiredReason, now, 0), nil
}

// Cancel ends the job as cancelled, whoever holds it. It fails with
// fence_changed or terminal_job.
func (j Job) Cancel(fence int64, reason string, now time.Time) (Job, error) {
	switch {
	case j.Fence != fence:
		return Job{}, &Error{Code: CodeFenceChanged}
	case j.State.Terminal():
		return Job{}, &Error{Code: CodeTerminalJob}
	}
	j.closeAttempt(AttemptCancelled, reason, now)
	j.finish(StateCancelled, reason, now)
	return j, nil
}

// Retry gives a failed job one more attempt, from now, by an operator's word. It
// fails with fence_changed or not_failed.
func (j Job) Retry(fence int64, reason string, now time.Time) (Job, error) {
	switch {
	case j.Fence != fence:
		return Job{}, &Error{Code: CodeFenceChanged}
	case j.State != StateFailed:
		return Job{}, &Error{Code: CodeNotFailed}
	}
	j.enter(StateRetryWaiting, now)
	if j.MaxAttempts < math.MaxInt64 {
		j.MaxAttempts++
	}
	j.Reason = CutReason(reason)
	j.AvailableAt = now.UTC()
	return j, nil
}

// DependencyMet takes id off the list that the job waits for. The second result
// tells whether the list changed.
func (j Job) DependencyMet(id string, now time.Time) (Job, bool) {
	at := slices.Index(j.WaitingOn, id)
	if at < 0 || !j.State.Idle() {
		return j, false
	}
	j.WaitingOn = slices.Delete(slices.Clone(j.WaitingOn), at, at+1)
	j.UpdatedAt = now.UTC()
	return j, true
}

// DependencyError tells whether the job found under a dependency's id lets a
// dependent start: missing_dependency when there is none, incomplete_dependency
// when it has not succeeded, nil when it has.
func DependencyError(id string, dependency *Job) error {
	switch {
	case dependency == nil:
		return &Error{Code: CodeMissingDependency, JobID: id}
	case dependency.State != StateSucceeded:
		return &Error{Code: CodeIncompleteDependency, JobID: id}
	}
	return nil
}

// enter moves the job to a state and clears what belonged to the one before.
// What the new state needs is set by the caller.
func (j *Job) enter(state State, now time.Time) {
	j.State = state
	j.UpdatedAt = now.UTC()
	j.AvailableAt = time.Time{}
	j.WorkerID, j.LeaseExpiresAt, j.ItemSeq, j.Progress = "", time.Time{}, 0, nil
	j.OutputRef, j.Reason, j.FinishedAt = "", "", time.Time{}
	if !state.Idle() {
		j.WaitingOn = nil
	}
}

func (j *Job) finish(state State, reason string, now time.Time) {
	j.enter(state, now)
	j.Reason = CutReason(reason)
	j.FinishedAt = now.UTC()
}

// openAttempt adds the attempt that begins, after the last ended ones. The log
// is copied, since the job before the transition shares it.
func (j *Job) openAttempt(now time.Time) {
	ended := j.AttemptsLog[max(0, len(j.AttemptsLog)-keptAttempts):]
	j.AttemptsLog = append(slices.Clip(slices.Clone(ended)), Attempt{
		Number: j.Attempt, Fence: j.Fence, Worker: j.WorkerID, Started: now.UTC(),
	})
}

// closeAttempt says how the attempt that runs has ended, if one runs.
func (j *Job) closeAttempt(outcome AttemptOutcome, reason string, now time.Time) {
	last := len(j.AttemptsLog) - 1
	if j.State != StateLeased || last < 0 || j.AttemptsLog[last].Fence != j.Fence || j.AttemptsLog[last].Outcome != "" {
		return
	}
	j.AttemptsLog = slices.Clone(j.AttemptsLog)
	line := &j.AttemptsLog[last]
	line.Ended, line.Outcome, line.Reason = now.UTC(), outcome, cutLogged(reason)
	j.AttemptsLog = j.AttemptsLog[max(0, len(j.AttemptsLog)-keptAttempts):]
}

func cutLogged(reason string) string {
	return cutTo(CutReason(reason), loggedReason)
}

// Rejected makes the record of a job that was asked for in a form nobody can
// run, so that it ends in sight and not in silence: failed, before any attempt.
func Rejected(id, stage, reason string, now time.Time) Job {
	j := Job{Spec: Spec{ID: id, Stage: stage, MaxAttempts: 1}, CreatedAt: now.UTC()}
	j.finish(StateFailed, reason, now)
	return j
}

package metrics

import (
	"errors"
	"time"

	"github.com/weft-fabric/weft/fabric"
	"github.com/weft-fabric/weft/job"
	"github.com/weft-fabric/weft/worker"
)

var _ fabric.Observer = (*Metrics)(nil)

// unknown stands for a code or a state that there is none of: the server did not
// answer, or the record is gone.
const unknown = "error"

// Causes of a lost claim.
const (
	causeCancelled = "cancelled"
	causeTakenOver = "taken_over"
)

// Claimed counts a claim and how long its job had waited.
func (m *Metrics) Claimed(stage string, waited time.Duration) {
	m.claims.WithLabelValues(stage).Inc()
	m.waitDuration.WithLabelValues(stage).Observe(waited.Seconds())
}

// ClaimRefused counts an item that came to nothing.
func (m *Metrics) ClaimRefused(stage string, code job.Code) {
	m.claimsRefused.WithLabelValues(stage, codeName(code)).Inc()
}

// Renewed counts a renewal, or that it failed.
func (m *Metrics) Renewed(stage string, err error) {
	if err == nil {
		m.renewals.WithLabelValues(stage).Inc()
		return
	}
	m.renewalsFailed.WithLabelValues(stage, codeName(codeOf(err))).Inc()
}

func codeOf(err error) job.Code {
	if refused, ok := errors.AsType[*job.Error](err); ok {
		return refused.Code
	}
	return ""
}

func codeName(code job.Code) string {
	if code == "" {
		return unknown
	}
	return string(code)
}

// Lost counts a claim that was somebody else's to end.
func (m *Metrics) Lost(stage string, state job.State) {
	cause := causeTakenOver
	if state == job.StateCancelled {
		cause = causeCancelled
	}
	m.leasesLost.WithLabelValues(stage, cause).Inc()
}

// AttemptEnded counts an attempt by its outcome and its length.
func (m *Metrics) AttemptEnded(stage string, outcome job.AttemptOutcome, took time.Duration) {
	m.attemptDuration.WithLabelValues(stage, string(outcome)).Observe(took.Seconds())
	if outcome == job.AttemptReleased || outcome == job.AttemptReturned {
		m.released.WithLabelValues(stage, string(outcome)).Inc()
	}
}

// JobFinished counts a job's end.
func (m *Metrics) JobFinished(stage string, state job.State) {
	m.jobsFinished.WithLabelValues(stage, string(state)).Inc()
}

// Unreadable counts a sight of a record that cannot be read.
func (m *Metrics) Unreadable() { m.unreadable.Inc() }

// Leads notes whether this process leads. What its audits found is said no more by
// one that does not, since its successor says it.
func (m *Metrics) Leads(leads bool) {
	if leads {
		m.leading.Set(1)
		return
	}
	m.leading.Set(0)
	m.unreadableNow.Set(0)
	m.recordsAudited.Set(0)
}

// Kept counts something that the keeper did.
func (m *Metrics) Kept(action fabric.KeeperAction) {
	m.keeperActions.WithLabelValues(string(action)).Inc()
}

// Audited counts an audit and what it found.
func (m *Metrics) Audited(r fabric.AuditResult) {
	if r.Err != nil {
		m.audits.WithLabelValues(auditBrokenOff).Inc()
		return
	}
	m.audits.WithLabelValues(auditDone).Inc()
	m.auditDuration.Observe(r.Took.Seconds())
	m.auditFindings.WithLabelValues("without_item").Add(float64(r.Missing))
	m.auditFindings.WithLabelValues("schedule_not_fired").Add(float64(r.Stuck))
	m.recordsAudited.Set(float64(r.Records))
	m.unreadableNow.Set(float64(r.Unreadable))
}

// Worker gives the hooks of a worker that has so many slots for a stage. What rules
// look at the increase of begins at 0, so that they see the first time too.
func (m *Metrics) Worker(stage string, slots int) worker.Hooks {
	for _, state := range job.States() {
		if state.Terminal() {
			m.jobsFinished.WithLabelValues(stage, string(state))
		}
	}
	m.leasesLost.WithLabelValues(stage, causeCancelled)
	m.leasesLost.WithLabelValues(stage, causeTakenOver)
	m.slots.WithLabelValues(stage).Set(float64(slots))
	running, unstored := m.running.WithLabelValues(stage), m.outcomesUnstored.WithLabelValues(stage)
	return worker.Hooks{
		JobStarted: func(job.Job) { running.Inc() },
		JobSettled: func(_ job.Job, _ job.Outcome, err error, _ time.Duration) {
			running.Dec()
			if err != nil {
				unstored.Inc()
			}
		},
		LeaseLost: func(job.Job, error, time.Duration) { running.Dec() },
	}
}

package fabric

import (
	"time"

	"github.com/weft-fabric/weft/job"
)

// Observer is told of what this process does to jobs, for metrics. Its methods are
// called from many goroutines at once, some of which carry every job of the
// process: they must not block, and keep nothing. Stages, states, outcomes and codes
// are few; no method is given a job's id, so that none becomes a label.
//
// What is told has happened. A step whose answer was lost, and which turned out to
// have been done, may not be told.
type Observer interface {
	// Claimed is called when a job is leased to this process. waited is from when it
	// was available until then, on the server's clock.
	Claimed(stage string, waited time.Duration)
	// ClaimRefused is called when an item turns out to be none to claim, with the
	// code of the rule that says so.
	ClaimRefused(stage string, code job.Code)
	// Renewed is called after each renewal of a lease, with why it failed if it did.
	Renewed(stage string, err error)
	// Lost is called when a claim of this process turns out to be somebody else's to
	// end: state is what the job is in.
	Lost(stage string, state job.State)
	// AttemptEnded is called by whoever has ended an attempt, its worker or another.
	AttemptEnded(stage string, outcome job.AttemptOutcome, took time.Duration)
	// JobFinished is called by whoever has written a job's end.
	JobFinished(stage string, state job.State)
	// Unreadable is called for each sight of a record that cannot be read.
	Unreadable()
	// Leads is called when this process begins and when it ceases to be the keeper
	// that leads.
	Leads(bool)
	// Kept is called when the keeper has done something for a job.
	Kept(KeeperAction)
	// Audited is called after each audit.
	Audited(AuditResult)
}

// KeeperAction is something that a keeper does for whoever cannot.
type KeeperAction string

// The actions of a keeper.
const (
	ExpiredLease        KeeperAction = "lease_expired"          // an attempt was ended whose lease had run out
	OfferedItem         KeeperAction = "item_offered"           // a job without item was offered
	RevivedItem         KeeperAction = "item_revived"           // an item was offered again that would not have been delivered
	ReplacedSchedule    KeeperAction = "schedule_replaced"      // a job was offered whose schedule did not fire
	ReleasedDependent   KeeperAction = "dependent_released"     // a job was offered that waits for no other any more
	CancelledDependent  KeeperAction = "dependent_cancelled"    // a job was cancelled for the failure of another
	CancelledSuperseded KeeperAction = "superseded_cancelled"   // a job was cancelled that its key has moved on from
	TickFired           KeeperAction = "tick_fired"             // a tick became a job
	TickRefused         KeeperAction = "tick_refused"           // a tick became none
	ScheduleRepaired    KeeperAction = "cron_schedule_repaired" // a cron entry's schedule was set right
)

// KeeperActions are all of them.
func KeeperActions() []KeeperAction {
	return []KeeperAction{
		ExpiredLease, OfferedItem, RevivedItem, ReplacedSchedule, ReleasedDependent, CancelledDependent,
		CancelledSuperseded, TickFired, TickRefused, ScheduleRepaired,
	}
}

// AuditResult is what one audit has found.
type AuditResult struct {
	Records    int // looked at, all there are
	Missing    int // ready jobs without item
	Stuck      int // jobs whose schedule did not fire
	Unreadable int // records that cannot be read
	Took       time.Duration
	Err        error // why it was broken off; then the counts are not whole
}

// nobody is the observer where none is wanted.
type nobody struct{}

func (nobody) Claimed(string, time.Duration)                          {}
func (nobody) ClaimRefused(string, job.Code)                          {}
func (nobody) Renewed(string, error)                                  {}
func (nobody) Lost(string, job.State)                                 {}
func (nobody) AttemptEnded(string, job.AttemptOutcome, time.Duration) {}
func (nobody) JobFinished(string, job.State)                          {}
func (nobody) Unreadable()                                            {}
func (nobody) Leads(bool)                                             {}
func (nobody) Kept(KeeperAction)                                      {}
func (nobody) Audited(AuditResult)                                    {}

// observe tells of a change that this process has written.
func (f *Fabric) observe(before, after *job.Job) { f.tell(ended(before, after)) }

// news is what there is to tell of a change, small enough to be kept while its write
// is on its way.
type news struct {
	stage   string
	attempt job.AttemptOutcome // empty: none has ended
	took    time.Duration
	end     job.State // empty: the job has not ended
}

// ended is what has ended by a change.
func ended(before, after *job.Job) news {
	n := news{stage: after.Stage}
	if before.State == job.StateLeased && len(after.AttemptsLog) > 0 {
		if last := &after.AttemptsLog[len(after.AttemptsLog)-1]; !last.Ended.IsZero() && last.Fence == before.Fence {
			n.attempt, n.took = last.Outcome, last.Ended.Sub(last.Started)
		}
	}
	if after.State.Terminal() && !before.State.Terminal() {
		n.end = after.State
	}
	return n
}

func (f *Fabric) tell(n news) {
	if n.attempt != "" {
		f.opts.Observer.AttemptEnded(n.stage, n.attempt, n.took)
	}
	if n.end != "" {
		f.opts.Observer.JobFinished(n.stage, n.end)
	}
}

// observeClaim tells of a claim that was won, and of the attempt that it has ended
// if it took the job from a worker that fell silent.
func (f *Fabric) observeClaim(before, after *job.Job) {
	if before.State == job.StateLeased {
		if n := len(after.AttemptsLog); n > 1 {
			last := after.AttemptsLog[n-2]
			f.opts.Observer.AttemptEnded(after.Stage, last.Outcome, last.Ended.Sub(last.Started))
		}
	}
	f.observeWait(after, availableSince(before))
}

// observeWait tells of a claim of a job that could have been claimed since a time.
func (f *Fabric) observeWait(claimed *job.Job, since time.Time) {
	f.opts.Observer.Claimed(claimed.Stage, max(0, claimed.UpdatedAt.Sub(since)))
}

// availableSince is when the job could first have been claimed: once its time had
// come, once it waited for no other job any more, or once its lease was over.
func availableSince(j *job.Job) time.Time {
	switch {
	case j.State == job.StateLeased:
		return j.LeaseExpiresAt
	case j.UpdatedAt.After(j.AvailableAt):
		return j.UpdatedAt
	}
	return j.AvailableAt
}

// refusalCode is the code of a claim that is refused. A job that waits for others is
// refused before it is claimed, without an error.
func refusalCode(err error) job.Code {
	if err == nil {
		return job.CodeIncompleteDependency
	}
	return codeOf(err)
}

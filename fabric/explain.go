package fabric

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/weft-fabric/weft/job"
	"github.com/weft-fabric/weft/kv"
	"github.com/weft-fabric/weft/stream"
)

// Explanation says why a job does not run, as far as its record, its key, its
// stage's queue, the workers and the keeper tell. Its JSON is for programs.
type Explanation struct {
	ID    string `json:"id"`
	Stage string `json:"stage,omitempty"`
	// State is the record's, or one of the two that follow.
	State    string    `json:"state"`
	At       time.Time `json:"at"` // when it was looked at, on the server's clock
	Verdict  string    `json:"verdict"`
	Findings []Cause   `json:"findings"` // what stands in the way first comes first
}

// What takes the place of a state where there is none to be had.
const (
	StateUnreadable = "unreadable" // there is a record, which cannot be read
	StateUnrecorded = "unrecorded" // there is an item, and no record
)

// Cause is one finding about a job that does not run.
type Cause struct {
	Code   CauseCode      `json:"code"`
	Text   string         `json:"text"`
	Fields map[string]any `json:"fields"` // texts, numbers, times in RFC 3339, durations as Go writes them
	Moves  []Move         `json:"moves"`  // what would move the job; empty if nothing can
}

// Move is something that would move a job: an event, or what a person can do.
type Move struct {
	Text    string `json:"text"`
	Command string `json:"command,omitempty"`
}

// CauseCode names a kind of finding for programs.
type CauseCode string

// The kinds of finding.
const (
	CauseEnded            CauseCode = "ended"             // it succeeded, failed or was cancelled
	CauseSuperseded       CauseCode = "superseded"        // another job is the current one of its key
	CauseWaitsOn          CauseCode = "waits_on"          // one for each dependency not seen to succeed
	CauseNotDue           CauseCode = "not_due"           // its time has not come
	CauseUsedUp           CauseCode = "attempts_used_up"  // it waits, and has no attempt left
	CauseLeased           CauseCode = "leased"            // a worker has it
	CauseLeaseExpired     CauseCode = "lease_expired"     // a worker had it, and nobody has ended the attempt
	CauseFailedAttempts   CauseCode = "failed_attempts"   // attempts that have ended without success
	CauseNoStage          CauseCode = "stage_missing"     // nobody serves or knows the stage
	CauseStageUnreadable  CauseCode = "stage_unreadable"  // its settings cannot be read
	CauseStagePaused      CauseCode = "stage_paused"      // by weft stage pause
	CauseConsumerPaused   CauseCode = "consumer_paused"   // by hand, or left over
	CauseStageFull        CauseCode = "stage_full"        // as many of its jobs run as may
	CauseLimit            CauseCode = "limit_reached"     // as many jobs of its label's value or its key run as may
	CauseRate             CauseCode = "rate_limited"      // as many of its jobs have begun lately as may
	CauseDrift            CauseCode = "topology_drifted"  // a stream or a consumer is absent or changed
	CauseNoWorker         CauseCode = "no_worker"         // none makes itself known for the stage
	CauseWorkersBusy      CauseCode = "workers_busy"      // all slots of those that do are taken
	CauseItemMissing      CauseCode = "item_missing"      // it has neither item nor schedule
	CauseItemStranded     CauseCode = "item_stranded"     // its item will not be delivered
	CauseItemTaken        CauseCode = "item_taken"        // its item was handed out
	CauseScheduleOverdue  CauseCode = "schedule_overdue"  // its schedule has not fired
	CauseQueued           CauseCode = "queued"            // it waits for its turn
	CauseNoRecord         CauseCode = "no_record"         // it has an item alone
	CauseRecordUnreadable CauseCode = "record_unreadable" // nothing touches it
	CauseNoKeeper         CauseCode = "no_keeper"         // nobody moves what is stuck
	CauseChanging         CauseCode = "changing"          // it changed at every look
)

// explainRounds is how often a job is looked at again that changed meanwhile.
const explainRounds = 4

// Explain says why a job does not run and what would move it. All reads are from
// the leaders, and it changes nothing. What it says was true at once: a job that
// changes while it is looked at is looked at again. It fails with
// job.ErrMissingJob if there is neither a record nor an item.
func (f *Fabric) Explain(ctx context.Context, id string) (Explanation, error) {
	x, err := f.explainStill(ctx, id)
	if err != nil {
		return x.result(), fmt.Errorf("explain %s: %w", id, explain(f.nc, err))
	}
	return x.result(), nil
}

func (f *Fabric) explainStill(ctx context.Context, id string) (x *explaining, err error) {
	x = &explaining{f: f, id: id}
	if err := job.CheckID(id); err != nil {
		return x, err
	}
	before, err := f.bucket.Get(ctx, kv.JobKey(id))
	for round := 1; err == nil; round++ {
		x = &explaining{f: f, id: id, now: f.Now()}
		if err = x.look(ctx, before); err != nil {
			break
		}
		var after kv.Entry
		if after, err = f.bucket.Get(ctx, kv.JobKey(id)); err != nil || after.Revision == before.Revision {
			break
		}
		before = after
		if round == explainRounds {
			x.add(CauseChanging, nil, "its record changed while it was looked at, so this may not fit together").move("look again", x.command("explain", id))
			break
		}
	}
	return x, err
}

// explaining is one look at a job.
type explaining struct {
	f       *Fabric
	id      string
	now     time.Time
	job     job.Job
	state   string
	stage   Stage
	place   stream.Place
	keeper  bool // one leads
	workers []Presence
	verdict string // before the first finding's text
	causes  []*Cause
}

func (x *explaining) add(code CauseCode, fields map[string]any, format string, args ...any) *Cause {
	if fields == nil {
		fields = map[string]any{}
	}
	c := &Cause{Code: code, Text: fmt.Sprintf(format, args...), Fields: fields, Moves: []Move{}}
	x.causes = append(x.causes, c)
	return c
}

// move adds what would move the job. A command is optional.
func (c *Cause) move(text string, command ...string) *Cause {
	c.Moves = append(c.Moves, Move{Text: text, Command: strings.Join(command, "")})
	return c
}

func (x *explaining) result() Explanation {
	e := Explanation{ID: x.id, Stage: x.job.Stage, State: x.state, At: x.now, Findings: []Cause{}}
	for _, c := range x.causes {
		e.Findings = append(e.Findings, *c)
	}
	if len(e.Findings) > 0 {
		e.Verdict = x.id + " " + x.verdict + ": " + e.Findings[0].Text
	}
	return e
}

// look finds out what stands in the way, in the order in which it does.
func (x *explaining) look(ctx context.Context, e kv.Entry) error {
	if err := x.lookAround(ctx); err != nil {
		return err
	}
	rec, err := kv.RecordOf(x.id, e)
	switch {
	case errors.Is(err, kv.ErrUnreadable):
		x.unreadable(err)
		return nil
	case errors.Is(err, job.ErrMissingJob):
		return x.unrecorded(ctx, err)
	case err != nil:
		return err
	}
	x.job, x.state = rec.Job, string(rec.Job.State)
	if rec.Job.State.Terminal() {
		x.ended()
		return nil
	}
	if err := x.superseded(ctx); err != nil {
		return err
	}
	if rec.Job.State == job.StateLeased {
		err = x.leased(ctx)
	} else {
		err = x.idle(ctx)
	}
	x.failedAttempts()
	x.noKeeper()
	return err
}

// lookAround reads who leads and who works.
func (x *explaining) lookAround(ctx context.Context) error {
	e, err := x.f.bucket.Get(ctx, kv.LeaderKey)
	if err != nil {
		return err
	}
	// A leader's key does not get older; see election.stand.
	x.keeper = e.Exists() && x.now.Sub(e.Created) <= 2*leaderTTL
	for w, err := range x.f.Workers(ctx) {
		if errors.Is(err, kv.ErrUnreadable) {
			continue // it is for the list of workers to report it
		}
		if err != nil {
			return err
		}
		x.workers = append(x.workers, w)
	}
	return nil
}

func (x *explaining) unreadable(err error) {
	x.state, x.verdict = StateUnreadable, "is left alone by everybody"
	x.add(CauseRecordUnreadable, map[string]any{"error": err.Error()}, "its record cannot be read: %s", err).
		move("look at it as it is stored", x.command("get --json", x.id)).
		move(fmt.Sprintf("put the repaired record under %s of the bucket %s; the keeper offers the job within %s", kv.JobKey(x.id), x.f.opts.Namespace, auditEvery))
	x.noKeeper()
}

// unrecorded looks for a job that is only an item.
func (x *explaining) unrecorded(ctx context.Context, missing error) error {
	entries, err := x.f.bucket.Few(ctx, kv.AllStages)
	if err != nil {
		return err
	}
	for _, e := range entries {
		stage, _ := kv.StageOf(e.Key)
		item, found, err := x.f.queue.Find(ctx, stage, x.id)
		if err != nil {
			return err
		}
		if !found {
			continue
		}
		x.state, x.verdict = StateUnrecorded, "has no record yet"
		x.job = job.Job{Spec: job.Spec{ID: x.id, Stage: stage, Priority: item.Lane}}
		c := x.add(CauseNoRecord, map[string]any{"item_revision": item.Revision}, "it is an item that was published without the fabric; the worker that takes it makes its record")
		if item.Revision != 0 {
			x.verdict = "has no record any more"
			c.Text = "it is the item of a record that is gone; the worker that takes it removes it, or makes the record again if the server has lost it"
		}
		c.move("its turn")
		if open, err := x.lookAtStage(ctx); err != nil || !open {
			return err
		}
		x.queued()
		x.noKeeper()
		return nil
	}
	return missing
}

// ended says how and when the job ended, and how long it took.
func (x *explaining) ended() {
	j := x.job
	took := j.FinishedAt.Sub(j.CreatedAt)
	fields := map[string]any{"outcome": string(j.State), "finished_at": j.FinishedAt, "took": took.String(), "attempts": j.Attempt}
	text := fmt.Sprintf("it ended at %s, %s after it was enqueued", at(j.FinishedAt), about(took))
	if n := len(j.AttemptsLog); n > 0 && !j.AttemptsLog[n-1].Ended.IsZero() {
		ran := j.AttemptsLog[n-1].Ended.Sub(j.AttemptsLog[n-1].Started)
		fields["ran"] = ran.String()
		text += fmt.Sprintf("; its last attempt ran for %s", about(ran))
	}
	if j.Reason != "" {
		fields["reason"] = j.Reason
		text += ": " + brief(j.Reason)
	}
	c := x.add(CauseEnded, fields, "%s", text)
	switch {
	case j.State == job.StateSucceeded:
		x.verdict = "has succeeded"
		c.move("nothing: it is done; its output is there", x.command("output", x.id))
	case j.State == job.StateCancelled:
		x.verdict = "was cancelled"
		c.move("nothing: what was cancelled stays so; enqueue it with another id")
		if by, ok := strings.CutPrefix(j.Reason, supersededBy(pointer{})); ok {
			x.supersededText(by, fmt.Sprintf("%s is the current job of its key %q", by, j.Key))
		}
	case j.InputRef == "":
		x.verdict = "has failed"
		c.move("nothing: it was rejected and has nothing to run; enqueue it with another id")
	default:
		x.verdict = "has failed"
		c.move("one more attempt", x.command("retry", x.id))
	}
	x.failedAttempts()
}

// superseded reads the pointer of the job's key, and does not move it.
func (x *explaining) superseded(ctx context.Context) error {
	if x.job.Key == "" {
		return nil
	}
	p, _, err := x.f.pointer(ctx, x.job.Key)
	switch {
	case errors.Is(err, kv.ErrUnreadable):
		return nil // the claim fails by it; there is nothing to name
	case err != nil:
		return err
	case p.ahead(pointerTo(x.job)):
		x.supersededText(p.ID, fmt.Sprintf("%s has superseded it as the current job of its key %q; the keeper, or who takes it, cancels it", p.ID, x.job.Key))
	}
	return nil
}

func (x *explaining) supersededText(by, text string) {
	x.add(CauseSuperseded, map[string]any{"by": by, "key": x.job.Key}, "%s", text).
		move("nothing moves this one; look at the other", x.command("explain", by))
}

// leased says who has the job, and whether that worker is still known.
func (x *explaining) leased(ctx context.Context) error {
	j := x.job
	known, running := x.holder()
	fields := map[string]any{"worker": j.WorkerID, "until": j.LeaseExpiresAt, "announced": known, "reports_it": running, "attempt": j.Attempt, "fence": j.Fence}
	if x.now.Before(j.LeaseExpiresAt) {
		x.verdict = "runs"
		c := x.add(CauseLeased, fields, "worker %s holds it until %s, %s from now%s", j.WorkerID, at(j.LeaseExpiresAt), about(j.LeaseExpiresAt.Sub(x.now)), holderText(known, running))
		if !known {
			c.move("the end of the lease, if that worker does not renew it: then another takes the job over")
		}
		c.move("end it", x.command("cancel", x.id))
		return nil
	}
	x.verdict = "does not run any more"
	c := x.add(CauseLeaseExpired, fields, "the lease of worker %s ended at %s, %s ago, and nobody has ended the attempt yet%s", j.WorkerID, at(j.LeaseExpiresAt), about(x.now.Sub(j.LeaseExpiresAt)), holderText(known, running))
	if x.keeper {
		c.move("the keeper ends the attempt a moment after its lease, or a lease later if the server's clock was set")
	}
	c.move("end what is past its lease, now", "weft doctor --repair")
	_, err := x.lookAtStage(ctx)
	return err
}

// holder tells whether the holder makes itself known, and says that it runs the
// job.
func (x *explaining) holder() (known, running bool) {
	for _, w := range x.workers {
		if w.ID != x.job.WorkerID {
			continue
		}
		known = true
		for _, r := range w.Running {
			running = running || r.ID == x.id && r.Fence == x.job.Fence && !r.Stray
		}
	}
	return known, running
}

func holderText(known, running bool) string {
	switch {
	case !known:
		return "; it does not make itself known, it may be dead or a program of its own"
	case !running:
		return "; it makes itself known, and has not said yet that it runs the job"
	}
	return "; it makes itself known and says that it runs the job"
}

// maxReasons is how many reasons of attempts a text names; the fields have all
// that the record has kept.
const maxReasons = 3

// failedAttempts names the attempts that ended without success.
func (x *explaining) failedAttempts() {
	attempts := []job.Attempt{}
	var reasons []string
	for _, a := range x.job.AttemptsLog {
		if a.Outcome == job.AttemptFailed || a.Outcome == job.AttemptExpired || a.Outcome == job.AttemptReturned {
			attempts = append(attempts, a)
			reasons = append(reasons, fmt.Sprintf("attempt %d on %s %s: %s", a.Number, a.Worker, a.Outcome, brief(a.Reason)))
		}
	}
	if len(attempts) == 0 {
		return
	}
	count := len(attempts)
	text := strings.Join(reasons[max(0, count-maxReasons):], "; ")
	if count > maxReasons {
		text = "the last ones: " + text
	}
	noun := "attempts have"
	if count == 1 {
		noun = "attempt has"
	}
	x.add(CauseFailedAttempts, map[string]any{"attempt": x.job.Attempt, "max_attempts": x.job.MaxAttempts, "attempts": attempts},
		"%d %s ended without success, and %d of %d are used; %s", count, noun, x.job.Attempt, x.job.MaxAttempts, text).
		move("read all that is known of them", x.command("get", x.id))
}

// noKeeper says that nobody leads, which is no matter to a job that only waits for
// its turn, and all to one that is stuck.
func (x *explaining) noKeeper() {
	if x.keeper {
		return
	}
	stage := x.job.Stage
	if stage == "" {
		stage = "STAGE"
	}
	x.add(CauseNoKeeper, nil, "no keeper leads: nobody offers what has no item, ends leases, or looks at dependencies").
		move("a keeper is in every weft serve and weft work", workCommand(stage))
}

// command is a command about a job. An id may look like a flag.
func (x *explaining) command(verb, id string) string {
	if strings.HasPrefix(id, "-") {
		id = "-- " + id
	}
	return "weft job " + verb + " " + id
}

func workCommand(stage string) string { return "weft work " + stage + " -- CMD" }

func at(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// about rounds a duration to what a person reads.
func about(d time.Duration) string {
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

// briefRunes is how much of a reason a text quotes.
const briefRunes = 100

// brief is the first line of a reason, cut.
func brief(reason string) string {
	line, _, more := strings.Cut(strings.TrimSpace(reason), "\n")
	if runes := []rune(line); len(runes) > briefRunes {
		line, more = string(runes[:briefRunes]), true
	}
	if more {
		line += "..."
	}
	return line
}

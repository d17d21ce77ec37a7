package fabric

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/weft-fabric/weft/job"
	"github.com/weft-fabric/weft/kv"
	"github.com/weft-fabric/weft/stream"
)

// A cron entry stands under its key, which is the truth, and has a schedule on the
// server, which follows the key. Whoever dies in between leaves a difference that
// the same call once more sets right, and the keeper within a minute.

// ErrMissingCron means that there is no such cron entry.
var ErrMissingCron = errors.New("there is no such cron entry")

// CronEntry is a job that is enqueued again and again.
type CronEntry struct {
	Name     string // [a-z0-9][a-z0-9_-]{0,63}
	Schedule string // as ParseSchedule reads it
	TimeZone string // of a cron expression; empty is UTC
	// Spec is that of each job, without an id: the job of a tick has the id
	// <name>-<time of the tick>.
	Spec       job.Spec
	OnConflict Conflict // when the spec's key has a live job
	Paused     bool     // ticks are dropped

	// What follows is the fabric's to write.
	Last      time.Time // the last tick that was dealt with
	LastJob   string    // the job of the last tick that became one
	Refused   string    // why the last tick became none; empty if it did
	RefusedAt time.Time // the time of that tick

	// more are members that another program, or a later version, has put there.
	// They are written back.
	more map[string]json.RawMessage
}

// cronJSON is the stored form, with the spec apart: it must not be rewritten.
type cronJSON struct {
	Name       string          `json:"name"`
	Schedule   string          `json:"schedule"`
	TimeZone   string          `json:"time_zone,omitempty"`
	OnConflict Conflict        `json:"on_conflict,omitempty"`
	Paused     bool            `json:"paused,omitempty"`
	Last       time.Time       `json:"last,omitzero"`
	LastJob    string          `json:"last_job,omitempty"`
	Refused    string          `json:"refused,omitempty"`
	RefusedAt  time.Time       `json:"refused_at,omitzero"`
	Spec       json.RawMessage `json:"spec,omitempty"`
}

// cronMembers are the names of cronJSON.
var cronMembers = []string{"name", "schedule", "time_zone", "on_conflict", "paused", "last", "last_job", "refused", "refused_at", "spec"}

// encode gives the stored form. The spec comes out as it went in, its payload byte
// for byte; encoding/json would rewrite it.
func (e CronEntry) encode() ([]byte, error) {
	text, err := json.Marshal(cronJSON{
		Name: e.Name, Schedule: e.Schedule, TimeZone: e.TimeZone, OnConflict: e.OnConflict, Paused: e.Paused,
		Last: e.Last, LastJob: e.LastJob, Refused: e.Refused, RefusedAt: e.RefusedAt,
	})
	if err != nil {
		return nil, err
	}
	text = append(bytes.TrimSuffix(text, []byte("}")), `,"spec":`...)
	text = e.Spec.AppendJSON(text)
	for _, name := range slices.Sorted(maps.Keys(e.more)) {
		quoted, err := json.Marshal(name)
		if err != nil {
			return nil, err
		}
		text = slices.Concat(text, []byte(","), quoted, []byte(":"), e.more[name])
	}
	return append(text, '}'), nil
}

func decodeCron(key string, data []byte) (CronEntry, error) {
	var stored cronJSON
	var e CronEntry
	err := json.Unmarshal(data, &stored)
	if err == nil {
		err = json.Unmarshal(data, &e.more)
	}
	if err == nil {
		err = json.Unmarshal(stored.Spec, &e.Spec)
	}
	if err != nil {
		return CronEntry{}, fmt.Errorf("key %s: %w: %w", key, kv.ErrUnreadable, err)
	}
	for _, name := range cronMembers {
		delete(e.more, name)
	}
	e.Name, _ = kv.CronOf(key)
	e.Schedule, e.TimeZone, e.OnConflict, e.Paused = stored.Schedule, stored.TimeZone, stored.OnConflict, stored.Paused
	e.Last, e.LastJob, e.Refused, e.RefusedAt = stored.Last, stored.LastJob, stored.Refused, stored.RefusedAt
	return e, nil
}

// same reports whether a caller has asked for the same twice.
func (e CronEntry) same(other CronEntry) bool {
	return e.Schedule == other.Schedule && e.TimeZone == other.TimeZone && e.Paused == other.Paused &&
		e.OnConflict.orDefault() == other.OnConflict.orDefault() &&
		bytes.Equal(e.Spec.AppendJSON(nil), other.Spec.AppendJSON(nil))
}

func (c Conflict) orDefault() Conflict {
	if c == "" {
		return Supersede
	}
	return c
}

// wanted is the schedule that the server must have.
func (e CronEntry) wanted() (stream.Cron, Schedule, error) {
	s, err := ParseSchedule(e.Schedule, e.TimeZone)
	return stream.Cron{Name: e.Name, Expression: s.expression, Zone: s.zone}, s, err
}

var cronName = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,63}$`)

// CheckCronName refuses a name that could not be part of a subject or of a job's
// id.
func CheckCronName(name string) error {
	if !cronName.MatchString(name) {
		return job.Invalid("cron name %.80q is not a-z or 0-9 followed by up to 63 of a-z 0-9 _ -", name)
	}
	return nil
}

// Check refuses an entry that could not become a job at any of its times, as
// AddCron does. It needs no server.
func (e CronEntry) Check() error {
	if err := CheckCronName(e.Name); err != nil {
		return err
	}
	if _, _, err := e.wanted(); err != nil {
		return err
	}
	switch {
	case e.Spec.ID != "":
		return job.Invalid("a cron entry's spec has no id: the job of each tick gets its own, as in %s", e.jobID(time.Unix(0, 0)))
	case !e.Spec.AvailableAt.IsZero():
		return job.Invalid("a cron entry's spec has no available_at: its schedule says when")
	case e.Spec.Key == "" && e.OnConflict.orDefault() != Supersede:
		return job.Invalid("on_conflict %s needs a key", e.OnConflict)
	case !slices.Contains([]Conflict{Supersede, Reject, Coalesce}, e.OnConflict.orDefault()):
		return job.Invalid("on_conflict %q is not supersede, reject or coalesce", e.OnConflict)
	}
	spec := e.Spec
	spec.ID, spec.MaxAttempts = e.jobID(time.Unix(0, 0)), max(spec.MaxAttempts, 1)
	return spec.Check()
}

// jobID is the id of the job of a tick.
func (e CronEntry) jobID(tick time.Time) string {
	return e.Name + "-" + tick.UTC().Format("20060102T150405Z")
}

// CronChange is what AddCron has done.
type CronChange string

// What AddCron can do.
const (
	CronAdded     CronChange = "added"
	CronReplaced  CronChange = "replaced"
	CronUnchanged CronChange = "unchanged"
)

// AddCron has a job enqueued at each of the entry's times, from now on. An entry
// of the same name is replaced, unless it is the same; what it last did stays
// known. It fails with job.ErrInvalidJob, a *ScheduleError, and a *ServerError for
// a server that is too old.
func (f *Fabric) AddCron(ctx context.Context, e CronEntry) (CronChange, error) {
	change, err := f.addCron(ctx, e)
	if err != nil {
		return "", fmt.Errorf("cron entry %s: %w", e.Name, explain(f.nc, err))
	}
	return change, nil
}

func (f *Fabric) addCron(ctx context.Context, e CronEntry) (CronChange, error) {
	if err := checkVersion(f.nc.ConnectedUrlRedacted(), f.nc.ConnectedServerVersion(), minCronServer, "cron"); err != nil {
		return "", err
	}
	if e.Spec.MaxAttempts == 0 { // so that every keeper makes the same job
		e.Spec.MaxAttempts = f.opts.MaxAttempts
	}
	if err := e.Check(); err != nil {
		return "", err
	}
	spec := e.Spec
	spec.ID = e.jobID(f.Now())
	if _, err := f.fresh(spec); err != nil {
		return "", err
	}
	if err := f.queue.EnsureCron(ctx); err != nil {
		return "", err
	}
	change, before, err := f.writeCron(ctx, e)
	if err == nil {
		err = f.followCron(ctx, e.Name)
	}
	if errors.Is(err, stream.ErrBadCron) { // it knows fewer time zones, or is a later version
		err = errors.Join(&ScheduleError{e.Schedule, "is not taken: " + err.Error()}, f.unwriteCron(ctx, e, before))
	}
	return change, err
}

// writeCron puts an entry under its key. It gives what was there before.
func (f *Fabric) writeCron(ctx context.Context, e CronEntry) (CronChange, CronEntry, error) {
	for {
		before, revision, err := f.readCron(ctx, e.Name)
		missing := errors.Is(err, ErrMissingCron)
		if err != nil && !missing {
			return "", before, err
		}
		change := CronAdded
		if !missing {
			change = CronReplaced
			if before.same(e) {
				return CronUnchanged, before, nil
			}
			e.Last, e.LastJob, e.more = before.Last, before.LastJob, before.more
		}
		if _, s, err := e.wanted(); err == nil && s.Next(f.Now()).IsZero() {
			return "", before, &ScheduleError{e.Schedule, "is in the past; give a time to come"}
		}
		if err := f.swapCron(ctx, e, revision); err == nil || !movedOn(err) {
			return change, before, err
		}
	}
}

// unwriteCron takes back an entry that the server has refused the schedule of.
func (f *Fabric) unwriteCron(ctx context.Context, e, before CronEntry) error {
	now, revision, err := f.readCron(ctx, e.Name)
	if errors.Is(err, ErrMissingCron) {
		return nil
	}
	if err != nil || !now.same(e) {
		return err
	}
	if before.Name == "" {
		return f.bucket.Delete(ctx, kv.CronKey(e.Name), revision)
	}
	before.Last, before.LastJob = now.Last, now.LastJob
	return f.swapCron(ctx, before, revision)
}

// readCron reads an entry. It fails with ErrMissingCron, and kv.ErrUnreadable.
func (f *Fabric) readCron(ctx context.Context, name string) (CronEntry, uint64, error) {
	stored, err := f.bucket.Get(ctx, kv.CronKey(name))
	if err != nil {
		return CronEntry{}, 0, err
	}
	if !stored.Exists() {
		return CronEntry{}, 0, ErrMissingCron
	}
	e, err := decodeCron(stored.Key, stored.Value)
	return e, stored.Revision, err
}

func (f *Fabric) swapCron(ctx context.Context, e CronEntry, revision uint64) error {
	value, err := e.encode()
	if err != nil {
		return err
	}
	_, err = f.bucket.Swap(ctx, kv.Write{Key: kv.CronKey(e.Name), Value: value, Revision: revision})
	return err
}

// movedOn reports whether somebody else has written a key first.
func movedOn(err error) bool {
	_, moved := errors.AsType[*kv.Conflict](err)
	return moved
}

// RemoveCron ends an entry: no tick of it becomes a job any more. Jobs that it has
// made stay. It fails with ErrMissingCron; what an earlier call has left of the
// entry is removed then, too.
func (f *Fabric) RemoveCron(ctx context.Context, name string) error {
	err := CheckCronName(name)
	if err == nil {
		err = f.removeCron(ctx, name)
	}
	if err != nil {
		return fmt.Errorf("cron entry %s: %w", name, explain(f.nc, err))
	}
	return nil
}

func (f *Fabric) removeCron(ctx context.Context, name string) error {
	for {
		stored, err := f.bucket.Get(ctx, kv.CronKey(name))
		if err != nil {
			return err
		}
		if !stored.Exists() {
			return errors.Join(ErrMissingCron, f.followCron(ctx, name))
		}
		err = f.bucket.Delete(ctx, kv.CronKey(name), stored.Revision)
		if err == nil {
			return f.followCron(ctx, name)
		}
		if !movedOn(err) {
			return err
		}
	}
}

// followCron has the server's schedule follow an entry's key, and looks at the key
// again after that: of two that change an entry at once, either sees the other.
func (f *Fabric) followCron(ctx context.Context, name string) error {
	for {
		before, err := f.bucket.Get(ctx, kv.CronKey(name))
		if err != nil {
			return err
		}
		if err := f.alignCron(ctx, before); err != nil {
			return err
		}
		after, err := f.bucket.Get(ctx, kv.CronKey(name))
		if err != nil || before.Revision == after.Revision {
			return err
		}
	}
}

// alignCron publishes or removes a schedule, as an entry's key says.
func (f *Fabric) alignCron(ctx context.Context, stored kv.Entry) error {
	name, _ := kv.CronOf(stored.Key)
	if !stored.Exists() {
		return f.queue.RemoveCron(ctx, name)
	}
	e, err := decodeCron(stored.Key, stored.Value)
	if err != nil {
		return err
	}
	have, err := f.queue.Cron(ctx, name)
	if err != nil || cronDrift(e, have) == "" {
		return err
	}
	want, _, err := e.wanted()
	if err != nil {
		return err
	}
	err = f.queue.SetCron(ctx, want)
	if errors.Is(err, stream.ErrNoStream) {
		if err = f.queue.EnsureCron(ctx); err == nil {
			err = f.queue.SetCron(ctx, want)
		}
	}
	return err
}

// cronDrift says in what the server's schedule is not as the entry says; empty if
// in nothing.
func cronDrift(e CronEntry, have stream.CronSchedule) string {
	want, s, err := e.wanted()
	switch {
	case err != nil:
		return err.Error()
	case !have.There && !s.at.IsZero() && (have.Ticked || !s.at.After(e.Last)):
		return "" // it has fired, and was to fire once
	case !have.There:
		return "it has no schedule on the server"
	case have.Cron != want:
		return fmt.Sprintf("the server has the schedule %s", strings.TrimSpace(have.Expression+" "+have.Zone))
	}
	return ""
}

// CronStatus is an entry as it stands.
type CronStatus struct {
	CronEntry
	Next time.Time // zero if there is none: it is paused, or has fired once
	// Drift says in what the server's schedule is not as the entry says; empty if
	// in nothing.
	Drift string
	// Err is what could not be read of the entry.
	Err error
}

// Crons gives every cron entry, by name. One that cannot be read comes with the
// error.
func (f *Fabric) Crons(ctx context.Context) ([]CronStatus, error) {
	stored, err := f.bucket.Few(ctx, kv.AllCrons)
	if err != nil {
		return nil, explain(f.nc, err)
	}
	var all []CronStatus
	for _, kept := range stored {
		e, err := decodeCron(kept.Key, kept.Value)
		if err != nil {
			e.Name, _ = kv.CronOf(kept.Key)
			all = append(all, CronStatus{CronEntry: e, Err: err})
			continue
		}
		have, err := f.queue.Cron(ctx, e.Name)
		if err != nil {
			return nil, explain(f.nc, err)
		}
		status := CronStatus{CronEntry: e, Drift: cronDrift(e, have)}
		if _, s, err := e.wanted(); err == nil && !e.Paused {
			status.Next = nextOf(s, e, have, f.Now())
		}
		all = append(all, status)
	}
	return all, nil
}

// KeeperRuns reports whether any process leads as the keeper, without which no tick
// becomes a job.
func (f *Fabric) KeeperRuns(ctx context.Context) (bool, error) {
	leader, err := f.bucket.Get(ctx, kv.LeaderKey)
	return leader.Exists(), explain(f.nc, err)
}

// nextOf is when an entry fires next. An interval is counted from its last tick, or
// from when the server was told.
func nextOf(s Schedule, e CronEntry, have stream.CronSchedule, now time.Time) time.Time {
	if s.every == 0 {
		return s.Next(now)
	}
	from := have.Stored.Round(time.Second)
	if e.Last.After(from) {
		from = e.Last
	}
	if from.IsZero() {
		return s.Next(now)
	}
	passed := max(0, now.Sub(from)/s.every)
	return from.Add((passed + 1) * s.every).UTC()
}

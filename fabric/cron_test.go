package fabric_test

// These tests prove that a cron entry makes one job of each of its ticks, whoever
// is down or doubled meanwhile, one of all that were missed, and none once it is
// gone.

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weft-fabric/weft/fabric"
	"github.com/weft-fabric/weft/internal/natstest"
	"github.com/weft-fabric/weft/job"
	"github.com/weft-fabric/weft/kv"
)

// everySecond is an entry whose ticks a test can wait for.
func everySecond(name string) fabric.CronEntry {
	return fabric.CronEntry{Name: name, Schedule: "@every 1s", Spec: job.Spec{Stage: "nightly", InputRef: "data:,x"}}
}

func addCron(t *testing.T, f *fabric.Fabric, e fabric.CronEntry) fabric.CronChange {
	t.Helper()
	change, err := f.AddCron(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	return change
}

// cronJobs are the ids of the jobs that an entry has made, in the order of ticks.
func cronJobs(t *testing.T, f *fabric.Fabric, name string) (ids []string) {
	t.Helper()
	for j, err := range f.List(t.Context(), fabric.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(j.ID, name+"-") {
			ids = append(ids, j.ID)
		}
	}
	slices.Sort(ids)
	return ids
}

// awaitTicks waits until an entry has made n jobs.
func awaitTicks(t *testing.T, f *fabric.Fabric, name string, n int) (ids []string) {
	t.Helper()
	natstest.Eventually(t, 2*patience, fmt.Sprintf("%d jobs of %s", n, name), func() bool {
		ids = cronJobs(t, f, name)
		return len(ids) >= n
	})
	return ids
}

func cronStatus(t *testing.T, f *fabric.Fabric, name string) fabric.CronStatus {
	t.Helper()
	all, err := f.Crons(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range all {
		if s.Name == name {
			return s
		}
	}
	t.Fatalf("no entry %s among %+v", name, all)
	return fabric.CronStatus{}
}

// tickTime is the time in a job's id.
func tickTime(t *testing.T, name, id string) time.Time {
	t.Helper()
	at, err := time.Parse("20060102T150405Z", strings.TrimPrefix(id, name+"-"))
	if err != nil {
		t.Fatalf("id %s: %v", id, err)
	}
	return at
}

func cronStream(t *testing.T, nc *nats.Conn) jetstream.Stream {
	t.Helper()
	return serverStream(t, nc, "WEFT_CRON")
}

// pendingTick waits for a tick that nobody has consumed, whose schedule has fired
// at least n times.
func pendingTick(t *testing.T, nc *nats.Conn, name string, n uint64) *jetstream.RawStreamMsg {
	t.Helper()
	st := cronStream(t, nc)
	var tick *jetstream.RawStreamMsg
	natstest.Eventually(t, patience, "ticks of "+name, func() bool {
		scheduled, err := st.GetLastMsgForSubject(t.Context(), "weft.cron."+name)
		if err != nil {
			return false
		}
		tick, err = st.GetLastMsgForSubject(t.Context(), "weft.tick."+name)
		return err == nil && tick.Sequence >= scheduled.Sequence+n
	})
	return tick
}

func TestCronEntryFires(t *testing.T) {
	t.Parallel()
	nc := natstest.Conn(t)
	f := open(t, nc, func(o *fabric.Options) { o.Namespace = "other" })
	lead(t, f)
	e := everySecond("tock")
	e.Spec.Payload, e.Spec.Labels = []byte(`{"a": "<b>"}`), map[string]string{"from": "cron"}
	if change := addCron(t, f, e); change != fabric.CronAdded {
		t.Errorf("%s", change)
	}
	ids := awaitTicks(t, f, "tock", 3)
	for i, id := range ids {
		j := get(t, f, id)
		if j.Stage != "nightly" || string(j.Payload) != `{"a": "<b>"}` || j.Labels["from"] != "cron" || j.State != job.StateWaiting || j.MaxAttempts != job.DefaultMaxAttempts {
			t.Errorf("%+v", j)
		}
		// One that comes late because the machine is busy still has its own time.
		if late := j.CreatedAt.Sub(tickTime(t, "tock", id)); late < 0 || late > patience {
			t.Errorf("%s was enqueued %s after its time", id, late)
		}
		if i > 0 && tickTime(t, "tock", id).Sub(tickTime(t, "tock", ids[i-1])) < time.Second {
			t.Errorf("two jobs of a second: %s", ids)
		}
	}
	if msg, err := serverStream(t, nc, "OTHER_CRON").GetLastMsgForSubject(t.Context(), "other.cron.tock"); err != nil || len(msg.Data) > 0 {
		t.Errorf("the schedule is %+v, %v", msg, err)
	}
	natstest.Eventually(t, patience, "the entry knows its last job", func() bool {
		s := cronStatus(t, f, "tock")
		return s.LastJob >= ids[2] && s.Last.Equal(tickTime(t, "tock", s.LastJob)) && s.Next.After(s.Last) && s.Drift == "" && s.Refused == ""
	})
}

func TestMissedTicksFoldIntoTheLatest(t *testing.T) {
	t.Parallel()
	nc := natstest.Conn(t)
	f := open(t, nc)
	for _, name := range []string{"one", "two"} {
		addCron(t, f, everySecond(name))
	}
	latest := map[string]time.Time{} // of the ticks that nobody was there for
	for _, name := range []string{"one", "two"} {
		tick := pendingTick(t, nc, name, 3)
		latest[name] = tick.Time.Truncate(time.Second)
	}
	if info, err := cronStream(t, nc).Info(t.Context()); err != nil || info.State.Msgs != 4 {
		t.Errorf("two schedules and two ticks are %d messages: %v", info.State.Msgs, err)
	}
	lead(t, f)
	for name, last := range latest {
		ids := awaitTicks(t, f, name, 1)
		if first := tickTime(t, name, ids[0]); first.Before(last) {
			t.Errorf("%s is of a tick that was overtaken, by one of %s", ids[0], last)
		}
	}
}

func TestKeeperThatWasDownMakesUpForMissedTicksOnce(t *testing.T) {
	t.Parallel()
	nc := natstest.Conn(t)
	f := open(t, nc)
	stop := lead(t, f)
	addCron(t, f, everySecond("tock"))
	awaitTicks(t, f, "tock", 1)
	stop()
	before, st := cronJobs(t, f, "tock"), cronStream(t, nc)
	info, err := st.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	missed := pendingTick(t, nc, "tock", info.State.LastSeq+3-1) // the schedule is at 1
	lead(t, f)
	after := awaitTicks(t, f, "tock", len(before)+1)
	if next := tickTime(t, "tock", after[len(before)]); next.Before(missed.Time.Truncate(time.Second)) {
		t.Errorf("%s after %s: that tick was overtaken, by one of %s", after, before, missed.Time)
	}
}

func TestTwoKeepersThatLeadMakeOneJobOfATick(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t)
	nc := server.Connect()
	written := countWrites(t, nc)
	f := open(t, nc, quiet)
	lead(t, open(t, server.Connect(), quiet))
	lead(t, open(t, server.Connect(), quiet))
	addCron(t, f, everySecond("tock"))
	ids := awaitTicks(t, f, "tock", 3)
	// Once more the tick of each job, to whichever keeper.
	for _, id := range ids[:2] {
		msg := nats.NewMsg("weft.tick.tock")
		msg.Header.Set("Weft-Schedule", "@at "+tickTime(t, "tock", id).Format(time.RFC3339))
		if err := nc.PublishMsg(msg); err != nil {
			t.Fatal(err)
		}
	}
	ids = awaitTicks(t, f, "tock", 5)
	for i, id := range ids {
		if n := written.of(id); n != 1 {
			t.Errorf("%s was written %d times", id, n)
		}
		if i > 0 && tickTime(t, "tock", id).Equal(tickTime(t, "tock", ids[i-1])) {
			t.Errorf("%s twice", id)
		}
	}
	if s := cronStatus(t, f, "tock"); s.Refused != "" {
		t.Errorf("%+v", s)
	}
}

// A tick of which a keeper died after it had enqueued the job, and which comes
// again when the job's record is no longer kept.
func TestTickThatWasDealtWithIsVoid(t *testing.T) {
	t.Parallel()
	nc := natstest.Conn(t)
	f := open(t, nc)
	e := everySecond("once")
	e.Schedule = "0 0 1 1 *"
	addCron(t, f, e)
	tick := func(at string) {
		msg := nats.NewMsg("weft.tick.once")
		msg.Header.Set("Weft-Schedule", "@at "+at)
		if _, err := serverJetStream(t, nc).PublishMsg(t.Context(), msg); err != nil {
			t.Fatal(err)
		}
		natstest.Eventually(t, patience, "the tick is consumed", func() bool {
			_, err := cronStream(t, nc).GetLastMsgForSubject(t.Context(), "weft.tick.once")
			return errors.Is(err, jetstream.ErrMsgNotFound)
		})
	}
	lead(t, f)
	for _, at := range []string{"2026-01-01T00:00:05Z", "2026-01-01T00:00:05Z", "2026-01-01T00:00:04Z", "2026-01-01T00:00:06Z"} {
		tick(at)
	}
	want := []string{"once-20260101T000005Z", "once-20260101T000006Z"}
	if ids := cronJobs(t, f, "once"); !slices.Equal(ids, want) {
		t.Errorf("%s, want %s", ids, want)
	}
}

func TestRemovedCronEntryStops(t *testing.T) {
	t.Parallel()
	nc := natstest.Conn(t)
	f := open(t, nc)
	lead(t, f)
	addCron(t, f, everySecond("tock"))
	awaitTicks(t, f, "tock", 1)
	if err := f.RemoveCron(t.Context(), "tock"); err != nil {
		t.Fatal(err)
	}
	if err := f.RemoveCron(t.Context(), "tock"); !errors.Is(err, fabric.ErrMissingCron) {
		t.Errorf("removed twice: %v", err)
	}
	natstest.Eventually(t, patience, "nothing of it is left", func() bool {
		info, err := cronStream(t, nc).Info(t.Context())
		return err == nil && info.State.Msgs == 0
	})
	before := cronJobs(t, f, "tock")
	passes(t, 2500*time.Millisecond)
	after := cronJobs(t, f, "tock")
	if len(after) > len(before)+1 { // one may have been on its way
		t.Errorf("%s after the removal, %s before", after, before)
	}
	if all, err := f.Crons(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("%v, %v", all, err)
	}
}

func TestCronEntrySurvivesTheServersRestart(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t)
	f := open(t, server.Connect())
	lead(t, f)
	addCron(t, f, everySecond("tock"))
	last := awaitTicks(t, f, "tock", 1)
	server.Restart()
	natstest.Eventually(t, 2*patience, "it fires again", func() bool {
		s, err := f.Crons(t.Context())
		return err == nil && len(s) == 1 && s[0].Last.After(tickTime(t, "tock", last[len(last)-1]).Add(time.Second))
	})
	if s := cronStatus(t, f, "tock"); s.Drift != "" {
		t.Errorf("%+v", s)
	}
}

func TestCronEntryIsAddedReplacedAndLeftAlone(t *testing.T) {
	t.Parallel()
	nc := natstest.Conn(t)
	f := open(t, nc)
	lead(t, f)
	e := everySecond("tock")
	e.Spec.Payload = []byte(`{"a":1}`)
	change := func(want fabric.CronChange) {
		t.Helper()
		if got := addCron(t, f, e); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	change(fabric.CronAdded)
	scheduled, err := cronStream(t, nc).GetLastMsgForSubject(t.Context(), "weft.cron.tock")
	if err != nil {
		t.Fatal(err)
	}
	awaitTicks(t, f, "tock", 1)
	change(fabric.CronUnchanged)
	e.Spec.Payload = []byte(`{"a":2}`)
	change(fabric.CronReplaced)
	if now, err := cronStream(t, nc).GetLastMsgForSubject(t.Context(), "weft.cron.tock"); err != nil || now.Sequence != scheduled.Sequence {
		t.Errorf("another spec began the interval anew: %v", err)
	}
	natstest.Eventually(t, patience, "a job of the new spec", func() bool {
		s := cronStatus(t, f, "tock")
		return s.LastJob != "" && string(get(t, f, s.LastJob).Payload) == `{"a":2}`
	})
	e.Schedule, e.TimeZone = "30 4 * * *", "Europe/Berlin"
	change(fabric.CronReplaced)
	s := cronStatus(t, f, "tock")
	if s.Last.IsZero() || s.Drift != "" || s.Next.Format("15:04 MST") != "04:30 CET" && s.Next.Format("15:04 MST") != "04:30 CEST" {
		t.Errorf("%+v", s)
	}
	change(fabric.CronUnchanged)
}

func TestCronEntryOnceFiresOnce(t *testing.T) {
	t.Parallel()
	nc := natstest.Conn(t)
	f := open(t, nc)
	lead(t, f)
	e := everySecond("once")
	at := f.Now().Add(2 * time.Second).Truncate(time.Second)
	e.Schedule = "@at " + at.Format(time.RFC3339)
	addCron(t, f, e)
	if ids := awaitTicks(t, f, "once", 1); !tickTime(t, "once", ids[0]).Equal(at) {
		t.Errorf("%s, want the time %s", ids, at)
	}
	natstest.Eventually(t, patience, "it is over", func() bool {
		s := cronStatus(t, f, "once")
		return s.Last.Equal(at) && s.Next.IsZero() && s.Drift == ""
	})
	if addCron(t, f, e) != fabric.CronUnchanged {
		t.Error("it was changed")
	}
	var wrong *fabric.ScheduleError
	e.Schedule = "@at 2020-01-01T00:00:00Z"
	if _, err := f.AddCron(t.Context(), e); !errors.As(err, &wrong) || !strings.Contains(err.Error(), "is in the past") {
		t.Errorf("%v", err)
	}
}

func TestCronEntriesJobsOverlapUnlessTheyHaveAKey(t *testing.T) {
	t.Parallel()
	f := open(t, natstest.Conn(t))
	lead(t, f)
	policies := []fabric.Conflict{fabric.Supersede, fabric.Coalesce, fabric.Reject}
	addCron(t, f, everySecond("free"))
	for _, policy := range policies {
		e := everySecond(string(policy))
		e.Spec.Key, e.OnConflict = "report/"+string(policy), policy
		addCron(t, f, e)
	}
	awaitTicks(t, f, "free", 2)
	awaitTicks(t, f, "supersede", 2)
	var refused fabric.CronStatus
	natstest.Eventually(t, patience, "one of the key is rejected", func() bool {
		refused = cronStatus(t, f, "reject")
		return refused.Refused != ""
	})
	if !strings.Contains(refused.Refused, "duplicate_job reject-") || !refused.RefusedAt.Equal(refused.Last) {
		t.Errorf("%+v", refused)
	}
	natstest.Eventually(t, patience, "one is coalesced", func() bool {
		s, ids := cronStatus(t, f, "coalesce"), cronJobs(t, f, "coalesce")
		return len(ids) == 1 && s.LastJob == ids[0] && s.Last.After(tickTime(t, "coalesce", ids[0]))
	})
	for _, name := range []string{"free", "supersede", "coalesce", "reject"} {
		if err := f.RemoveCron(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	live := func(name string) (ids []string) {
		for _, id := range cronJobs(t, f, name) {
			if get(t, f, id).State == job.StateWaiting {
				ids = append(ids, id)
			}
		}
		return ids
	}
	if ids := live("free"); len(ids) < 2 {
		t.Errorf("jobs that overlap are not side by side: %s", ids)
	}
	natstest.Eventually(t, patience, "the last supersedes all others", func() bool {
		ids, all := live("supersede"), cronJobs(t, f, "supersede")
		return len(ids) == 1 && ids[0] == all[len(all)-1]
	})
	for _, name := range []string{"coalesce", "reject"} {
		if ids := cronJobs(t, f, name); len(ids) != 1 {
			t.Errorf("%s made %s", name, ids)
		}
	}
}

// An entry that was put there without AddCron, which would have refused it.
func TestRefusedCronEntrySaysSoAndStopsNoOther(t *testing.T) {
	t.Parallel()
	nc := natstest.Conn(t)
	f := open(t, nc, quiet)
	addCron(t, f, everySecond("good"))
	addCron(t, f, everySecond("large"))
	addCron(t, f, everySecond("unreadable"))
	addCron(t, f, everySecond("senseless"))
	large, err := json.Marshal(strings.Repeat("x", job.MaxSpecSize))
	if err != nil {
		t.Fatal(err)
	}
	publish(t, nc, "$KV.weft."+kv.CronKey("large"), `{"schedule":"@every 1s","mine":{"a": "<"},"spec":{"stage":"nightly","input_ref":"data:,x","payload":`+string(large)+`}}`, 0)
	publish(t, nc, "$KV.weft."+kv.CronKey("unreadable"), `{"schedule":`, 0)
	publish(t, nc, "$KV.weft."+kv.CronKey("senseless"), `{"schedule":"now and then","spec":{"stage":"nightly","input_ref":"data:,x"}}`, 0)
	lead(t, f)
	awaitTicks(t, f, "good", 3)
	natstest.Eventually(t, patience, "the refusal is noted", func() bool { return cronStatus(t, f, "large").Refused != "" })
	s := cronStatus(t, f, "large")
	if !strings.Contains(s.Refused, "larger than") || len(cronJobs(t, f, "large")) > 0 {
		t.Errorf("%+v", s.Refused)
	}
	e, err := fabric.Bucket(f).Get(t.Context(), kv.CronKey("large"))
	if err != nil || !strings.Contains(string(e.Value), `"mine":{"a": "<"}`) {
		t.Errorf("a member of somebody else was lost: %v", err)
	}
	if s := cronStatus(t, f, "unreadable"); !errors.Is(s.Err, kv.ErrUnreadable) {
		t.Errorf("%+v", s)
	}
	if s := cronStatus(t, f, "senseless"); !strings.Contains(s.Drift, `schedule "now and then" has 3 fields`) || !s.Next.IsZero() {
		t.Errorf("%+v", s)
	}
}

func TestAddCronRefuses(t *testing.T) {
	t.Parallel()
	f := open(t, natstest.Conn(t))
	for name, c := range map[string]struct {
		edit func(*fabric.CronEntry)
		says string
	}{
		"a name":      {func(e *fabric.CronEntry) { e.Name = "Nightly.report" }, `cron name "Nightly.report" is not`},
		"a schedule":  {func(e *fabric.CronEntry) { e.Schedule = "* * *" }, `schedule "* * *" has 3 fields; give 5`},
		"an id":       {func(e *fabric.CronEntry) { e.Spec.ID = "x" }, "has no id"},
		"a time":      {func(e *fabric.CronEntry) { e.Spec.AvailableAt = time.Now() }, "its schedule says when"},
		"no key":      {func(e *fabric.CronEntry) { e.OnConflict = fabric.Reject }, "on_conflict reject needs a key"},
		"a policy":    {func(e *fabric.CronEntry) { e.OnConflict = "maybe" }, "needs a key"},
		"a stage":     {func(e *fabric.CronEntry) { e.Spec.Stage = "A B" }, "stage"},
		"a long spec": {func(e *fabric.CronEntry) { e.Spec.InputRef = strings.Repeat("x", job.MaxSpecSize) }, "larger than"},
	} {
		e := everySecond("tock")
		c.edit(&e)
		if _, err := f.AddCron(t.Context(), e); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
	}
	if all, err := f.Crons(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("%v, %v", all, err)
	}
}

// What a server refuses that knows fewer time zones than this process.
func TestCronEntryThatTheServerRefusesIsTakenBack(t *testing.T) {
	t.Parallel()
	f := open(t, natstest.Conn(t))
	first, second := everySecond("tock"), everySecond("tock")
	first.Spec.MaxAttempts, second.Spec.MaxAttempts = 1, 2
	addCron(t, f, first)
	addCron(t, f, second)
	if err := fabric.UnwriteCron(t.Context(), f, second, cronStatus(t, f, "tock").CronEntry); err != nil {
		t.Fatal(err)
	}
	if err := fabric.UnwriteCron(t.Context(), f, second, first); err != nil {
		t.Fatal(err)
	}
	if s := cronStatus(t, f, "tock"); s.Spec.MaxAttempts != 1 {
		t.Errorf("%+v", s)
	}
	if err := fabric.UnwriteCron(t.Context(), f, second, fabric.CronEntry{}); err != nil {
		t.Fatal(err)
	}
	if s := cronStatus(t, f, "tock"); s.Spec.MaxAttempts != 1 {
		t.Errorf("somebody else's was taken back: %+v", s)
	}
	if err := fabric.UnwriteCron(t.Context(), f, first, fabric.CronEntry{}); err != nil {
		t.Fatal(err)
	}
	if all, err := f.Crons(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("%v, %v", all, err)
	}
}

func TestPausedCronEntryMakesNoJobs(t *testing.T) {
	t.Parallel()
	nc := natstest.Conn(t)
	f := open(t, nc)
	e := everySecond("tock")
	e.Paused = true
	addCron(t, f, e)
	addCron(t, f, everySecond("other"))
	pendingTick(t, nc, "tock", 1)
	lead(t, f)
	awaitTicks(t, f, "other", 2)
	if ids := cronJobs(t, f, "tock"); len(ids) > 0 {
		t.Errorf("it made %s", ids)
	}
	if s := cronStatus(t, f, "tock"); !s.Next.IsZero() {
		t.Errorf("%+v", s)
	}
	e.Paused = false
	addCron(t, f, e)
	awaitTicks(t, f, "tock", 1)
}

// cronFindings are doctor's of cron entries.
func cronFindings(t *testing.T, nc *nats.Conn, repair bool) map[string]fabric.Finding {
	t.Helper()
	found := map[string]fabric.Finding{}
	for _, f := range findings(t, nc, repair) {
		if name, ok := strings.CutPrefix(f.Subject, "cron entry "); ok {
			found[name] = f
		}
	}
	return found
}

func TestCronEntriesAndSchedulesAreReconciled(t *testing.T) {
	t.Parallel()
	for _, by := range []string{"doctor", "keeper"} {
		t.Run(by, func(t *testing.T) {
			t.Parallel()
			nc := natstest.Conn(t)
			f := open(t, nc, quiet)
			if found := cronFindings(t, nc, false); len(found) > 0 {
				t.Errorf("no entry yet, and %v", found)
			}
			for _, name := range []string{"lost", "left", "changed", "right"} {
				e := everySecond(name)
				e.Schedule = "0 4 * * *"
				addCron(t, f, e)
			}
			st, bucket := cronStream(t, nc), fabric.Bucket(f)
			msg, err := st.GetLastMsgForSubject(t.Context(), "weft.cron.lost")
			if err == nil {
				err = st.DeleteMsg(t.Context(), msg.Sequence)
			}
			left, leftErr := bucket.Get(t.Context(), kv.CronKey("left"))
			if err = errors.Join(err, leftErr, bucket.Delete(t.Context(), kv.CronKey("left"), left.Revision)); err != nil {
				t.Fatal(err)
			}
			publish(t, nc, "$KV.weft."+kv.CronKey("changed"), `{"schedule":"0 5 * * *","time_zone":"Asia/Tokyo","spec":{"stage":"nightly","input_ref":"data:,x"}}`, 0)
			natstest.Eventually(t, fabric.Grace+patience, "all that is wrong is found after the grace", func() bool {
				return slices.Equal(slices.Sorted(maps.Keys(cronFindings(t, nc, false))), []string{"changed", "left", "lost"})
			})
			if by == "doctor" {
				cronFindings(t, nc, true)
			} else {
				lead(t, f)
			}
			natstest.Eventually(t, patience, "nothing is found any more", func() bool { return len(cronFindings(t, nc, false)) == 0 })
			scheduled := map[string]string{}
			for subject := range subjectsOf(t, st, "weft.>") {
				msg, err := st.GetLastMsgForSubject(t.Context(), subject)
				if err != nil {
					t.Fatal(err)
				}
				scheduled[subject] = msg.Header.Get("Nats-Schedule") + " " + msg.Header.Get("Nats-Schedule-Time-Zone")
			}
			want := map[string]string{"weft.cron.lost": "0 0 4 * * * ", "weft.cron.changed": "0 0 5 * * * Asia/Tokyo", "weft.cron.right": "0 0 4 * * * "}
			if !maps.Equal(scheduled, want) {
				t.Errorf("scheduled %q, want %q", scheduled, want)
			}
		})
	}
}

// dueSoon are expressions that are due at a time, and then not for a while.
func dueSoon(at time.Time) []string {
	second, minute, hour, day := at.Second(), at.Minute(), at.Hour(), at.Day()
	return []string{
		fmt.Sprintf("%d %d %d * * *", second, minute, hour),
		fmt.Sprintf("%d %d * * * *", second, minute),
		fmt.Sprintf("%d * * * * *", second),
		fmt.Sprintf("%d %d %d * * %d", second, minute, hour, at.Weekday()),
		fmt.Sprintf("%d %d %d %d * *", second, minute, hour, day),
		fmt.Sprintf("%d %d %d %d %s *", second, minute, hour, day, strings.ToLower(at.Month().String()[:3])),
		fmt.Sprintf("%d %d */%d 1-31/2,%d * mon-fri", second, minute, max(1, hour), day),
		"*/2 * * * * *",
	}
}

// The server says with each tick when it fires next. Expressions that are due soon
// show whether it reckons as Schedule does.
func TestScheduleAgreesWithTheServer(t *testing.T) {
	t.Parallel()
	nc := natstest.Conn(t)
	f, js := open(t, nc, quiet), serverJetStream(t, nc)
	addCron(t, f, everySecond("first"))
	schedules := map[string]fabric.Schedule{}
	schedule := func(name, expression, zone string) {
		schedules[name] = parseSchedule(t, expression, zone)
		msg := nats.NewMsg("weft.cron." + name)
		msg.Header.Set("Nats-Schedule", expression)
		msg.Header.Set("Nats-Schedule-Target", "weft.tick."+name)
		if zone != "" {
			msg.Header.Set("Nats-Schedule-Time-Zone", zone)
		}
		if _, err := js.PublishMsgAsync(msg); err != nil {
			t.Fatal(err)
		}
	}
	natstest.Eventually(t, patience, "schedules that are there before they are due", func() bool {
		due := f.Now().Add(4 * time.Second)
		for z, zone := range []string{"", "Europe/Berlin", "America/New_York", "Asia/Kathmandu", "Australia/Lord_Howe"} {
			location, err := time.LoadLocation(zone)
			if err != nil {
				t.Fatal(err)
			}
			for i, expression := range dueSoon(due.In(location)) {
				schedule(fmt.Sprintf("e%d-%d", z, i), expression, zone)
			}
		}
		<-js.PublishAsyncComplete()
		return due.Sub(f.Now()) > time.Second
	})
	for name, s := range schedules {
		tick := pendingTick(t, nc, name, 1)
		next, err := time.Parse(time.RFC3339Nano, tick.Header.Get("Nats-Schedule-Next"))
		if err != nil {
			t.Fatalf("%s: %v, %v", name, tick.Header, err)
		}
		if want := s.Next(tick.Time.Truncate(time.Second)); !next.Equal(want) {
			t.Errorf("%s fired at %s: the server says %s is next, and Schedule %s", name, tick.Time, next, want)
		}
	}
}

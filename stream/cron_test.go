package stream_test

// These tests prove what the server does with schedules of cron entries, and how it
// says that it does not take one.

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/weft-fabric/weft/internal/natstest"
	"github.com/weft-fabric/weft/internal/topology"
	"github.com/weft-fabric/weft/stream"
)

func TestSetCronSaysWhatTheServerRefuses(t *testing.T) {
	t.Parallel()
	f := queue(t, settings)
	if err := f.SetCron(t.Context(), stream.Cron{Name: "x", Expression: "@every 1m"}); !errors.Is(err, stream.ErrNoStream) {
		t.Errorf("without a stream: %v", err)
	}
	if _, err := f.CronNames(t.Context()); !errors.Is(err, stream.ErrNoStream) {
		t.Errorf("names without a stream: %v", err)
	}
	if err := f.EnsureCron(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ expression, zone, says string }{
		{"*/5 * * * *", "", "the server refuses the schedule"},
		{"@every 500ms", "", "the server refuses the schedule"},
		{"@every 10m", "UTC", "the server refuses the schedule"},
		{"0 0 0 * * 7", "", "the server refuses the schedule"},
		{"0 0 0 * * *", "Mars", `does not know the time zone "Mars"`},
	} {
		err := f.SetCron(t.Context(), stream.Cron{Name: "x", Expression: c.expression, Zone: c.zone})
		if !errors.Is(err, stream.ErrBadCron) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s %s: %v, want %q", c.expression, c.zone, err, c.says)
		}
	}
	if names, err := f.CronNames(t.Context()); err != nil || len(names) > 0 {
		t.Errorf("%v, %v", names, err)
	}
}

func TestTicksFoldAndSayByWhatTheyWereFired(t *testing.T) {
	t.Parallel()
	f := queue(t, settings)
	if err := f.EnsureCron(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := stream.Cron{Name: "x", Expression: "* * * * * *", Zone: "Asia/Kathmandu"}
	if err := f.SetCron(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	natstest.Eventually(t, soon, "three ticks", func() bool {
		info, err := f.js.Stream(t.Context(), "WEFT_CRON")
		return err == nil && info.CachedInfo().State.LastSeq >= 4
	})
	var first time.Time
	for began := time.Now(); first.IsZero(); {
		err := f.Ticks(t.Context(), time.Second, func(tick stream.Tick) {
			if first.IsZero() {
				first = tick.Stored
			}
			if tick.Cron != want || !tick.Next.After(tick.Stored) || tick.Next.Sub(tick.Stored) > 2*time.Second {
				t.Errorf("%+v", tick)
			}
			if err := tick.Done(t.Context()); err != nil {
				t.Errorf("%v", err)
			}
		})
		if err != nil || time.Since(began) > soon {
			t.Fatalf("no tick: %v", err)
		}
	}
	have, err := f.Cron(t.Context(), "x")
	if err != nil || have.Cron != want || !have.There || first.Sub(have.Stored) < 2*time.Second {
		t.Errorf("the first tick that was handed out is of %s; %+v, %v", first, have, err)
	}
	if err := f.RemoveCron(t.Context(), "x"); err != nil {
		t.Fatal(err)
	}
	if have, err := f.Cron(t.Context(), "x"); err != nil || have.There || have.Ticked {
		t.Errorf("removed, and %+v, %v", have, err)
	}
}

func TestCronStreamThatDriftedIsRepaired(t *testing.T) {
	t.Parallel()
	f := queue(t, settings)
	if err := f.EnsureCron(t.Context()); err != nil {
		t.Fatal(err)
	}
	wrong := f.CronStreamConfig()
	wrong.MaxMsgsPerSubject = 5
	if _, err := f.js.UpdateStream(t.Context(), wrong); err != nil {
		t.Fatal(err)
	}
	if err := f.js.DeleteConsumer(t.Context(), "WEFT_CRON", "keeper"); err != nil {
		t.Fatal(err)
	}
	drift, ok := errors.AsType[*topology.DriftError](f.EnsureCron(t.Context()))
	if !ok || len(drift.Drifts) != 1 || drift.Drifts[0].Setting != "max_msgs_per_subject" {
		t.Fatalf("%v", drift)
	}
	if err := f.RepairCron(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := f.EnsureCron(t.Context()); err != nil {
		t.Errorf("after the repair: %v", err)
	}
}

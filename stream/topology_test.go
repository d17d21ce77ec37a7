package stream_test

// These tests prove that a stage's stream and consumers are made with the
// settings the protocol rests on, and that ones with other settings are refused
// by name and repaired without touching the rest.

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/weft-fabric/weft/internal/natstest"
	"github.com/weft-fabric/weft/internal/topology"
	"github.com/weft-fabric/weft/stream"
)

func TestStageHasTheStreamOfTheDesign(t *testing.T) {
	t.Parallel()
	f := queue(t, settings)
	c := f.stream().CachedInfo().Config
	subjects := slices.Sorted(slices.Values(c.Subjects))
	for setting, ok := range map[string]bool{
		"name":                 c.Name == "WEFT_hash",
		"subjects":             slices.Equal(subjects, []string{"weft.lane.hash.*.*", "weft.later.hash.*", "weft.work.hash.*"}),
		"work queue":           c.Retention == jetstream.WorkQueuePolicy,
		"file":                 c.Storage == jetstream.FileStorage,
		"discard old":          c.Discard == jetstream.DiscardOld,
		"one a subject":        c.MaxMsgsPerSubject == 1,
		"no other limit":       c.MaxAge == 0 && c.MaxMsgs == -1 && c.MaxBytes == -1 && c.MaxMsgSize == -1,
		"schedules":            c.AllowMsgSchedules,
		"no direct get":        !c.AllowDirect,
		"a description":        c.Description != "",
		"metadata, version":    c.Metadata[topology.VersionKey] == topology.Version,
		"no republish, mirror": c.RePublish == nil && c.Mirror == nil && len(c.Sources) == 0,
	} {
		if !ok {
			t.Errorf("%s: %+v", setting, c)
		}
	}
}

func TestStageHasTheConsumersOfTheDesign(t *testing.T) {
	t.Parallel()
	s := stream.Settings{Lease: 45 * time.Second, Concurrency: 7, Lanes: []int{1, 4}}
	f := queue(t, s)
	for name, filter := range map[string]string{
		"runners": "weft.work.hash.*", "runners-1": "weft.lane.hash.1.*", "runners-4": "weft.lane.hash.4.*",
	} {
		c := f.consumer(name).Config
		for setting, ok := range map[string]bool{
			"durable":           c.Durable == name,
			"filter":            c.FilterSubject == filter && len(c.FilterSubjects) == 0,
			"explicit ack":      c.AckPolicy == jetstream.AckExplicitPolicy,
			"ack-wait":          c.AckWait == 45*time.Second,
			"unlimited":         c.MaxDeliver == -1 && len(c.BackOff) == 0,
			"max-ack-pending":   c.MaxAckPending == 7,
			"pull":              c.DeliverSubject == "",
			"all items":         c.DeliverPolicy == jetstream.DeliverAllPolicy,
			"does not end":      c.InactiveThreshold == 0,
			"a description":     c.Description != "",
			"metadata, version": c.Metadata[topology.VersionKey] == topology.Version,
		} {
			if !ok {
				t.Errorf("%s: %s: %+v", name, setting, c)
			}
		}
	}
	if pending := on(t, f.nc, s).ConsumerConfig(stage, 3, stream.Settings{Lease: time.Second}).MaxAckPending; pending != -1 {
		t.Errorf("no limit is written as %d", pending)
	}
}

func TestNamesAreThoseOfTheDesign(t *testing.T) {
	t.Parallel()
	f := queue(t, stream.Settings{Lease: time.Minute, Lanes: []int{2}})
	f.offer("a")
	urgent := item("b", "{}")
	urgent.Lane = 2
	must(t, f.Offer(t.Context(), urgent))
	must(t, f.OfferLater(t.Context(), item("c", "{}"), time.Now().Add(time.Hour)))
	for _, subject := range []string{"weft.work.hash.a", "weft.lane.hash.2.b", "weft.later.hash.c"} {
		if msg := f.stored(subject); msg == nil || msg.Header.Get("Weft-Revision") != "7" || msg.Header.Get("Nats-Msg-Id") != "" {
			t.Errorf("%s holds %+v", subject, msg)
		}
	}
	if target := f.stored("weft.later.hash.c").Header.Get("Nats-Schedule-Target"); target != "weft.work.hash.c" {
		t.Errorf("the schedule's target is %s", target)
	}
}

func TestStagesAndNamespacesAreApart(t *testing.T) {
	t.Parallel()
	f := queue(t, settings)
	must(t, f.Ensure(t.Context(), "other", settings))
	q := stream.New(f.nc, f.js, natstest.Tower(t, f.nc), stream.Config{Namespace: "theirs", Replicas: 1, APIPrefix: "$JS.API"})
	must(t, q.Ensure(t.Context(), stage, settings))
	f.offer("a")
	for _, name := range []string{"WEFT_other", "THEIRS_hash"} {
		s, err := f.js.Stream(t.Context(), name)
		must(t, err)
		if n := s.CachedInfo().State.Msgs; n != 0 {
			t.Errorf("%s has %d items", name, n)
		}
	}
}

// streamDrifts changes each compared setting that the server lets differ in a
// stream with schedules.
var streamDrifts = []struct {
	setting string
	change  func(*jetstream.StreamConfig)
}{
	{"subjects", func(c *jetstream.StreamConfig) { c.Subjects = c.Subjects[:2] }},
	{"retention", func(c *jetstream.StreamConfig) { c.Retention = jetstream.LimitsPolicy }},
	{"storage", func(c *jetstream.StreamConfig) { c.Storage = jetstream.MemoryStorage }},
	{"max_msgs_per_subject", func(c *jetstream.StreamConfig) { c.MaxMsgsPerSubject = -1 }},
	{"max_age", func(c *jetstream.StreamConfig) { c.MaxAge = time.Hour }},
	{"allow_direct", func(c *jetstream.StreamConfig) { c.AllowDirect = true }},
	{"allow_msg_ttl", func(c *jetstream.StreamConfig) { c.AllowMsgTTL = true }},
	{"allow_atomic", func(c *jetstream.StreamConfig) { c.AllowAtomicPublish = true }},
	{"allow_msg_schedules", func(c *jetstream.StreamConfig) { c.AllowMsgSchedules = false }},
	{"republish", func(c *jetstream.StreamConfig) {
		c.RePublish = &jetstream.RePublish{Source: ">", Destination: "seen.>"}
	}},
	{"discard", func(c *jetstream.StreamConfig) { c.AllowMsgSchedules, c.Discard = false, jetstream.DiscardNew }},
}

func TestEnsureNamesEverySettingOfTheStreamThatDrifted(t *testing.T) {
	t.Parallel()
	f := queue(t, settings)
	for i, d := range streamDrifts {
		stage := fmt.Sprintf("s%d", i)
		cfg := f.StreamConfig(stage)
		d.change(&cfg)
		if _, err := f.js.CreateStream(t.Context(), cfg); err != nil {
			t.Fatalf("%s: the server does not let it differ: %v", d.setting, err)
		}
		checkDrift(t, f.Ensure(t.Context(), stage, settings), "stream WEFT_"+stage, d.setting)
	}
}

func TestEnsureNamesEverySettingOfTheConsumerThatDrifted(t *testing.T) {
	t.Parallel()
	f := queue(t, settings)
	for setting, change := range map[string]func(*jetstream.ConsumerConfig){
		"filter_subject":  func(c *jetstream.ConsumerConfig) { c.FilterSubject = "weft.work.%s.a" },
		"ack_wait":        func(c *jetstream.ConsumerConfig) { c.AckWait = time.Second },
		"max_deliver":     func(c *jetstream.ConsumerConfig) { c.MaxDeliver = 5 },
		"max_ack_pending": func(c *jetstream.ConsumerConfig) { c.MaxAckPending = 1000 },
	} {
		stage := "c-" + setting
		st, err := f.js.CreateStream(t.Context(), f.StreamConfig(stage))
		must(t, err)
		cfg := f.ConsumerConfig(stage, 3, settings)
		if change(&cfg); setting == "filter_subject" {
			cfg.FilterSubject = fmt.Sprintf(cfg.FilterSubject, stage)
		}
		_, err = st.CreateConsumer(t.Context(), cfg)
		must(t, err)
		checkDrift(t, f.Ensure(t.Context(), stage, settings), "consumer runners of stream WEFT_"+stage, setting)
	}
}

func checkDrift(t *testing.T, err error, asset, setting string) {
	t.Helper()
	drift, ok := errors.AsType[*topology.DriftError](err)
	if !ok {
		t.Errorf("%s: %v", setting, err)
		return
	}
	named := slices.ContainsFunc(drift.Drifts, func(d topology.Drift) bool { return d.Asset == asset && d.Setting == setting })
	if !named {
		t.Errorf("%s is not named in %v", setting, err)
	}
}

func TestRepairSetsRightWhatDriftedAndKeepsWhatWaits(t *testing.T) {
	t.Parallel()
	f := queue(t, settings)
	f.offer(ids(3)...)
	cfg := f.stream().CachedInfo().Config
	cfg.AllowDirect, cfg.MaxAge, cfg.MaxBytes = true, time.Hour, 1<<30
	_, err := f.js.UpdateStream(t.Context(), cfg)
	must(t, err)
	consumer := f.consumer("runners").Config
	consumer.AckWait, consumer.MaxAckPending = time.Second, 5
	_, err = f.stream().UpdateConsumer(t.Context(), consumer)
	must(t, err)
	_, err = f.stream().PauseConsumer(t.Context(), "runners", time.Now().Add(time.Hour))
	must(t, err)
	must(t, f.Repair(t.Context(), stage, settings))
	must(t, f.Ensure(t.Context(), stage, settings))
	if c := f.stream().CachedInfo().Config; c.MaxBytes != 1<<30 || f.left() != 3 {
		t.Errorf("a limit or the items were lost: %+v, %d items", c, f.left())
	}
	if info := f.consumer("runners"); !info.Paused {
		t.Errorf("repaired, but not paused any more: %+v", info)
	}
}

func TestEnsureMakesALaneThatComesIntoUse(t *testing.T) {
	t.Parallel()
	f := queue(t, settings)
	must(t, f.Ensure(t.Context(), stage, stream.Settings{Lease: settings.Lease, Lanes: []int{1}}))
	if c := f.consumer("runners-1"); c.Config.FilterSubject != "weft.lane.hash.1.*" {
		t.Fatalf("%+v", c)
	}
}

func TestManyEnsureAtOnce(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	failures := make(chan error, 8)
	for range 8 {
		f := on(t, s.Connect(), settings)
		go func() {
			failures <- f.Ensure(t.Context(), "fresh", stream.Settings{Lease: time.Minute, Lanes: []int{1, 2, 4}})
		}()
	}
	for range 8 {
		if err := <-failures; err != nil {
			t.Error(err)
		}
	}
}

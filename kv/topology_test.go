package kv_test

// These tests prove that the bucket's stream is made with the settings the
// protocol rests on, and that one with other settings is refused by name.

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/weft-fabric/weft/internal/natstest"
	"github.com/weft-fabric/weft/internal/topology"
	"github.com/weft-fabric/weft/kv"
)

func TestBucketHasTheSettingsOfTheDesign(t *testing.T) {
	t.Parallel()
	_, nc := bucket(t)
	s, err := jetStream(t, nc).Stream(t.Context(), "KV_weft")
	if err != nil {
		t.Fatal(err)
	}
	c := s.CachedInfo().Config
	for setting, ok := range map[string]bool{
		"subjects":             slices.Equal(c.Subjects, []string{"$KV.weft.>"}),
		"history 1":            c.MaxMsgsPerSubject == 1,
		"file":                 c.Storage == jetstream.FileStorage,
		"limits retention":     c.Retention == jetstream.LimitsPolicy,
		"discard new":          c.Discard == jetstream.DiscardNew,
		"no age":               c.MaxAge == 0,
		"no size":              c.MaxBytes == -1 && c.MaxMsgs == -1 && c.MaxMsgSize == -1,
		"message TTL":          c.AllowMsgTTL,
		"markers":              c.SubjectDeleteMarkerTTL >= time.Minute,
		"atomic batch":         c.AllowAtomicPublish,
		"direct get off":       !c.AllowDirect,
		"delete denied":        c.DenyDelete,
		"rollup for markers":   c.AllowRollup,
		"republish":            c.RePublish != nil && c.RePublish.Source == "$KV.weft.job.>" && c.RePublish.Destination == "weft.event.job.>",
		"a description":        c.Description != "",
		"metadata, version":    c.Metadata[topology.VersionKey] == topology.Version,
		"replicas":             c.Replicas == 1,
		"no mirror or sources": c.Mirror == nil && len(c.Sources) == 0,
	} {
		if !ok {
			t.Errorf("%s: %+v", setting, c)
		}
	}
}

func TestNamespaceNamesTheBucket(t *testing.T) {
	t.Parallel()
	nc := natstest.Conn(t)
	mine := openBucket(t, nc, kv.Config{Namespace: "mine", Replicas: 1})
	yours := openBucket(t, nc, kv.Config{Namespace: "yours", Replicas: 1})
	swap(t, mine, kv.Write{Key: "job.a", Value: []byte("mine")})
	if e := get(t, yours, "job.a"); e.Exists() {
		t.Fatalf("another namespace sees %q", e.Value)
	}
	s, err := jetStream(t, nc).Stream(t.Context(), "KV_mine")
	if err != nil {
		t.Fatal(err)
	}
	if r := s.CachedInfo().Config.RePublish; r.Source != "$KV.mine.job.>" || r.Destination != "mine.event.job.>" {
		t.Fatalf("republish %+v", r)
	}
}

func TestEventsRepeatRecordsAndNothingElse(t *testing.T) {
	t.Parallel()
	b, nc := bucket(t)
	events, err := nc.SubscribeSync("weft.event.>")
	if err != nil {
		t.Fatal(err)
	}
	swap(t, b, kv.Write{Key: "stage.hash", Value: []byte("{}")})
	swap(t, b, kv.Write{Key: "job.a", Value: []byte("record")})
	msg, err := events.NextMsg(soon)
	if err != nil {
		t.Fatal(err)
	}
	if msg.Subject != "weft.event.job.a" || string(msg.Data) != "record" {
		t.Fatalf("event %s %q", msg.Subject, msg.Data)
	}
}

// drifts changes each compared setting that the server lets differ, one at a
// time. Each names the settings that Open must complain of.
var drifts = []struct {
	settings []string
	change   func(*jetstream.StreamConfig)
}{
	{[]string{"subjects"}, func(c *jetstream.StreamConfig) { c.Subjects = append(c.Subjects, "more.>") }},
	{[]string{"retention"}, func(c *jetstream.StreamConfig) { c.Retention = jetstream.InterestPolicy }},
	{[]string{"discard"}, func(c *jetstream.StreamConfig) { c.Discard = jetstream.DiscardOld }},
	{[]string{"storage"}, func(c *jetstream.StreamConfig) { c.Storage = jetstream.MemoryStorage }},
	{[]string{"max_msgs_per_subject"}, func(c *jetstream.StreamConfig) { c.MaxMsgsPerSubject = 2 }},
	{[]string{"max_age"}, func(c *jetstream.StreamConfig) { c.MaxAge = time.Hour }},
	{[]string{"allow_direct"}, func(c *jetstream.StreamConfig) { c.AllowDirect = true }},
	{[]string{"allow_atomic"}, func(c *jetstream.StreamConfig) { c.AllowAtomicPublish = false }},
	{[]string{"subject_delete_marker_ttl"}, func(c *jetstream.StreamConfig) { c.SubjectDeleteMarkerTTL = time.Minute }},
	{[]string{"republish"}, func(c *jetstream.StreamConfig) { c.RePublish = nil }},
	{[]string{"republish"}, func(c *jetstream.StreamConfig) { c.RePublish.Destination = "elsewhere.>" }},
	// A server refuses rollups together with a lack of markers, and markers
	// without time to live, so these differ in more than one.
	{[]string{"allow_rollup_hdrs", "subject_delete_marker_ttl"}, func(c *jetstream.StreamConfig) { c.AllowRollup, c.SubjectDeleteMarkerTTL = false, 0 }},
	{[]string{"allow_msg_ttl", "subject_delete_marker_ttl"}, func(c *jetstream.StreamConfig) { c.AllowMsgTTL, c.SubjectDeleteMarkerTTL = false, 0 }},
	{[]string{"allow_msg_schedules", "discard"}, func(c *jetstream.StreamConfig) {
		c.AllowMsgSchedules, c.Discard = true, jetstream.DiscardOld
	}},
}

func TestOpenNamesEverySettingThatDrifted(t *testing.T) {
	t.Parallel()
	js := jetStream(t, natstest.Conn(t))
	for i, d := range drifts {
		config := kv.Config{Namespace: fmt.Sprintf("weft%d", i), Replicas: 1}
		cfg := kv.StreamConfig(config)
		d.change(&cfg)
		if _, err := js.CreateStream(t.Context(), cfg); err != nil {
			t.Fatalf("%v: the server does not let it differ: %v", d.settings, err)
		}
		_, err := kv.Open(t.Context(), js, natstest.Tower(t, js.Conn()), config)
		drift, ok := errors.AsType[*topology.DriftError](err)
		if !ok {
			t.Fatalf("%v: %v", d.settings, err)
		}
		var named []string
		for _, one := range drift.Drifts {
			named = append(named, one.Setting)
			if one.Asset != "stream "+cfg.Name || one.Have == one.Want {
				t.Errorf("%v: %+v", d.settings, one)
			}
		}
		slices.Sort(named)
		if want := slices.Sorted(slices.Values(d.settings)); !slices.Equal(named, want) {
			t.Errorf("named %v, drifted %v: %v", named, want, err)
		}
	}
}

func TestOpenLeavesWhatIsTheOperators(t *testing.T) {
	t.Parallel()
	js := jetStream(t, natstest.Conn(t))
	cfg := kv.StreamConfig(config)
	cfg.MaxBytes, cfg.Description, cfg.Metadata = 1<<30, "ours", map[string]string{"owner": "ops"}
	if _, err := js.CreateStream(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	if _, err := kv.Open(t.Context(), js, natstest.Tower(t, js.Conn()), config); err != nil {
		t.Fatal(err)
	}
	s, err := js.Stream(t.Context(), cfg.Name)
	if err != nil {
		t.Fatal(err)
	}
	if c := s.CachedInfo().Config; c.MaxBytes != 1<<30 || c.Description != "ours" || c.Metadata["owner"] != "ops" {
		t.Fatalf("changed to %+v", c)
	}
}

func TestRepairSetsRightWhatDriftedAndNothingElse(t *testing.T) {
	t.Parallel()
	js := jetStream(t, natstest.Conn(t))
	cfg := kv.StreamConfig(config)
	cfg.AllowDirect, cfg.AllowAtomicPublish, cfg.RePublish = true, false, nil
	cfg.MaxBytes, cfg.Metadata = 1<<30, map[string]string{"owner": "ops"}
	if _, err := js.CreateStream(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	if err := topology.RepairStream(t.Context(), js, kv.StreamConfig(config)); err != nil {
		t.Fatal(err)
	}
	if _, err := kv.Open(t.Context(), js, natstest.Tower(t, js.Conn()), config); err != nil {
		t.Fatal(err)
	}
	s, err := js.Stream(t.Context(), cfg.Name)
	if err != nil {
		t.Fatal(err)
	}
	if c := s.CachedInfo().Config; c.MaxBytes != 1<<30 || c.Metadata["owner"] != "ops" {
		t.Fatalf("a limit or the metadata was changed too: %+v", c)
	}
}

func TestManyOpenAtOnce(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	var opening sync.WaitGroup
	for range 8 {
		js := jetStream(t, s.Connect())
		opening.Go(func() {
			if _, err := kv.Open(t.Context(), js, natstest.Tower(t, js.Conn()), config); err != nil {
				t.Error(err)
			}
		})
	}
	opening.Wait()
}

func TestServerTimeIsTheServersClock(t *testing.T) {
	t.Parallel()
	b, _ := bucket(t)
	before := time.Now()
	at, err := b.ServerTime(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if at.Before(before.Add(-time.Second)) || at.After(time.Now().Add(time.Second)) {
		t.Fatalf("%s, but it is %s", at, before)
	}
}

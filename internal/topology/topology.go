// Package topology creates the streams and consumers that Weft needs when they
// are absent and compares them when they are present. A setting that differs is
// an error that names it and the command that repairs it; nothing is ever
// overwritten in silence, since an operator may have had a reason.
package topology

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/nats-io/nats.go/jetstream"
)

// Version is written to the metadata of every asset under VersionKey, so that
// an inspection with the nats command explains what it looks at.
const (
	Version    = "1"
	VersionKey = "weft.version"
)

// Drift is one setting of an asset that is not as this version of Weft needs it.
type Drift struct {
	Asset   string // such as "stream KV_weft"
	Setting string // the name in the server's JSON
	Have    string
	Want    string
}

// String is one line that names the asset, the setting and both values.
func (d Drift) String() string {
	return fmt.Sprintf("%s: %s is %s and must be %s", d.Asset, d.Setting, d.Have, d.Want)
}

// ErrForeign is a stream whose name is needed and that holds something else: it
// is another fabric's or another program's, and not to be repaired.
var ErrForeign = errors.New("the name is taken by another stream")

// DriftError reports every setting of one asset that differs.
type DriftError struct{ Drifts []Drift }

// Error names the settings and the way out.
func (e *DriftError) Error() string {
	lines := make([]string, len(e.Drifts))
	for i, d := range e.Drifts {
		lines[i] = d.String()
	}
	return strings.Join(lines, "; ") + "; `weft doctor --repair` sets it right"
}

// setting is one compared setting; field points at it in a configuration.
type setting[C any] struct {
	name  string
	field func(*C) any
}

func (s setting[C]) of(c *C) reflect.Value { return reflect.ValueOf(s.field(c)).Elem() }

// streamSettings are those that the protocol depends on. The number of replicas
// is not among them: it is the operator's to change.
var streamSettings = []setting[jetstream.StreamConfig]{
	{"subjects", func(c *jetstream.StreamConfig) any { return &c.Subjects }},
	{"retention", func(c *jetstream.StreamConfig) any { return &c.Retention }},
	{"discard", func(c *jetstream.StreamConfig) any { return &c.Discard }},
	{"storage", func(c *jetstream.StreamConfig) any { return &c.Storage }},
	{"max_msgs_per_subject", func(c *jetstream.StreamConfig) any { return &c.MaxMsgsPerSubject }},
	{"max_age", func(c *jetstream.StreamConfig) any { return &c.MaxAge }},
	{"allow_rollup_hdrs", func(c *jetstream.StreamConfig) any { return &c.AllowRollup }},
	{"allow_direct", func(c *jetstream.StreamConfig) any { return &c.AllowDirect }},
	{"allow_msg_ttl", func(c *jetstream.StreamConfig) any { return &c.AllowMsgTTL }},
	{"allow_atomic", func(c *jetstream.StreamConfig) any { return &c.AllowAtomicPublish }},
	{"allow_msg_schedules", func(c *jetstream.StreamConfig) any { return &c.AllowMsgSchedules }},
	{"subject_delete_marker_ttl", func(c *jetstream.StreamConfig) any { return &c.SubjectDeleteMarkerTTL }},
	{"republish", func(c *jetstream.StreamConfig) any { return &c.RePublish }},
}

var consumerSettings = []setting[jetstream.ConsumerConfig]{
	{"filter_subject", func(c *jetstream.ConsumerConfig) any { return &c.FilterSubject }},
	{"ack_policy", func(c *jetstream.ConsumerConfig) any { return &c.AckPolicy }},
	{"ack_wait", func(c *jetstream.ConsumerConfig) any { return &c.AckWait }},
	{"max_deliver", func(c *jetstream.ConsumerConfig) any { return &c.MaxDeliver }},
	{"max_ack_pending", func(c *jetstream.ConsumerConfig) any { return &c.MaxAckPending }},
}

// show gives a setting's value for people.
func show(value any) string {
	r, ok := value.(*jetstream.RePublish)
	switch {
	case !ok:
		return fmt.Sprint(value)
	case r == nil:
		return "off"
	}
	return r.Source + " to " + r.Destination
}

func compare[C any](asset string, settings []setting[C], have, want C) error {
	var drifts []Drift
	for _, s := range settings {
		h, w := s.of(&have).Interface(), s.of(&want).Interface()
		if !reflect.DeepEqual(h, w) {
			drifts = append(drifts, Drift{Asset: asset, Setting: s.name, Have: show(h), Want: show(w)})
		}
	}
	if drifts != nil {
		return &DriftError{Drifts: drifts}
	}
	return nil
}

// repaired is what there is with the compared settings as wanted, and everything
// else, such as limits, as the operator left it.
func repaired[C any](settings []setting[C], have, want C) C {
	for _, s := range settings {
		s.of(&have).Set(s.of(&want))
	}
	return have
}

// EnsureStream creates the stream when it is absent and otherwise compares its
// settings; it fails with a *DriftError when they differ.
func EnsureStream(ctx context.Context, js jetstream.JetStream, want jetstream.StreamConfig) (jetstream.Stream, error) {
	asset := "stream " + want.Name
	want.Metadata = map[string]string{VersionKey: Version}
	s, err := js.Stream(ctx, want.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		s, err = js.CreateStream(ctx, want)
		if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) { // another process was faster
			s, err = js.Stream(ctx, want.Name)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", asset, err)
	}
	return s, checked(asset, s.CachedInfo().Config, want)
}

// checked compares what a stream is with what it must be.
func checked(asset string, have, want jetstream.StreamConfig) error {
	if !slices.ContainsFunc(have.Subjects, func(subject string) bool { return slices.Contains(want.Subjects, subject) }) {
		return fmt.Errorf("%s: %w: it holds %s; use another namespace or stage", asset, ErrForeign, strings.Join(have.Subjects, ", "))
	}
	slices.Sort(have.Subjects)
	slices.Sort(want.Subjects)
	return compare(asset, streamSettings, have, want)
}

// absent is the difference of what must be there and is not.
func absent(asset string) error {
	return &DriftError{Drifts: []Drift{{Asset: asset, Setting: "it", Have: "absent", Want: "there"}}}
}

// CheckStream compares a stream as EnsureStream does and creates nothing: one that
// is absent is a *DriftError, and the stream given is nil.
func CheckStream(ctx context.Context, js jetstream.JetStream, want jetstream.StreamConfig) (jetstream.Stream, error) {
	asset := "stream " + want.Name
	s, err := js.Stream(ctx, want.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, absent(asset)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", asset, err)
	}
	return s, checked(asset, s.CachedInfo().Config, want)
}

// CheckConsumer compares a stream's consumer as EnsureConsumer does and creates
// nothing: one that is absent is a *DriftError.
func CheckConsumer(ctx context.Context, s jetstream.Stream, want jetstream.ConsumerConfig) error {
	asset := consumerAsset(s, want)
	c, err := s.Consumer(ctx, want.Durable)
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		return absent(asset)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", asset, err)
	}
	return compare(asset, consumerSettings, c.CachedInfo().Config, want)
}

func consumerAsset(s jetstream.Stream, c jetstream.ConsumerConfig) string {
	return fmt.Sprintf("consumer %s of stream %s", c.Durable, s.CachedInfo().Config.Name)
}

// EnsureConsumer creates a stream's consumer when it is absent and otherwise
// compares its settings; it fails with a *DriftError when they differ.
func EnsureConsumer(ctx context.Context, s jetstream.Stream, want jetstream.ConsumerConfig) (jetstream.Consumer, error) {
	asset := consumerAsset(s, want)
	want.Metadata = map[string]string{VersionKey: Version}
	c, err := s.Consumer(ctx, want.Durable)
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		c, err = s.CreateConsumer(ctx, want)
		if errors.Is(err, jetstream.ErrConsumerExists) {
			c, err = s.Consumer(ctx, want.Durable)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", asset, err)
	}
	return c, compare(asset, consumerSettings, c.CachedInfo().Config, want)
}

// RepairStream sets a stream's compared settings right, and creates the stream
// when it is absent.
func RepairStream(ctx context.Context, js jetstream.JetStream, want jetstream.StreamConfig) error {
	s, err := EnsureStream(ctx, js, want)
	if _, ok := errors.AsType[*DriftError](err); !ok {
		return err
	}
	if _, err := js.UpdateStream(ctx, repaired(streamSettings, s.CachedInfo().Config, want)); err != nil {
		return fmt.Errorf("stream %s: %w", want.Name, err)
	}
	return nil
}

// RepairConsumer sets a consumer's compared settings right, and creates the
// consumer when it is absent.
func RepairConsumer(ctx context.Context, s jetstream.Stream, want jetstream.ConsumerConfig) error {
	c, err := EnsureConsumer(ctx, s, want)
	if _, ok := errors.AsType[*DriftError](err); !ok {
		return err
	}
	if _, err := s.UpdateConsumer(ctx, repaired(consumerSettings, c.CachedInfo().Config, want)); err != nil {
		return fmt.Errorf("consumer %s of stream %s: %w", want.Durable, s.CachedInfo().Config.Name, err)
	}
	return nil
}

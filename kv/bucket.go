package kv

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/weft-fabric/weft/internal/flight"
	"github.com/weft-fabric/weft/internal/topology"
)

// Config says which bucket.
type Config struct {
	Namespace string // names the bucket
	Replicas  int    // of the bucket's stream, when it is created here
	APIPrefix string // of the JetStream API, "$JS.API" unless in another domain
	Unchecked bool   // writes expect no revision: a mistake that the history test plants
}

// markerTTL is how long the server keeps a marker where a record expired. Within
// that time a late item of the record is known to be void; it must exceed the
// time an item can lag behind its record.
const markerTTL = time.Hour

// Bucket is the fabric's KV bucket. It is safe for concurrent use.
type Bucket struct {
	js     jetstream.JetStream
	tower  *flight.Tower
	stream jetstream.Stream
	watch  jetstream.KeyValue
	name   string
	prefix string // of the subjects of keys
	api    string // prefix of the JetStream API
	free   bool   // from Config.Unchecked
	marks  string // how the marks of this user's writes begin
	marked atomic.Uint64
}

// StreamConfig is the configuration of the bucket's stream.
func StreamConfig(cfg Config) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:                   "KV_" + cfg.Namespace,
		Description:            "Weft records: one job a key, changed by compare-and-set only",
		Subjects:               []string{"$KV." + cfg.Namespace + ".>"},
		Storage:                jetstream.FileStorage,
		Replicas:               cfg.Replicas,
		MaxMsgsPerSubject:      1,
		Discard:                jetstream.DiscardNew,
		MaxMsgs:                -1,
		MaxBytes:               -1,
		MaxMsgSize:             -1,
		MaxConsumers:           -1,
		AllowRollup:            true,
		DenyDelete:             true,
		AllowDirect:            false, // a direct get may be stale on three replicas
		AllowMsgTTL:            true,
		SubjectDeleteMarkerTTL: markerTTL,
		AllowAtomicPublish:     true,
		RePublish: &jetstream.RePublish{
			Source:      "$KV." + cfg.Namespace + ".job.>",
			Destination: cfg.Namespace + ".event.job.>",
		},
	}
}

// Open creates the bucket when it is absent and compares its settings when it is
// present; it fails with a *topology.DriftError when they differ. Writes go by the
// tower, which stays the caller's.
func Open(ctx context.Context, js jetstream.JetStream, tower *flight.Tower, cfg Config) (*Bucket, error) {
	stream, err := topology.EnsureStream(ctx, js, StreamConfig(cfg))
	if err != nil {
		return nil, err
	}
	watch, err := js.KeyValue(ctx, cfg.Namespace)
	if err != nil {
		return nil, fmt.Errorf("bucket %s: %w", cfg.Namespace, err)
	}
	return &Bucket{js: js, tower: tower, stream: stream, watch: watch, name: cfg.Namespace, prefix: "$KV." + cfg.Namespace + ".", api: cfg.APIPrefix, free: cfg.Unchecked, marks: nuid.Next() + "-"}, nil
}

// ServerTime asks the stream's leader for its clock.
func (b *Bucket) ServerTime(ctx context.Context) (time.Time, error) {
	info, err := b.stream.Info(ctx)
	if err != nil {
		return time.Time{}, fmt.Errorf("bucket %s: %w", b.name, err)
	}
	return info.TimeStamp, nil
}

package fabric

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weft-fabric/weft/internal/flight"
	"github.com/weft-fabric/weft/kv"
	"github.com/weft-fabric/weft/stream"
)

// Fabric is one process's way into the fabric. It is safe for concurrent use.
type Fabric struct {
	opts     Options
	log      *slog.Logger
	nc       *nats.Conn
	js       jetstream.JetStream
	tower    *flight.Tower
	bucket   *kv.Bucket
	queue    *stream.Queue
	clock    *clock
	stages   *stages
	shares   sync.Map // of *laneShares, by stage
	paces    sync.Map // of *pace, by stage
	gateways *gateways

	stop   context.CancelFunc
	closed sync.WaitGroup
}

// Open joins the fabric of a namespace over an existing connection, and creates
// its bucket when it is absent. Zero options take their defaults. It fails with
// a *ServerError when the server is too old or has no JetStream, and with a
// *topology.DriftError when a setting differs from what this version needs. The
// connection stays the caller's.
func Open(ctx context.Context, nc *nats.Conn, opts Options) (_ *Fabric, err error) {
	opts = opts.withDefaults()
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	if err := checkServer(nc); err != nil {
		return nil, err
	}
	js, api, err := jetStream(nc, opts.Domain)
	if err != nil {
		return nil, err
	}
	tower, err := flight.New(nc)
	if err != nil {
		return nil, explain(nc, err)
	}
	defer func() {
		if err != nil {
			tower.Close()
		}
	}()
	bucket, err := kv.Open(ctx, js, tower, kv.Config{Namespace: opts.Namespace, Replicas: opts.Replicas, APIPrefix: api, Unchecked: opts.Faults.NoRevisionCheck})
	if err != nil {
		return nil, explain(nc, err)
	}
	f := &Fabric{
		opts: opts, log: opts.Logger, nc: nc, js: js, tower: tower, bucket: bucket,
		queue:    stream.New(nc, js, tower, stream.Config{Namespace: opts.Namespace, Replicas: opts.Replicas, APIPrefix: api}),
		gateways: newGateways(),
		clock:    newClock(opts.Clock, bucket.ServerTime, opts.Logger),
	}
	f.stages = newStages(f)
	if err := f.clock.measure(ctx); err != nil {
		return nil, explain(nc, err)
	}
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	f.stop = stop
	f.closed.Go(func() { f.clock.run(background) })
	return f, nil
}

func jetStream(nc *nats.Conn, domain string) (js jetstream.JetStream, api string, err error) {
	if domain == "" {
		js, err = jetstream.New(nc)
		return js, strings.TrimSuffix(jetstream.DefaultAPIPrefix, "."), err
	}
	js, err = jetstream.NewWithDomain(nc, domain)
	return js, "$JS." + domain + ".API", err
}

// Close ends what Open started. The connection stays open.
func (f *Fabric) Close() {
	f.stop()
	f.closed.Wait()
	f.tower.Close()
}

// sharesOf is what this process has begun of a stage's lanes.
func (f *Fabric) sharesOf(stage string) *laneShares {
	shares, _ := f.shares.LoadOrStore(stage, &laneShares{})
	return shares.(*laneShares)
}

// Now is the server's clock, as far as this process knows it, in whole
// milliseconds, the record's grain.
func (f *Fabric) Now() time.Time { return f.clock.now() }

// ServerError means that the server cannot carry a fabric.
type ServerError struct {
	URL    string
	Reason string
	Err    error
}

// Error is one line that names the server and what is the matter with it.
func (e *ServerError) Error() string {
	text := "server " + e.URL + " " + e.Reason
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Unwrap gives the client's error.
func (e *ServerError) Unwrap() error { return e.Err }

// minServer is the oldest server whose streams can do what the fabric needs:
// atomic batches and schedules. minCronServer is the oldest that repeats schedules.
var (
	minServer     = [2]int{2, 12}
	minCronServer = [2]int{2, 14}
)

func checkServer(nc *nats.Conn) error {
	version := nc.ConnectedServerVersion()
	if version == "" {
		return &ServerError{URL: nc.Opts.Url, Reason: "is not connected"}
	}
	return checkVersion(nc.ConnectedUrlRedacted(), version, minServer, "Weft")
}

// checkVersion refuses a server that is too old for what needs it.
func checkVersion(url, version string, oldest [2]int, what string) error {
	var major, minor int
	if _, err := fmt.Sscanf(version, "%d.%d", &major, &minor); err != nil {
		return &ServerError{URL: url, Reason: "tells its version as " + strconv.Quote(version)}
	}
	if major < oldest[0] || major == oldest[0] && minor < oldest[1] {
		return &ServerError{
			URL:    url,
			Reason: fmt.Sprintf("is nats-server %s; %s needs %d.%d or newer", version, what, oldest[0], oldest[1]),
		}
	}
	return nil
}

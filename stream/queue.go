package stream

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weft-fabric/weft/internal/flight"
	"github.com/weft-fabric/weft/internal/topology"
	"github.com/weft-fabric/weft/job"
)

// Config says which fabric's work streams.
type Config struct {
	Namespace string
	Replicas  int    // of a stage's stream, when it is created here
	APIPrefix string // of the JetStream API, "$JS.API" unless in another domain
}

// Settings are a stage's own, the same for every worker.
type Settings struct {
	Lease       time.Duration // ack-wait of its consumers
	Concurrency int           // jobs of the stage that may run at once; 0 is no limit
	Lanes       []int         // lanes in use besides the default one
	Paused      bool          // its consumers deliver nothing
}

// lanes are all lanes in use.
func (s Settings) lanes() []int { return append([]int{job.DefaultPriority}, s.Lanes...) }

// maxWaiting is how many pull requests one consumer keeps. Each worker has one
// or a few at a time, so this bounds the workers of a stage.
const maxWaiting = 16384

// Queue is the work streams of one fabric. It is safe for concurrent use.
type Queue struct {
	nc       *nats.Conn
	js       jetstream.JetStream
	tower    *flight.Tower
	names    names
	replicas int
	api      string

	mu   sync.Mutex
	seen map[string]bool // guarded by mu: stages whose stream was there, and lanes whose consumer was
}

// New makes the queue's value; nothing is created before Ensure. Items go by the
// tower, which stays the caller's.
func New(nc *nats.Conn, js jetstream.JetStream, tower *flight.Tower, cfg Config) *Queue {
	return &Queue{nc: nc, js: js, tower: tower, names: names{cfg.Namespace}, replicas: cfg.Replicas, api: cfg.APIPrefix, seen: map[string]bool{}}
}

// StreamConfig is the configuration of a stage's work stream.
func (q *Queue) StreamConfig(stage string) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:              q.names.stream(stage),
		Description:       "Weft work of stage " + stage + ": an item says that a job may be ready",
		Subjects:          q.names.subjects(stage),
		Storage:           jetstream.FileStorage,
		Replicas:          q.replicas,
		Retention:         jetstream.WorkQueuePolicy,
		Discard:           jetstream.DiscardOld, // schedules exclude discard new
		MaxMsgsPerSubject: 1,
		MaxMsgs:           -1,
		MaxBytes:          -1,
		MaxMsgSize:        -1,
		MaxConsumers:      -1,
		AllowRollup:       true, // schedules force it on
		AllowMsgSchedules: true,
	}
}

// ConsumerConfig is the configuration of a lane's consumer.
func (q *Queue) ConsumerConfig(stage string, lane int, s Settings) jetstream.ConsumerConfig {
	pending := s.Concurrency
	if pending <= 0 {
		pending = -1
	}
	return jetstream.ConsumerConfig{
		Durable:       consumer(lane),
		Description:   "Weft runners of stage " + stage,
		FilterSubject: q.names.item(stage, lane, "*"),
		AckPolicy:     jetstream.AckExplicitPolicy,
		AckWait:       s.Lease,
		MaxDeliver:    -1, // attempts are counted by the record alone
		MaxAckPending: pending,
		MaxWaiting:    maxWaiting,
		PauseUntil:    pauseUntil(s.Paused),
	}
}

// Ensure creates the stage's stream and consumers when they are absent and
// compares them when they are present; it fails with a *topology.DriftError that
// names every setting that differs.
func (q *Queue) Ensure(ctx context.Context, stage string, s Settings) error {
	if err := q.awaitRemoval(ctx, stage); err != nil {
		return err
	}
	var drifts []topology.Drift
	st, err := topology.EnsureStream(ctx, q.js, q.StreamConfig(stage))
	if err = collect(&drifts, err); err != nil {
		return err
	}
	q.see(stage)
	for _, lane := range s.lanes() {
		if err := q.awaitConsumerRemoval(ctx, st, stage, lane); err != nil {
			return err
		}
		_, err := topology.EnsureConsumer(ctx, st, q.ConsumerConfig(stage, lane, s))
		if err = collect(&drifts, err); err != nil {
			return err
		}
		q.see(laneKey(stage, lane))
	}
	if len(drifts) > 0 {
		return &topology.DriftError{Drifts: drifts}
	}
	return nil
}

// removalWait is how long a server may be busy removing the files of a stream or a
// consumer that is gone. Made anew within that time, it can lose its folder with
// the old one's (nats-server 2.15.2): a stream then never answers a publish again
// (one of 17 times), a consumer can not be changed until the server is restarted.
const removalWait = time.Second

// awaitRemoval waits if a stream that was there has been deleted.
func (q *Queue) awaitRemoval(ctx context.Context, stage string) error {
	if !q.saw(stage) {
		return nil
	}
	if _, err := q.js.Stream(ctx, q.names.stream(stage)); !errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil // the call that follows says what else is wrong
	}
	return awaitFiles(ctx, stage)
}

// awaitConsumerRemoval waits if a lane's consumer that was there has been deleted.
func (q *Queue) awaitConsumerRemoval(ctx context.Context, st jetstream.Stream, stage string, lane int) error {
	if !q.saw(laneKey(stage, lane)) {
		return nil
	}
	if _, err := st.Consumer(ctx, consumer(lane)); !errors.Is(err, jetstream.ErrConsumerNotFound) {
		return nil // likewise
	}
	return awaitFiles(ctx, stage)
}

func awaitFiles(ctx context.Context, stage string) error {
	select {
	case <-ctx.Done():
		return fmt.Errorf("stage %s: its stream or its consumer is gone: %w", stage, ctx.Err())
	case <-time.After(removalWait):
		return nil
	}
}

func laneKey(stage string, lane int) string { return fmt.Sprintf("%s %d", stage, lane) }

func (q *Queue) see(what string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.seen[what] = true
}

func (q *Queue) saw(what string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.seen[what]
}

// collect takes the drifts out of err, and gives back any other error.
func collect(drifts *[]topology.Drift, err error) error {
	drift, ok := errors.AsType[*topology.DriftError](err)
	if !ok {
		return err
	}
	*drifts = append(*drifts, drift.Drifts...)
	return nil
}

// Check compares as Ensure does and creates nothing.
func (q *Queue) Check(ctx context.Context, stage string, s Settings) error {
	var drifts []topology.Drift
	st, err := topology.CheckStream(ctx, q.js, q.StreamConfig(stage))
	if err = collect(&drifts, err); err != nil {
		return err
	}
	for _, lane := range s.lanes() {
		if st == nil {
			break
		}
		if err := collect(&drifts, topology.CheckConsumer(ctx, st, q.ConsumerConfig(stage, lane, s))); err != nil {
			return err
		}
	}
	if len(drifts) > 0 {
		return &topology.DriftError{Drifts: drifts}
	}
	return nil
}

// Repair creates what is absent and sets right what differs.
func (q *Queue) Repair(ctx context.Context, stage string, s Settings) error {
	if err := topology.RepairStream(ctx, q.js, q.StreamConfig(stage)); err != nil {
		return err
	}
	st, err := q.js.Stream(ctx, q.names.stream(stage))
	if err != nil {
		return err
	}
	for _, lane := range s.lanes() {
		if err := topology.RepairConsumer(ctx, st, q.ConsumerConfig(stage, lane, s)); err != nil {
			return err
		}
	}
	return nil
}

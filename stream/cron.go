package stream

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weft-fabric/weft/internal/topology"
)

// A cron entry is one message in a stream of its own, a schedule that the server
// fires again and again. What it fires is a tick: a message on the entry's other
// subject, where the next one takes the place of one that nobody has consumed.
// Both are empty. What is to be done stands elsewhere, so neither can grow too
// large to be fired, which would stop a schedule for good.

// Headers of a schedule of a cron entry. The server takes its own off a tick and
// leaves these, so that a tick says by what it was fired.
const (
	cronExpressionHeader = "Weft-Schedule"
	cronZoneHeader       = "Weft-Time-Zone"

	zoneHeader = "Nats-Schedule-Time-Zone"
	nextHeader = "Nats-Schedule-Next"
)

// ErrBadCron means that the server does not take a schedule or its time zone.
var ErrBadCron = errors.New("the server refuses the schedule")

// Server codes of ErrBadCron.
const (
	codeSchedulePattern jetstream.ErrorCode = 10189
	codeScheduleZone    jetstream.ErrorCode = 10223
)

// cronConsumer is the durable consumer of all ticks.
const cronConsumer = "keeper"

// tickWait is how long a tick that was handed to a keeper waits for its end
// before it is handed out again.
const tickWait = 15 * time.Second

// Cron is when an entry fires, as the server is told.
type Cron struct {
	Name       string
	Expression string // in the server's form
	Zone       string // empty is UTC, and all there is for what is no cron expression
}

// CronSchedule is an entry's schedule as the server has it.
type CronSchedule struct {
	Cron
	Stored time.Time
	There  bool // false if there is none
	Ticked bool // a tick waits to be consumed
}

func (n names) cronStream() string      { return strings.ToUpper(n.namespace) + "_CRON" }
func (n names) cron(name string) string { return n.namespace + ".cron." + name }
func (n names) tick(name string) string { return n.namespace + ".tick." + name }

// CronStreamConfig is the configuration of the stream of cron entries.
func (q *Queue) CronStreamConfig() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:              q.names.cronStream(),
		Description:       "Weft cron entries: a schedule for each, and its last tick until it is a job",
		Subjects:          []string{q.names.cron("*"), q.names.tick("*")},
		Storage:           jetstream.FileStorage,
		Replicas:          q.replicas,
		Retention:         jetstream.WorkQueuePolicy, // nobody consumes schedules, so they stay
		Discard:           jetstream.DiscardOld,
		MaxMsgsPerSubject: 1, // ticks of one entry fold into the latest
		MaxMsgs:           -1,
		MaxBytes:          -1,
		MaxMsgSize:        -1,
		MaxConsumers:      -1,
		AllowRollup:       true, // schedules force it on
		AllowMsgSchedules: true,
	}
}

// CronConsumerConfig is the configuration of the consumer of ticks. Its pending
// ticks are not limited: those that wait to be tried again must not hold up others.
func (q *Queue) CronConsumerConfig() jetstream.ConsumerConfig {
	return jetstream.ConsumerConfig{
		Durable:       cronConsumer,
		Description:   "Weft keeper: turns ticks into jobs",
		FilterSubject: q.names.tick("*"),
		AckPolicy:     jetstream.AckExplicitPolicy,
		AckWait:       tickWait,
		MaxDeliver:    -1,
		MaxAckPending: -1,
	}
}

// EnsureCron creates the stream of cron entries and its consumer when they are
// absent and compares them when they are present, as Ensure does for a stage.
func (q *Queue) EnsureCron(ctx context.Context) error {
	var drifts []topology.Drift
	st, err := topology.EnsureStream(ctx, q.js, q.CronStreamConfig())
	if err = collect(&drifts, err); err != nil {
		return err
	}
	_, err = topology.EnsureConsumer(ctx, st, q.CronConsumerConfig())
	if err = collect(&drifts, err); err != nil {
		return err
	}
	if len(drifts) > 0 {
		return &topology.DriftError{Drifts: drifts}
	}
	return nil
}

// RepairCron creates what is absent and sets right what differs.
func (q *Queue) RepairCron(ctx context.Context) error {
	if err := topology.RepairStream(ctx, q.js, q.CronStreamConfig()); err != nil {
		return err
	}
	st, err := q.js.Stream(ctx, q.names.cronStream())
	if err != nil {
		return err
	}
	return topology.RepairConsumer(ctx, st, q.CronConsumerConfig())
}

// SetCron publishes an entry's schedule in place of the one that is there. It
// fails with ErrBadCron, and with ErrNoStream before EnsureCron.
func (q *Queue) SetCron(ctx context.Context, c Cron) error {
	msg := nats.NewMsg(q.names.cron(c.Name))
	msg.Header.Set(scheduleHeader, c.Expression)
	msg.Header.Set(targetHeader, q.names.tick(c.Name))
	msg.Header.Set(cronExpressionHeader, c.Expression)
	if c.Zone != "" {
		msg.Header.Set(zoneHeader, c.Zone)
		msg.Header.Set(cronZoneHeader, c.Zone)
	}
	err := q.publish(ctx, msg)
	api, _ := errors.AsType[*jetstream.APIError](err)
	switch {
	case api == nil:
		return err
	case api.ErrorCode == codeScheduleZone:
		return fmt.Errorf("%w: it does not know the time zone %q: %w", ErrBadCron, c.Zone, err)
	case api.ErrorCode == codeSchedulePattern:
		return fmt.Errorf("%w: %w", ErrBadCron, err)
	}
	return err
}

// RemoveCron removes an entry's schedule, and its tick if one waits. It goes by
// sequences, as Withdraw does.
func (q *Queue) RemoveCron(ctx context.Context, name string) error {
	st, err := q.js.Stream(ctx, q.names.cronStream())
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("remove schedule %s: %w", name, err)
	}
	for _, subject := range []string{q.names.cron(name), q.names.tick(name)} {
		if err := remove(ctx, st, subject); err != nil {
			return fmt.Errorf("remove schedule %s: %w", name, err)
		}
	}
	return nil
}

// Cron reads an entry's schedule. Without the stream there is none.
func (q *Queue) Cron(ctx context.Context, name string) (s CronSchedule, err error) {
	s.Name = name
	st, err := q.js.Stream(ctx, q.names.cronStream())
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return s, nil
	}
	if err != nil {
		return s, fmt.Errorf("schedule %s: %w", name, err)
	}
	msg, err := st.GetLastMsgForSubject(ctx, q.names.cron(name))
	switch {
	case err == nil:
		s.There, s.Stored = true, msg.Time
		s.Expression, s.Zone = msg.Header.Get(scheduleHeader), msg.Header.Get(zoneHeader)
	case !errors.Is(err, jetstream.ErrMsgNotFound):
		return s, fmt.Errorf("schedule %s: %w", name, err)
	}
	_, err = st.GetLastMsgForSubject(ctx, q.names.tick(name))
	if s.Ticked = err == nil; errors.Is(err, jetstream.ErrMsgNotFound) {
		err = nil
	}
	return s, err
}

// CronNames lists the entries that have a schedule. It fails with ErrNoStream
// when no entry was ever made.
func (q *Queue) CronNames(ctx context.Context) (names []string, err error) {
	st, err := q.js.Stream(ctx, q.names.cronStream())
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, ErrNoStream
	}
	if err != nil {
		return nil, fmt.Errorf("schedules: %w", err)
	}
	info, err := st.Info(ctx, jetstream.WithSubjectFilter(q.names.cron("*")))
	if err != nil {
		return nil, fmt.Errorf("schedules: %w", err)
	}
	for subject := range info.State.Subjects {
		names = append(names, lastToken(subject))
	}
	return names, nil
}

// Tick says that an entry's time has come.
type Tick struct {
	Cron             // by what it was fired
	Stored time.Time // when, on the server's clock
	Next   time.Time // when the same schedule fires next; zero if never
	msg    jetstream.Msg
}

// Ticks hands out ticks as they come, until wait is over or ctx ends. Each is to
// be ended by Done or Later; otherwise it comes again, unless a later tick of its
// entry has taken its place. It fails with ErrNoStream when no entry was ever made.
func (q *Queue) Ticks(ctx context.Context, wait time.Duration, give func(Tick)) error {
	c, err := q.js.Consumer(ctx, q.names.cronStream(), cronConsumer)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return ErrNoStream
	}
	if errors.Is(err, jetstream.ErrConsumerNotFound) { // somebody has deleted it
		if err := q.EnsureCron(ctx); err != nil {
			return err
		}
		c, err = q.js.Consumer(ctx, q.names.cronStream(), cronConsumer)
	}
	if err != nil {
		return fmt.Errorf("ticks: %w", err)
	}
	asking, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	batch, err := c.Fetch(ticksAsked, jetstream.FetchContext(asking), jetstream.FetchHeartbeat(wait/tickBeats))
	if err != nil {
		return fmt.Errorf("ticks: %w", err)
	}
	for msg := range batch.Messages() {
		t, err := q.tickOf(msg)
		if err != nil {
			return err
		}
		give(t)
	}
	if err := batch.Error(); err != nil && asking.Err() == nil {
		return fmt.Errorf("ticks: %w", err)
	}
	return nil
}

const (
	// ticksAsked is how many ticks one question takes at most.
	ticksAsked = 256
	// tickBeats is how often the server says that a question still stands. Two
	// silent beats mean that it was lost.
	tickBeats = 5
)

func (q *Queue) tickOf(msg jetstream.Msg) (Tick, error) {
	meta, err := msg.Metadata()
	if err != nil {
		return Tick{}, fmt.Errorf("tick on %s: %w", msg.Subject(), err)
	}
	h := msg.Headers()
	next, err := time.Parse(time.RFC3339Nano, h.Get(nextHeader))
	if err != nil {
		next = time.Time{} // the server says that it was the last one
	}
	return Tick{
		Cron:   Cron{Name: lastToken(msg.Subject()), Expression: h.Get(cronExpressionHeader), Zone: h.Get(cronZoneHeader)},
		Stored: meta.Timestamp, Next: next, msg: msg,
	}, nil
}

// Done ends a tick. It returns once the server has removed it.
func (t Tick) Done(ctx context.Context) error { return t.msg.DoubleAck(ctx) }

// Later has a tick handed out again after a delay.
func (t Tick) Later(delay time.Duration) error { return t.msg.NakWithDelay(delay) }

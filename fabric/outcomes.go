package fabric

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/weft-fabric/weft/job"
	"github.com/weft-fabric/weft/kv"
)

// Outcome is a job that has ended: succeeded, failed or cancelled.
type Outcome struct {
	Job job.Job
	// Revision is that of the job's record. A record that has ended changes no more,
	// unless somebody retries the job, so an outcome that comes again has the same
	// one. Of two outcomes of a job, the one with the greater revision is the later.
	Revision uint64
	// Deliveries is how often this outcome was given since the feed's consumer exists.
	Deliveries uint64
}

// ID is what makes an outcome the same as another: the job's id and the revision of
// its record. The fence would not do, as a failed job that is retried and then
// cancelled ends twice with one.
func (o Outcome) ID() string { return o.Job.ID + "/" + strconv.FormatUint(o.Revision, 10) }

// OutcomeHandler lands one outcome, and returns nil once that cannot be lost any
// more. An outcome whose handler returned an error, or panicked, comes again, later
// and later up to every 5 min. Its context ends with that of Outcomes.
type OutcomeHandler func(ctx context.Context, o Outcome) error

// Bounds and defaults of a feed.
const (
	MinAckWait     = time.Second
	MaxAckWait     = time.Hour
	DefaultAckWait = 30 * time.Second
	// MaxOutcomeHandlers is how many handlers of one call of Outcomes may run at once.
	MaxOutcomeHandlers = 256
)

// OutcomeOption changes what Outcomes does.
type OutcomeOption func(*outcomeOptions)

type outcomeOptions struct {
	filter      Filter
	asMade      bool
	fromNow     bool
	ackWait     time.Duration // 0 is the feed's own
	concurrency int
}

// OnlyOutcomes gives the handler the outcomes that match alone: by stage, states, key
// and labels. The filter is the feed's, so all who take of it must give the same.
func OnlyOutcomes(filter Filter) OutcomeOption {
	return func(o *outcomeOptions) { o.filter = filter }
}

// AsMade takes of a feed that is there with the filter that it has, whichever that
// is. It is for who looks on: a backend says by OnlyOutcomes what it counts on.
func AsMade() OutcomeOption { return func(o *outcomeOptions) { o.asMade = true } }

// FromNow has a feed that is made by this call begin with the jobs that end from now
// on. Without it, it begins with all whose records are still kept. Of a feed that is
// there it changes nothing.
func FromNow() OutcomeOption { return func(o *outcomeOptions) { o.fromNow = true } }

// OutcomeAckWait is how soon an outcome comes again that was given to a process that
// died: 30 s unless said otherwise when the feed is made. While a handler runs the
// server is told so, however long it takes.
func OutcomeAckWait(d time.Duration) OutcomeOption {
	return func(o *outcomeOptions) { o.ackWait = d }
}

// OutcomeHandlers is how many handlers run at once, 1 if not said. With 1, outcomes
// that come for the first time come in the order in which the jobs have ended.
func OutcomeHandlers(n int) OutcomeOption { return func(o *outcomeOptions) { o.concurrency = n } }

func (o outcomeOptions) check() error {
	switch {
	case o.filter.Limit != 0 || o.filter.After != 0:
		return job.Invalid("a filter of outcomes has no limit and no cursor: the feed keeps its place")
	case slices.ContainsFunc(o.filter.States, func(s job.State) bool { return !s.Terminal() }):
		return job.Invalid("outcomes with states %v; give succeeded, failed or cancelled", o.filter.States)
	case o.ackWait != 0 && (o.ackWait < MinAckWait || o.ackWait > MaxAckWait):
		return job.Invalid("ack-wait %s is not within %s and %s", o.ackWait, MinAckWait, MaxAckWait)
	case o.concurrency < 1 || o.concurrency > MaxOutcomeHandlers:
		return job.Invalid("%d handlers of outcomes are not within 1 and %d", o.concurrency, MaxOutcomeHandlers)
	}
	if o.filter.Stage != "" {
		return job.CheckStage(o.filter.Stage)
	}
	return nil
}

// settings are those of a feed that suits the options.
func (o outcomeOptions) settings(name string) FeedSettings {
	filter := o.filter
	filter.States = slices.Clone(filter.States)
	slices.Sort(filter.States)
	filter.States = slices.Compact(filter.States)
	return FeedSettings{Name: name, Filter: filter, AckWait: o.ackWait}
}

// Outcomes gives the handler every job that ends, at least once, until ctx ends; it
// returns ctx's cause then, once all handlers have returned. The name says whose feed
// it is: the server keeps its place while nobody takes of it, and several processes
// that take of one name share what comes.
//
// What was not acknowledged comes again, so a handler must know an outcome that it
// has seen, by its ID. Of a job that ended, was retried by an operator and ended
// again there are two outcomes; the first is not given any more once the job was
// retried. What ended and expired while nobody took of the feed is lost to it, so the
// retention of records is how long a backend may be away.
//
// It outlives a server's restart and a change of leader. A consumer that somebody has
// deleted is made anew and begins where the feed began, so that what is kept comes
// again; that is logged. It fails with job.ErrInvalidJob, a *FeedConflict, a
// *topology.DriftError, and with ErrMissingFeed when the feed is removed meanwhile.
func (f *Fabric) Outcomes(ctx context.Context, name string, handle OutcomeHandler, opts ...OutcomeOption) error {
	o := outcomeOptions{concurrency: 1}
	for _, opt := range opts {
		opt(&o)
	}
	err := CheckFeedName(name)
	if err == nil {
		err = o.check()
	}
	if err != nil {
		return err
	}
	settings, feed, err := f.openFeedInTime(ctx, o.settings(name), o)
	if err != nil {
		return ofFeed(name, explain(f.nc, err))
	}
	l := newLanding(f, settings, handle, o.concurrency)
	defer l.close()
	l.start(ctx)
	if err := l.run(ctx, feed); err != nil {
		return ofFeed(name, explain(f.nc, err))
	}
	return context.Cause(ctx)
}

// passes tells whether a record is an outcome that the feed is for. What is not is
// acknowledged at once: a job that has not ended comes again when it has.
func (l *landing) passes(d *kv.Delivery) (Outcome, bool) {
	if d.Marker {
		return Outcome{}, false
	}
	if peeked, err := job.Peek(d.Value); err == nil && (!peeked.State.Terminal() || !l.settings.Filter.matchesPeeked(peeked)) {
		return Outcome{}, false
	}
	j, err := decode(d.Entry)
	if err != nil { // repaired, it is another change
		l.log.Error("record cannot be read, it is no outcome until a person has repaired it", "error", err)
		return Outcome{}, false
	}
	return Outcome{j, d.Revision, d.Deliveries}, l.settings.Filter.Match(j)
}

// errHandlerPanicked marks the error of a handler that panicked.
var errHandlerPanicked = errors.New("the handler panicked")

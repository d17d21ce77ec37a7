package history

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/weft-fabric/weft/fabric"
	"github.com/weft-fabric/weft/job"
)

// world is what the roles of one round share.
type world struct {
	cfg       Config
	namespace string
	urls      []string // of the servers, through the proxies
	replicas  int
	servers   *servers  // nil in a worker process
	up        *reporter // to the parent of a worker process; nil in the parent
	log       *Log
	feed      *feed
	acks      *acks
	calm      atomic.Bool // the chaos is over: everybody does their best
	figures   figures
	final     map[string]string // each job's last record, by id; written once by the drain

	mu    sync.Mutex
	known []job.Spec // guarded by mu: accepted jobs
}

// member is one client process: a connection and a fabric with a clock of its own.
type member struct {
	nc *nats.Conn
	f  *fabric.Fabric
}

// join connects a client through the proxies. It tries until ctx ends.
func (w *world) join(ctx context.Context, skew time.Duration) (*member, error) {
	return w.joinAt(ctx, w.urls, skew)
}

func (w *world) joinAt(ctx context.Context, urls []string, skew time.Duration) (*member, error) {
	for {
		m, err := w.tryJoin(ctx, urls, skew)
		if err == nil {
			return m, nil
		}
		if pause(ctx, 100*time.Millisecond) != nil {
			return nil, errors.Join(ctx.Err(), err)
		}
	}
}

func (w *world) tryJoin(ctx context.Context, urls []string, skew time.Duration) (*member, error) {
	opts := nats.GetDefaultOptions()
	opts.Servers = urls
	opts.MaxReconnect = -1
	opts.ReconnectWait = 50 * time.Millisecond
	opts.Timeout = time.Second
	opts.PingInterval = time.Second
	opts.MaxPingsOut = 2
	opts.IgnoreDiscoveredServers = true
	opts.AsyncErrorCB = ignore
	nc, err := opts.Connect()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, joinLimit)
	defer cancel()
	f, err := fabric.Open(ctx, nc, w.options(skew))
	if err != nil {
		nc.Close()
		return nil, err
	}
	return &member{nc: nc, f: f}, nil
}

func (w *world) options(skew time.Duration) fabric.Options {
	opts := fabric.DefaultOptions()
	opts.Namespace = w.namespace
	opts.Replicas = w.replicas
	opts.Backoff = backoff
	opts.Stage.Lease = lease
	opts.Clock = func() time.Time { return time.Now().Add(skew) }
	opts.Faults = w.cfg.Faults
	opts.Logger = w.cfg.Logger
	return opts
}

// leave closes the client's fabric and connection. To die is to leave without
// having ended what it was doing.
func (m *member) leave() {
	m.nc.Close()
	m.f.Close()
}

// resultOf is what an error tells a client.
func resultOf(err error) string {
	if err == nil {
		return OK
	}
	if refused, ok := errors.AsType[*job.Error](err); ok {
		return string(refused.Code)
	}
	return Unknown
}

// call bounds one call of a client. It does not end with the client's loop, so
// that what was begun gets its answer.
func call() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), callLimit)
}

// pause waits, and returns ctx's error if that ends first.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// begin announces an operation, so that it is known of even if this process is
// killed during it.
func (w *world) begin(op Op) {
	if w.up != nil {
		w.up.tell(report{Began: &op})
	}
}

// note writes down an operation that ends now.
func (w *world) note(op Op) {
	op.Return = w.log.now()
	if w.up != nil {
		w.up.tell(report{Ended: &op})
		return
	}
	w.keep(op)
}

func (w *world) keep(op Op) {
	w.figures.count(op)
	w.log.add(op)
}

// count counts one of what happened, where the figures are.
func (w *world) count(what string) {
	if w.up != nil {
		w.up.tell(report{Counted: what})
		return
	}
	w.figures.add(what, 1)
}

// learn remembers an accepted job for others to work on.
func (w *world) learn(spec job.Spec) {
	w.log.accepted(spec.ID)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.known = append(w.known, spec)
}

// accepted counts the jobs that were learnt.
func (w *world) accepted() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.known)
}

// recent is how many jobs back an operator or the chaos looks for its next.
const recent = 60

// pick gives one of the jobs that were accepted last.
func (w *world) pick(n int) (job.Spec, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.known) == 0 {
		return job.Spec{}, false
	}
	span := min(recent, len(w.known))
	return w.known[len(w.known)-1-n%span], true
}

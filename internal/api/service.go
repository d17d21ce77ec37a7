package api

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/weft-fabric/weft/fabric"
	"github.com/weft-fabric/weft/stream"
)

const (
	// callLimit bounds a request that does not wait for anything: a write that
	// stays undecided is given up then, with the code unavailable.
	callLimit = 10 * time.Second
	// maxCalls is how many requests of one verb an instance works on at once;
	// more stay in its queue.
	maxCalls = 256
	// maxWaits is how many requests that wait an instance holds at once, of one
	// verb; more are refused with the code busy.
	maxWaits = 4096
	// sweepEvery is how often runners are looked at that have fallen silent.
	sweepEvery = 5 * time.Second
	// idleAfter is how long a worker without claims is silent before what is kept
	// for it goes.
	idleAfter = time.Minute
)

// Options say what an instance is.
type Options struct {
	Namespace string       // the fabric's
	Version   string       // of the program; one that is no semantic version shows as 0.0.0
	Logger    *slog.Logger // nil discards

	idle, sweep time.Duration // idleAfter and sweepEvery, unless a test says otherwise
}

// Service is a running instance of the API.
type Service struct {
	f      *fabric.Fabric
	nc     *nats.Conn
	log    *slog.Logger
	micro  micro.Service
	verbs  map[string]*verb
	seats  *seats
	strays *strays

	endWaits context.CancelFunc // ends the requests that wait
	endCalls context.CancelFunc // ends all that runs

	mu       sync.Mutex
	stopping bool           // guarded by mu
	running  sync.WaitGroup // Go is called with mu held, and not once stopping is set
}

// Start makes an instance that answers until Stop. The connection and the fabric
// stay the caller's, and must outlive it.
func Start(nc *nats.Conn, f *fabric.Fabric, o Options) (*Service, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	fill(&o.idle, idleAfter)
	fill(&o.sweep, sweepEvery)
	s := &Service{f: f, nc: nc, log: o.Logger, seats: newSeats(f, o.idle)}
	calls, endCalls := context.WithCancel(context.Background())
	waits, endWaits := context.WithCancel(calls)
	s.endCalls, s.endWaits = endCalls, endWaits
	err := s.listen(calls, waits, o)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("service API: %w", err), s.Stop(calls))
	}
	s.running.Go(func() { s.sweep(waits, o.sweep) })
	return s, nil
}

func fill(value *time.Duration, fallback time.Duration) {
	if *value == 0 {
		*value = fallback
	}
}

// semVer is the form that the service protocol demands of a version.
var semVer = regexp.MustCompile(`^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)` +
	`(-((0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)(\.(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*))?(\+([0-9a-zA-Z-]+(\.[0-9a-zA-Z-]+)*))?$`)

// listen registers the service and its endpoints. Once it is known, requests come.
func (s *Service) listen(calls, waits context.Context, o Options) (err error) {
	if s.strays, err = newStrays(s.nc, func(undo func()) { s.start(undo) }); err != nil {
		return err
	}
	s.verbs = s.newVerbs()
	version := strings.TrimPrefix(o.Version, "v")
	if !semVer.MatchString(version) {
		version = "0.0.0"
	}
	s.micro, err = micro.AddService(s.nc, micro.Config{
		Name: o.Namespace, Version: version,
		Description:  "Weft: enqueue jobs and read them, claim them and settle them",
		Metadata:     map[string]string{"weft.version": o.Version, "weft.namespace": o.Namespace},
		StatsHandler: func(e *micro.Endpoint) any { return s.verbs[e.Name].counts() },
	})
	if err != nil {
		return err
	}
	group := s.micro.AddGroup(o.Namespace + ".api")
	for _, name := range verbNames {
		v, ctx := s.verbs[name], calls
		if v.waits {
			ctx = waits
		}
		if err := group.AddEndpoint(name, s.handler(ctx, v), micro.WithEndpointMetadata(metadata(name))); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return s.nc.Flush()
}

// ID names the instance, as the service protocol shows it.
func (s *Service) ID() string { return s.micro.Info().ID }

// Stop ends the instance: it takes no more requests, answers at once those that
// wait, gives back the claims that were not handed out, and lets the others end
// until ctx does. Stopping again does nothing.
func (s *Service) Stop(ctx context.Context) error {
	s.mu.Lock()
	again := s.stopping
	s.stopping = true
	s.mu.Unlock()
	if again {
		return nil
	}
	var errs []error
	if s.micro != nil {
		errs = append(errs, s.micro.Stop())
	}
	s.endWaits()
	late := context.AfterFunc(ctx, s.endCalls)
	s.running.Wait()
	late()
	s.endCalls()
	if s.strays != nil {
		errs = append(errs, s.strays.stop())
	}
	errs = append(errs, s.seats.close())
	if s.nc.IsConnected() {
		errs = append(errs, s.nc.FlushTimeout(callLimit)) // the last answers
	}
	return errors.Join(errs...)
}

// start runs a part of the service until it ends; false once the service stops.
func (s *Service) start(part func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.stopping {
		s.running.Go(part)
	}
	return !s.stopping
}

// sweep lets go of what nobody asks for any more, until ctx ends.
func (s *Service) sweep(ctx context.Context, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			s.strays.sweep()
			if err := s.seats.sweep(); err != nil {
				s.log.Debug("runner of a silent worker not closed", "error", err)
			}
		}
	}
}

// handler takes the requests of a verb. Requests come one after the other, so
// each is worked on in a goroutine of its own.
func (s *Service) handler(ctx context.Context, v *verb) micro.HandlerFunc {
	return func(req micro.Request) {
		if !v.enter(ctx) {
			s.send(v, req, answer{}, v.full())
			return
		}
		begun := s.start(func() {
			defer v.leave()
			s.serve(ctx, v, req)
		})
		if !begun {
			v.leave()
			s.send(v, req, answer{}, errStopping)
		}
	}
}

func (s *Service) serve(ctx context.Context, v *verb, req micro.Request) {
	began := time.Now()
	limit := callLimit
	if v.waits {
		limit += maxWait
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	a, err := v.run(withTrace(ctx, stream.TraceOf(req.Headers().Get)), req.Data())
	s.send(v, req, a, err)
	v.count(time.Since(began), err)
}

// send answers a request. The service library's own answer may not be given from
// another goroutine than its handler's, since it notes errors without a lock.
func (s *Service) send(v *verb, req micro.Request, a answer, err error) {
	msg := nats.NewMsg(req.Reply())
	msg.Data = a.body
	if err != nil {
		f := failureOf(s.nc, err)
		if f.Code == codeInternal {
			s.log.Error("request failed", "verb", v.name, "error", err)
		}
		msg.Header.Set(micro.ErrorCodeHeader, f.Code)
		msg.Header.Set(micro.ErrorHeader, f.Message)
		msg.Data = f.body()
	}
	if req.Reply() == "" {
		a.revoke()
		return
	}
	if a.undo != nil {
		msg.Reply = s.strays.expect(a.undo)
	}
	if err := s.nc.PublishMsg(msg); err != nil {
		s.log.Warn("request not answered", "verb", v.name, "error", err)
		a.revoke()
	}
}

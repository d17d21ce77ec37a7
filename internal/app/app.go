package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/weft-fabric/weft/config"
	"github.com/weft-fabric/weft/fabric"
	"github.com/weft-fabric/weft/internal/api"
	"github.com/weft-fabric/weft/internal/embed"
	"github.com/weft-fabric/weft/internal/metrics"
	"github.com/weft-fabric/weft/internal/roles"
	"github.com/weft-fabric/weft/job"
	"github.com/weft-fabric/weft/tracing"
)

const (
	// openTimeout bounds the look at the fabric's streams, and their creation.
	openTimeout = 15 * time.Second
	// stopTimeout bounds the end of everything but the worker, whose drain has a
	// limit of its own.
	stopTimeout = 15 * time.Second
	// flushTimeout bounds how long the end of a process waits for a collector of
	// traces that does not answer.
	flushTimeout = 3 * time.Second
	// keeperPause is the wait before a keeper that failed starts again.
	keeperPause = time.Second
)

// Options say what the process is made of.
type Options struct {
	Config config.Config
	Logger *slog.Logger
	// Name is the connection's, as servers list it.
	Name string
	// Server, if not nil, embeds a server; else Config.Connection names one.
	Server *embed.Options
	// Keep runs the keeper beside everything else.
	Keep bool
	// API answers requests of backends and runners beside everything else.
	API bool
	// Version is the program's, as the API, the metrics and the traces tell it.
	Version string
	// Stages are those that the metrics show the state of; none are all.
	Stages []string
}

// App is a running process: a connection, the fabric, and maybe a server, a
// keeper and the service API.
type App struct {
	options  Options
	joining  fabric.Options // what the fabric is opened with
	cleanups cleanups
	server   *embed.Server
	conn     *nats.Conn
	refusals *Refusals
	fabric   *fabric.Fabric

	metrics    *metrics.Metrics // nil if none are served
	metricsURL string
	tracer     *tracing.Tracer           // nil if no traces are made
	connection atomic.Pointer[nats.Conn] // is conn, for those who ask before it is there
}

// Start brings the parts up. When it fails, none is left.
func Start(ctx context.Context, o Options) (_ *App, err error) {
	a := &App{options: o, joining: FabricOptions(o.Config, o.Logger)}
	if err := addSources(&a.joining, o.Config); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, a.Stop())
		}
	}()
	if err := a.trace(ctx); err != nil {
		return nil, err
	}
	if err := a.measure(); err != nil {
		return nil, err
	}
	if err := a.connect(ctx); err != nil {
		return nil, err
	}
	if err := a.open(ctx); err != nil {
		return nil, err
	}
	if o.Keep {
		a.keep()
	}
	if o.API {
		if err := a.answer(); err != nil {
			return nil, err
		}
	}
	return a, nil
}

// connect starts the embedded server if there is one, and connects.
func (a *App) connect(ctx context.Context) error {
	if a.options.Server == nil {
		nc, err := Connect(a.options.Config.Connection, a.options.Config.Namespace, a.options.Name, a.options.Logger)
		return a.connected(nc, err)
	}
	server := embed.New(*a.options.Server)
	if err := server.Start(ctx); err != nil {
		return err
	}
	a.server = server
	a.cleanups.add("the embedded server", server.Stop)
	options, err := credentials(a.options.Config.Connection)
	if err != nil {
		return err
	}
	options = append(options, inbox(a.options.Config.Connection, a.options.Config.Namespace)...)
	options = append(options, server.InProcess())
	options = append(options, lasting(a.options.Name, a.options.Logger)...)
	nc, err := nats.Connect("", options...)
	if errors.Is(err, nats.ErrAuthorization) {
		err = &ServerError{fmt.Errorf("the embedded server does not accept its own process; give --user, --creds or --nkey as its configuration has them: %w", err)}
	}
	return a.connected(nc, err)
}

func (a *App) connected(nc *nats.Conn, err error) error {
	if err != nil {
		return err
	}
	a.conn = nc
	a.connection.Store(nc)
	a.refusals = HearRefusals(nc, a.options.Config, a.options.Logger)
	a.cleanups.add("the connection", func(context.Context) error {
		nc.Close()
		return nil
	})
	return nil
}

func (a *App) open(ctx context.Context) error {
	ctx, end := a.refusals.Bound(ctx)
	defer end()
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	o := a.joining
	// Who keeps has to offer items and to make consumers, and so has the permission to.
	role := roles.Role(a.options.Config.Connection.Role)
	o.OfferBySchedule = role == roles.Runner && !a.options.Keep
	if a.metrics != nil {
		o.Observer = a.metrics
	}
	if a.tracer != nil {
		o.Tracer = a.tracer
	}
	o.LeavePauses = o.OfferBySchedule || role == roles.Backend
	f, err := fabric.Open(ctx, a.conn, o)
	if err != nil {
		return openError(a.conn, Refused(ctx, err))
	}
	a.fabric = f
	a.observe()
	a.cleanups.add("the fabric", func(context.Context) error {
		f.Close()
		return nil
	})
	return nil
}

// openError names a server that will not do, unless the fabric has done so.
func openError(nc *nats.Conn, err error) error {
	if _, named := errors.AsType[*fabric.ServerError](err); !named && unreachable(err) {
		return &ServerError{fmt.Errorf("server %s does not answer as a fabric needs it, which is nats-server 2.12 or newer with JetStream: %w", nc.ConnectedUrlRedacted(), err)}
	}
	return err
}

// FabricOptions translates the settings for the fabric.
func FabricOptions(c config.Config, log *slog.Logger) fabric.Options {
	o := fabric.DefaultOptions()
	o.Namespace = c.Namespace
	o.Replicas = c.Replicas
	o.Logger = log
	o.Backoff = job.Backoff{Initial: c.Backoff.Initial, Max: c.Backoff.Max, Factor: c.Backoff.Factor, Jitter: c.Backoff.Jitter}
	o.MaxAttempts = c.MaxAttempts
	o.MaxInput = c.MaxInput
	o.Stage.Lease = c.Lease
	o.Retention = fabric.Retention{Succeeded: c.Retention.Succeeded, Cancelled: c.Retention.Cancelled, Failed: c.Retention.Failed}
	return o
}

// Fabric is the fabric that the process is connected to.
func (a *App) Fabric() *fabric.Fabric { return a.fabric }

// Refusals hears what the server refuses this process.
func (a *App) Refusals() *Refusals { return a.refusals }

// Server is the embedded server, nil if there is none.
func (a *App) Server() *embed.Server { return a.server }

// keep runs the keeper until Stop. A keeper that fails is started again, since
// the fabric's promises rest on one that runs.
func (a *App) keep() {
	ctx, cancel := context.WithCancel(context.Background())
	var keeper sync.WaitGroup
	keeper.Go(func() {
		for {
			err := a.fabric.Keep(ctx)
			if ctx.Err() != nil {
				return
			}
			a.options.Logger.Error("keeper failed, starting it again", "error", err)
			pause(ctx, keeperPause)
		}
	})
	a.cleanups.add("the keeper", func(context.Context) error {
		cancel()
		keeper.Wait()
		return nil
	})
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// answer runs the service API until Stop.
func (a *App) answer() error {
	service, err := api.Start(a.conn, a.fabric, api.Options{
		Namespace: a.options.Config.Namespace, Version: a.options.Version, Logger: a.options.Logger,
	})
	if err != nil {
		return err
	}
	a.cleanups.add("the service API", service.Stop)
	return nil
}

// Stop takes everything down, the last part first. It may be called twice.
func (a *App) Stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	return a.cleanups.undo(ctx)
}

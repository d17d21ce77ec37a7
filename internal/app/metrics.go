package app

import (
	"context"
	"errors"
	"net"
	"strconv"

	"github.com/weft-fabric/weft/config"
	"github.com/weft-fabric/weft/fabric"
	"github.com/weft-fabric/weft/internal/metrics"
)

// measure begins to serve metrics if an address is given for them. It comes before
// everything else, so that an address that is taken is found out first.
func (a *App) measure() error {
	address := a.options.Config.Metrics
	if address == "" {
		return nil
	}
	host, port, err := config.SplitAddress("metrics", address)
	if err != nil {
		return &UsageError{err}
	}
	a.metrics = metrics.New(a.options.Version)
	server, err := a.metrics.Serve(net.JoinHostPort(host, strconv.Itoa(max(port, 0))), a.healthy, a.options.Logger)
	if err != nil {
		return err
	}
	a.metricsURL = server.URL()
	a.cleanups.add("the metrics", server.Stop)
	return nil
}

// healthy is why the process cannot do its part at the moment, or nil.
func (a *App) healthy() error {
	switch nc := a.connection.Load(); {
	case nc == nil:
		return errors.New("not connected yet")
	case !nc.IsConnected():
		return errors.New("not connected: " + nc.Status().String())
	}
	return nil
}

// observe makes the fabric tell what it does, and registers what is asked of it and
// of the connection at a scrape. A process that only works asks for its own stage.
func (a *App) observe() {
	if a.metrics == nil {
		return
	}
	nc, f, stages := a.conn, a.fabric, a.options.Stages
	a.metrics.Connection(nc.IsConnected, func() uint64 { return nc.Stats().Reconnects })
	a.metrics.Loads(func(ctx context.Context) (fabric.Loads, error) { return f.Loads(ctx, stages...) }, f.Now)
}

// MetricsURL is where metrics are served, without a path; empty if they are not.
func (a *App) MetricsURL() string { return a.metricsURL }

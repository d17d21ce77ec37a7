package metrics

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// readHeaderTimeout keeps a client that says nothing from holding a connection.
const readHeaderTimeout = 5 * time.Second

// Server answers on /metrics, and on /healthz, which is 200 while the process is
// healthy and else 503 with why it is not.
type Server struct {
	listener net.Listener
	http     http.Server
	served   chan error // gets what ended serving
}

// Serve listens on an address and answers until Stop. healthy gives why the process
// is not, or nil.
func (m *Metrics) Serve(address string, healthy func() error, log *slog.Logger) (*Server, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("metrics cannot be served at %s: %w", address, err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn), ErrorHandling: promhttp.ContinueOnError,
	}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		if err := healthy(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		_, _ = fmt.Fprintln(w, "ok") // who has asked is gone
	})
	s := &Server{listener: listener, http: http.Server{Handler: mux, ReadHeaderTimeout: readHeaderTimeout}, served: make(chan error, 1)}
	go func() { s.served <- s.http.Serve(listener) }()
	log.Info("metrics are served", "url", s.URL()+"/metrics")
	return s, nil
}

// URL is where the server answers, without a path.
func (s *Server) URL() string { return "http://" + s.listener.Addr().String() }

// Stop ends serving: a scrape under way is answered while ctx lasts.
func (s *Server) Stop(ctx context.Context) error {
	err := s.http.Shutdown(ctx)
	if served := <-s.served; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}

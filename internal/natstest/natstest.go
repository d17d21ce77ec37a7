// Package natstest runs real NATS servers inside a test: one server or a
// cluster of three, with JetStream on files in the test's own folder. Servers
// listen on 127.0.0.1 on a port the system chooses and end with the test.
package natstest

import (
	"net"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

const ready = 10 * time.Second

// Server is a running server that a test may stop and start again on the same
// port and files.
type Server struct {
	tb   testing.TB
	opts server.Options
	srv  *server.Server
}

// Start runs one server with JetStream. Each of edit may change its options.
func Start(tb testing.TB, edit ...func(*server.Options)) *Server {
	tb.Helper()
	s := &Server{tb: tb, opts: server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT,
		JetStream: true, StoreDir: tb.TempDir(),
		NoLog: true, NoSigs: true,
	}}
	for _, f := range edit {
		f(&s.opts)
	}
	s.start()
	tb.Cleanup(s.Stop)
	return s
}

func (s *Server) start() {
	s.tb.Helper()
	opts := s.opts
	srv, err := server.NewServer(&opts)
	if err != nil {
		s.tb.Fatalf("natstest: %v", err)
	}
	srv.Start()
	if !srv.ReadyForConnections(ready) {
		s.tb.Fatal("natstest: server not ready")
	}
	s.srv = srv
	s.opts.Port = srv.Addr().(*net.TCPAddr).Port
}

// Stop shuts the server down and waits for it. Stopping twice is harmless.
func (s *Server) Stop() {
	s.srv.Shutdown()
	s.srv.WaitForShutdown()
}

// Restart stops the server, if it runs, and starts it on the same port and
// files.
func (s *Server) Restart() {
	s.tb.Helper()
	s.Stop()
	s.start()
}

// Port is the TCP port the server listens or last listened on.
func (s *Server) Port() int { return s.opts.Port }

// URL is the server's client address.
func (s *Server) URL() string { return s.srv.ClientURL() }

// Connect opens a connection that ends with the test.
func (s *Server) Connect(opts ...nats.Option) *nats.Conn {
	s.tb.Helper()
	return connect(s.tb, s.URL(), opts)
}

func connect(tb testing.TB, url string, opts []nats.Option) *nats.Conn {
	tb.Helper()
	quiet := func(*nats.Conn, *nats.Subscription, error) {} // else they go to stderr
	opts = append([]nats.Option{
		nats.MaxReconnects(-1), nats.ReconnectWait(20 * time.Millisecond), nats.ErrorHandler(quiet),
	}, opts...)
	nc, err := nats.Connect(url, opts...)
	if err != nil {
		tb.Fatalf("natstest: connect: %v", err)
	}
	tb.Cleanup(nc.Close)
	return nc
}

// Conn starts a server for this test alone and connects to it.
func Conn(tb testing.TB) *nats.Conn {
	tb.Helper()
	return Start(tb).Connect()
}

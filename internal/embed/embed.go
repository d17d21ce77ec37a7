// Package embed runs a nats-server with JetStream inside the process.
//
// A Server owns its data directory for as long as it runs: a lock file keeps a
// second process out, since two servers on one directory would destroy it. The
// lock is the kernel's and ends with the process however that dies, so that a
// server that was killed can be started again on the same directory at once. A
// directory that the package made itself is gone after Stop.
package embed

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// readyTimeout bounds the time from the end of recovery to the first connection.
const readyTimeout = 10 * time.Second

// Options are the settings of a Server.
type Options struct {
	// DataDir keeps the streams. Empty means the directory that NATSConfig names,
	// or else DefaultDir.
	DataDir string
	// DefaultDir is for when nobody names a directory. If it is empty too, a
	// temporary directory is used that Stop removes.
	DefaultDir string
	// Listen makes the server take connections at Host and Port; without it only
	// this process can connect, by InProcess.
	Listen bool
	// Host is 127.0.0.1 if empty.
	Host string
	// Port is any free one if -1.
	Port int
	// User and Password are what clients have to show, if User is not empty.
	User, Password string
	// SyncInterval is how often data is forced to disk; 0 leaves it to NATSConfig, or
	// else to DefaultSync.
	SyncInterval time.Duration
	// DefaultSync is the interval for when nobody names one, neither SyncInterval,
	// SyncAlways nor NATSConfig; 0 leaves it to the server.
	DefaultSync time.Duration
	// SyncAlways forces data to disk before each answer.
	SyncAlways bool
	// NATSConfig is a nats-server configuration file. The other options win over
	// what it says, where they are given.
	NATSConfig string
	// Logger takes the server's log; nil is none.
	Logger *slog.Logger
}

// Server is an embedded nats-server.
type Server struct {
	options Options
	server  *server.Server
	config  *server.Options
	started chan struct{} // closed when the server's own Start has returned
	lock    *dirLock
	temp    string // directory that Stop removes
}

// New makes a server that has not started.
func New(o Options) *Server {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Server{options: o}
}

// Start takes the data directory and returns once clients can connect. When it
// fails, nothing is left of it.
func (s *Server) Start(ctx context.Context) (err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, s.release())
		}
	}()
	if s.config, err = s.options.serverOptions(); err != nil {
		return err
	}
	if err := s.takeDir(); err != nil {
		return err
	}
	if err := checkAddress(ctx, s.config); err != nil {
		return err
	}
	return s.launch(ctx)
}

// serverOptions translates the options for nats-server.
func (o Options) serverOptions() (*server.Options, error) {
	c := &server.Options{}
	if o.NATSConfig != "" {
		read, err := server.ProcessConfigFile(o.NATSConfig)
		if err != nil {
			return nil, fmt.Errorf("nats-server configuration: %w", err)
		}
		c = read
	}
	c.NoSigs = true
	c.JetStream = true
	c.DontListen = !o.Listen
	o.setAddress(c)
	if o.DataDir != "" {
		c.StoreDir = o.DataDir
	} else if c.StoreDir == "" {
		c.StoreDir = o.DefaultDir
	}
	if o.User != "" && o.NATSConfig == "" {
		c.Username, c.Password = o.User, o.Password
	}
	if o.SyncInterval > 0 {
		c.SyncInterval, c.SyncAlways = o.SyncInterval, false
	}
	c.SyncAlways = c.SyncAlways || o.SyncAlways
	if c.SyncInterval == 0 && !c.SyncAlways {
		c.SyncInterval = o.DefaultSync
	}
	return c, nil
}

func (o Options) setAddress(c *server.Options) {
	if o.Host != "" {
		c.Host = o.Host
	}
	if c.Host == "" {
		c.Host = "127.0.0.1"
	}
	if o.Port != 0 {
		c.Port = o.Port
	}
}

// takeDir makes the data directory if it has to, and locks it.
func (s *Server) takeDir() error {
	if s.config.StoreDir == "" {
		dir, err := os.MkdirTemp("", "weft-")
		if err != nil {
			return fmt.Errorf("data directory: %w", err)
		}
		s.temp, s.config.StoreDir = dir, dir
	}
	if err := os.MkdirAll(s.config.StoreDir, 0o700); err != nil {
		return fmt.Errorf("data directory %s cannot be made: %w", s.config.StoreDir, reason(err))
	}
	lock, err := lockDir(s.config.StoreDir)
	s.lock = lock
	return err
}

// reason is the cause of a path error whose path the caller names already.
func reason(err error) error {
	if at, ok := errors.AsType[*fs.PathError](err); ok {
		return at.Err
	}
	return err
}

// checkAddress reports an address that is taken as what it is; the server itself
// would only log it and then not get ready.
func checkAddress(ctx context.Context, c *server.Options) error {
	if c.DontListen || c.Port == server.RANDOM_PORT {
		return nil
	}
	port := c.Port
	if port == 0 {
		port = server.DEFAULT_PORT
	}
	address := net.JoinHostPort(c.Host, strconv.Itoa(port))
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", address)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("cannot listen on %s: %w; stop what listens there, or give another address with --listen (port -1 takes a free one)", address, syscall.EADDRINUSE)
	case err != nil:
		return fmt.Errorf("cannot listen on %s: %w; give another address with --listen", address, err)
	}
	return listener.Close()
}

// launch runs the server and waits until it is ready, fails, or ctx ends.
func (s *Server) launch(ctx context.Context) error {
	ns, err := server.NewServer(s.config)
	if err != nil {
		return fmt.Errorf("nats-server: %w", err)
	}
	s.server = ns
	log := newLogger(s.options.Logger)
	ns.SetLoggerV2(log, true, false, false)
	s.started = make(chan struct{})
	go func() {
		defer close(s.started)
		ns.Start()
	}()
	return s.awaitReady(ctx, log.fatal)
}

// awaitReady waits until clients can connect. Start returns once the streams have
// been recovered, which may take long and is why ctx can end the wait.
func (s *Server) awaitReady(ctx context.Context, fatal <-chan string) error {
	select {
	case <-s.started:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case text := <-fatal:
		return errors.New("nats-server: " + text)
	default:
	}
	if !s.server.ReadyForConnections(readyTimeout) {
		return fmt.Errorf("nats-server is not ready after %s", readyTimeout)
	}
	if !s.server.JetStreamEnabled() {
		return fmt.Errorf("nats-server could not start JetStream in %s", s.config.StoreDir)
	}
	return nil
}

// Stop shuts the server down, gives the data directory free, and removes it if
// it was a temporary one. It returns early when ctx ends; the directory then
// stays locked until the process is gone.
func (s *Server) Stop(ctx context.Context) error {
	done := make(chan error, 1)
	go func() { done <- s.release() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("nats-server did not stop: %w", context.Cause(ctx))
	}
}

// release undoes what Start has done so far, last first.
func (s *Server) release() error {
	if s.server != nil {
		s.server.Shutdown()
		<-s.started
		s.server.WaitForShutdown()
		s.server = nil
	}
	err := s.lock.unlock()
	s.lock = nil
	if s.temp != "" {
		err = errors.Join(err, os.RemoveAll(s.temp))
		s.temp = ""
	}
	return err
}

// ClientURL is where clients connect, empty if the server does not listen.
func (s *Server) ClientURL() string {
	if s.config.DontListen {
		return ""
	}
	return s.server.ClientURL()
}

// InProcess lets nats.Connect reach the server without a network.
func (s *Server) InProcess() nats.Option { return nats.InProcessServer(s.server) }

// DataDir is where the streams are.
func (s *Server) DataDir() string { return filepath.Clean(s.config.StoreDir) }

// Sync is how often data is forced to disk, and whether that is before each
// answer.
func (s *Server) Sync() (every time.Duration, always bool) {
	const serverDefault = 2 * time.Minute // nats-server's own, not exported
	if s.config.SyncInterval == 0 {
		return serverDefault, s.config.SyncAlways
	}
	return s.config.SyncInterval, s.config.SyncAlways
}

package history

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// servers are the server processes of a run, each behind a proxy of its own.
type servers struct {
	configs []serverConfig
	proxies []*proxy

	mu       sync.Mutex
	children []*child      // guarded by mu: nil while a server is down
	troubles []disturbance // guarded by mu
}

// disturbance is a time in which events may get lost: a server was down or
// frozen, or a stream changed its leader.
type disturbance struct{ from, to time.Time }

// startServers starts one server or a cluster, with the data below dir.
func startServers(n int, dir string) (s *servers, err error) {
	s = &servers{children: make([]*child, n)}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	if s.configs, err = configs(n, dir); err != nil {
		return s, err
	}
	failures := make([]error, n)
	var starting sync.WaitGroup
	for i := range n {
		starting.Go(func() { failures[i] = s.start(i) })
	}
	starting.Wait()
	if err := errors.Join(failures...); err != nil {
		return s, err
	}
	for i := range n {
		p, err := newProxy(net.JoinHostPort("127.0.0.1", strconv.Itoa(s.configs[i].Port)))
		if err != nil {
			return s, err
		}
		s.proxies = append(s.proxies, p)
	}
	return s, nil
}

func configs(n int, dir string) ([]serverConfig, error) {
	ports, err := freePorts(2 * n)
	if err != nil {
		return nil, err
	}
	var routes []string
	for i := range n {
		routes = append(routes, net.JoinHostPort("127.0.0.1", strconv.Itoa(ports[n+i])))
	}
	all := make([]serverConfig, n)
	for i := range n {
		name := fmt.Sprintf("s%d", i+1)
		all[i] = serverConfig{Name: name, Dir: filepath.Join(dir, name), Port: ports[i]}
		if n > 1 {
			all[i].Route, all[i].Routes = ports[n+i], routes
		}
		if err := os.MkdirAll(all[i].Dir, 0o700); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// freePorts asks the system for ports that nobody uses.
func freePorts(n int) ([]int, error) {
	var ports []int
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}

func (s *servers) start(i int) error {
	c, err := spawn(s.configs[i])
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.children[i] = c
	return nil
}

// kill ends a server at once; restart starts it again on its port and data. A
// server that is down stays so.
func (s *servers) kill(i int) {
	s.mu.Lock()
	c := s.children[i]
	s.children[i] = nil
	s.troubles = append(s.troubles, disturbance{from: time.Now()})
	s.mu.Unlock()
	if c != nil {
		c.kill()
	}
}

func (s *servers) restart(i int) error {
	var err error
	for range restartTries { // somebody may have taken its port for a moment
		if err = s.start(i); err == nil {
			break
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calmed()
	return err
}

// calmed notes that what disturbed the servers is over. s.mu is held.
func (s *servers) calmed() {
	for at := range s.troubles {
		if s.troubles[at].to.IsZero() {
			s.troubles[at].to = time.Now()
		}
	}
}

// freeze stops a server's process, and thaw lets it go on: it is up, its
// connections are, and it answers nobody. A server that is down stays so.
func (s *servers) freeze(i int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.troubles = append(s.troubles, disturbance{from: time.Now()})
	if s.children[i] == nil {
		return nil
	}
	return s.children[i].freeze()
}

func (s *servers) thaw(i int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calmed()
	if s.children[i] == nil {
		return nil
	}
	return s.children[i].thaw()
}

// restartTries is how often a server that does not start is started again.
const restartTries = 3

// disturbed notes that a stream has to find a leader.
func (s *servers) disturbed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.troubles = append(s.troubles, disturbance{time.Now(), time.Now()})
}

// settleTime is how long after a disturbance leaders may still change.
const settleTime = 5 * time.Second

// excuse reports whether events may be missing between two moments.
func (s *servers) excuse(from, to time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range s.troubles {
		if to.After(d.from.Add(-time.Second)) && (d.to.IsZero() || from.Before(d.to.Add(settleTime))) {
			return true
		}
	}
	return false
}

// proxied are the addresses of the proxies.
func (s *servers) proxied() []string {
	var urls []string
	for _, p := range s.proxies {
		urls = append(urls, p.url())
	}
	return urls
}

// direct are the servers' own addresses, past the proxies.
func (s *servers) direct() []string {
	var urls []string
	for _, c := range s.configs {
		urls = append(urls, "nats://"+net.JoinHostPort("127.0.0.1", strconv.Itoa(c.Port)))
	}
	return urls
}

// connect opens a connection past the proxies. What goes wrong on it is expected.
func (s *servers) connect(urls ...string) (*nats.Conn, error) {
	return nats.Connect(strings.Join(urls, ","), nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond),
		nats.IgnoreDiscoveredServers(), nats.ErrorHandler(ignore))
}

func ignore(*nats.Conn, *nats.Subscription, error) {}

// close ends every server in order.
func (s *servers) close() {
	for _, p := range s.proxies {
		p.close()
	}
	var stopping sync.WaitGroup
	for _, c := range s.children {
		if c != nil {
			stopping.Go(c.stop)
		}
	}
	stopping.Wait()
}

package natstest

import (
	"net"
	"net/url"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"
)

// Proxy stands between clients and one server, and loses or holds back what
// passes, as a network does. It begins open. All its methods may be called at
// any time; none waits for the effect to be seen by a client.
type Proxy struct {
	tb       testing.TB
	target   string
	listener net.Listener
	serving  sync.WaitGroup // accept and the two directions of each link

	mu    sync.Mutex
	turn  *sync.Cond         // of mu: mode has changed
	mode  mode               // guarded by mu
	links map[*link]struct{} // guarded by mu
}

type mode int

const (
	open    mode = iota
	muted        // what the server says is lost, what clients say arrives
	stalled      // nothing arrives on either side; it is held back, not lost
	cut          // connections are refused
	closed       // for good
)

// link is one client's connection and the one to the server that goes with it.
type link struct {
	client, server net.Conn
	damaged        bool // guarded by Proxy.mu: a part of the server's bytes is lost
}

func (l *link) close() {
	l.client.Close()
	l.server.Close()
}

// Proxy starts a proxy to the server, which ends with the test.
func (s *Server) Proxy() *Proxy {
	s.tb.Helper()
	return newProxy(s.tb, s.URL())
}

func newProxy(tb testing.TB, target string) *Proxy {
	tb.Helper()
	at, err := url.Parse(target)
	if err != nil {
		tb.Fatalf("natstest: proxy: %v", err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatalf("natstest: proxy: %v", err)
	}
	p := &Proxy{tb: tb, target: at.Host, listener: listener, links: map[*link]struct{}{}}
	p.turn = sync.NewCond(&p.mu)
	p.serving.Go(p.accept)
	tb.Cleanup(func() {
		p.set(closed)
		listener.Close()
		p.serving.Wait()
	})
	return p
}

// URL is the client address of the proxy.
func (p *Proxy) URL() string { return "nats://" + p.listener.Addr().String() }

// Connect opens a connection through the proxy, which ends with the test.
func (p *Proxy) Connect(opts ...nats.Option) *nats.Conn {
	p.tb.Helper()
	return connect(p.tb, p.URL(), opts)
}

// Mute loses whatever the server says from now on, answers above all, while what
// clients say arrives.
func (p *Proxy) Mute() { p.set(muted) }

// Stall holds back what either side says until Heal, and then lets it pass.
func (p *Proxy) Stall() { p.set(stalled) }

// Cut closes all connections and refuses new ones until Heal.
func (p *Proxy) Cut() { p.set(cut) }

// Heal lets everything pass. Connections that have lost a part of what the
// server said are closed, so that their clients begin anew.
func (p *Proxy) Heal() { p.set(open) }

func (p *Proxy) set(m mode) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mode = m
	for l := range p.links {
		if l.damaged && m == open || m == cut || m == closed {
			l.close()
		}
	}
	p.turn.Broadcast()
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.target)
		if err != nil {
			client.Close()
			continue
		}
		l := &link{client: client, server: server}
		if !p.add(l) {
			l.close()
			continue
		}
		p.serving.Go(func() { p.pump(l, client, server, false) })
		p.serving.Go(func() { p.pump(l, server, client, true) })
	}
}

func (p *Proxy) add(l *link) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mode == cut || p.mode == closed {
		return false
	}
	p.links[l] = struct{}{}
	return true
}

// pump carries one direction until either end closes.
func (p *Proxy) pump(l *link, from, to net.Conn, answers bool) {
	defer func() {
		l.close()
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.links, l)
	}()
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		if !p.pass(l, answers) {
			continue
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// pass waits while the proxy is stalled, and reports whether what was read may
// go on its way.
func (p *Proxy) pass(l *link, answers bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.mode == stalled {
		p.turn.Wait()
	}
	if answers && (p.mode == muted || l.damaged) {
		l.damaged = true
		return false
	}
	return true
}

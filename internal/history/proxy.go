package history

import (
	"net"
	"sync"
	"time"
)

// proxy stands between clients and one server. It can cut every connection, and
// hold back what passes.
type proxy struct {
	listener net.Listener
	target   string
	closed   sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]struct{} // guarded by mu: both ends of each connection
	stall chan struct{}         // guarded by mu: closed when the stall ends; nil if there is none
	done  bool                  // guarded by mu
}

func newProxy(target string) (*proxy, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &proxy{listener: listener, target: target, conns: map[net.Conn]struct{}{}}
	p.closed.Go(p.accept)
	return p, nil
}

func (p *proxy) url() string { return "nats://" + p.listener.Addr().String() }

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.DialTimeout("tcp", p.target, time.Second)
		if err != nil || !p.track(client, server) {
			client.Close()
			if err == nil {
				server.Close()
			}
			continue
		}
		p.closed.Go(func() { p.copy(server, client) })
		p.closed.Go(func() { p.copy(client, server) })
	}
}

func (p *proxy) track(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		p.conns[c] = struct{}{}
	}
	return !p.done
}

// copy passes one direction on until either end is closed, and then closes both.
func (p *proxy) copy(to, from net.Conn) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		p.hold()
		if _, werr := to.Write(buffer[:n]); err != nil || werr != nil {
			break
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range []net.Conn{to, from} {
		c.Close()
		delete(p.conns, c)
	}
}

// hold waits for the end of a stall.
func (p *proxy) hold() {
	p.mu.Lock()
	stall := p.stall
	p.mu.Unlock()
	if stall != nil {
		<-stall
	}
}

// cut closes every connection.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.Close()
	}
}

// holdBack lets nothing pass until the returned function is called.
func (p *proxy) holdBack() (release func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stall != nil {
		return func() {}
	}
	stall := make(chan struct{})
	p.stall = stall
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.stall = nil
		close(stall)
	}
}

func (p *proxy) close() {
	p.mu.Lock()
	p.done = true
	p.mu.Unlock()
	p.listener.Close()
	p.cut()
	p.closed.Wait()
}

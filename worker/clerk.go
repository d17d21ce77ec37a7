package worker

import "sync"

// clerk ends attempts whose settlement has been answered: it writes the log and
// calls the hooks, which may take their time, in a goroutine of its own. The one
// that brings the answers would keep all others waiting.
type clerk struct {
	mu   sync.Mutex
	work []*conclusion // guarded by mu
	more *sync.Cond    // signalled for work and for over
	over bool          // guarded by mu: nothing more comes
}

func newClerk() *clerk {
	c := &clerk{}
	c.more = sync.NewCond(&c.mu)
	return c
}

func (c *clerk) take(one *conclusion) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.work = append(c.work, one)
	c.more.Signal()
}

// run works until close was called and all is done.
func (c *clerk) run() {
	var now []*conclusion
	for {
		c.mu.Lock()
		for len(c.work) == 0 && !c.over {
			c.more.Wait()
		}
		now, c.work = c.work, now[:0]
		c.mu.Unlock()
		if len(now) == 0 {
			return
		}
		for i, one := range now {
			one.end()
			now[i] = nil
		}
	}
}

func (c *clerk) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
	c.more.Signal()
}

package job

import "sync"

// Nudge passes on to the holder of a claim that something may have happened to
// its job which it should learn of by renewing now. It is a hint: several may come
// as one, and one may come for nothing. The zero Nudge is ready; a nil one never
// hints.
type Nudge struct {
	mu     sync.Mutex
	call   func() // guarded by mu
	hinted bool   // guarded by mu: a hint came before there was anybody to call
}

// Hint tells the holder.
func (n *Nudge) Hint() {
	n.mu.Lock()
	call := n.call
	n.hinted = call == nil
	n.mu.Unlock()
	if call != nil {
		call()
	}
}

// OnHint has call called at each hint from now on, and at once if there was one
// before. It is called from any goroutine and must not block.
func (n *Nudge) OnHint(call func()) {
	if n == nil {
		return
	}
	n.mu.Lock()
	hinted := n.hinted
	n.call, n.hinted = call, false
	n.mu.Unlock()
	if hinted {
		call()
	}
}

package history

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"syscall"
	"time"
)

// torments is about how long a worker process is left alone.
const torments = 700 * time.Millisecond

// process is one worker process after the other, as worker is, but real: it is
// stopped for longer than its lease and goes on without having noticed, and it is
// killed, both when an operation has just begun.
func (w *world) process(acting, noisy context.Context, n int, calm <-chan struct{}) error {
	r := w.cfg.random("process", int64(n))
	for life := 1; acting.Err() == nil; life++ {
		p := &process{
			w: w, r: r, name: fmt.Sprintf("p%d_%d", n, life),
			freezes: (n + life) % 3, // some of a round are killed soon, whatever the seed
			began:   make(chan struct{}), ended: make(chan struct{}),
		}
		if err := p.live(acting, noisy, stageNames[n%len(stageNames)], calm); err != nil {
			return fmt.Errorf("worker process %s: %w", p.name, err)
		}
	}
	return nil
}

// process is one life of a worker process, seen from its parent.
type process struct {
	w       *world
	r       *rand.Rand
	name    string
	freezes int // how often it is frozen before it is killed
	c       *child
	began   chan struct{} // receives when an operation begins and somebody waits for it
	ended   chan struct{} // closed when everything that it told has been taken
	said    error         // written before ended is closed
}

// live starts the process, torments it until the chaos ends, and lets it work
// until acting ends.
func (p *process) live(acting, noisy context.Context, stage string, calm <-chan struct{}) (err error) {
	p.c, err = launch(childRole{Worker: p.w.workerConfig(p.name, stage, skew(p.r))})
	if err != nil {
		return err
	}
	chaos, end := context.WithCancel(noisy)
	defer end()
	go func() {
		defer close(p.ended)
		defer end()
		p.said = p.w.collect(p.c.stdout, func() {
			select {
			case p.began <- struct{}{}:
			default:
			}
		})
	}()
	err = p.torment(chaos)
	select {
	case <-p.ended:
	case <-acting.Done():
	case <-calm:
		_, _ = p.c.stdin.Write([]byte("calm\n"))
		select {
		case <-p.ended:
		case <-acting.Done():
		}
	}
	return errors.Join(err, p.end())
}

// torment freezes the process as often as it is to be frozen and then kills it,
// now and then without thawing it first. It stops when ctx ends: the chaos is
// over then, or the process has ended. It leaves none frozen.
func (p *process) torment(ctx context.Context) error {
	for left := p.freezes; p.moment(ctx); left-- {
		if left == 0 {
			p.kill()
			return nil
		}
		p.w.log.harmed("", "%s is frozen", p.name)
		p.w.figures.add("worker freezes", 1)
		if err := p.c.freeze(); err != nil {
			return err
		}
		_ = pause(ctx, between(p.r, lease+lease/10, 3*lease))
		if p.r.Float64() < 0.2 {
			p.kill()
			return nil
		}
		if err := p.c.thaw(); err != nil {
			return err
		}
		p.w.log.harmed("", "%s goes on", p.name)
	}
	return nil
}

// moment waits for a while, and then for the process to begin something.
func (p *process) moment(ctx context.Context) bool {
	if pause(ctx, about(p.r, torments)) != nil {
		return false
	}
	wait, stop := context.WithTimeout(ctx, torments)
	defer stop()
	select {
	case <-p.began:
		_ = pause(ctx, between(p.r, 0, 2*time.Millisecond))
	case <-wait.Done():
	}
	return ctx.Err() == nil
}

func (p *process) kill() {
	p.w.log.harmed("", "%s is killed", p.name)
	_ = p.c.cmd.Process.Kill() // or it has just ended by itself
}

// end lets the process end in order, if it has not ended yet. It may have been
// killed, but not have failed.
func (p *process) end() error {
	_ = p.c.stdin.Close()
	late := time.AfterFunc(endWait, func() { _ = p.c.cmd.Process.Kill() })
	<-p.ended
	inTime := late.Stop()
	if p.said != nil {
		p.c.kill()
		return p.said
	}
	err := p.c.cmd.Wait()
	status, _ := p.c.cmd.ProcessState.Sys().(syscall.WaitStatus)
	switch {
	case !inTime:
		return errors.New("did not end when it was told to")
	case status.Signaled() && status.Signal() == syscall.SIGKILL:
		p.w.figures.add("worker SIGKILLs", 1)
		return nil
	}
	return err
}

package history

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/nats-io/nats.go/jetstream"
)

// Arena is the servers of a run. Rounds follow each other on them, each in a
// namespace of its own.
type Arena struct {
	servers *servers
	dir     string
	rounds  int
}

// Open starts one server, or a cluster of three, with its data in a new
// temporary directory.
func Open(n int) (*Arena, error) {
	if n != 1 && n != 3 {
		return nil, fmt.Errorf("%d servers; 1 or 3 can be tested", n)
	}
	dir, err := os.MkdirTemp("", "weft-history-")
	if err != nil {
		return nil, err
	}
	s, err := startServers(n, dir)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return &Arena{servers: s, dir: dir}, nil
}

// Close stops the servers and removes their data.
func (a *Arena) Close() error {
	a.servers.close()
	return os.RemoveAll(a.dir)
}

// Round runs the clients and the chaos, lets every job come to its end and judges
// what happened. It fails with an *Illegal when a promise was broken, and with
// another error when the test itself could not be done.
func (a *Arena) Round(ctx context.Context, cfg Config) (Report, error) {
	a.rounds++
	w := &world{
		cfg: cfg, namespace: fmt.Sprintf("h%d", a.rounds), servers: a.servers,
		urls: a.servers.proxied(), replicas: len(a.servers.configs), log: newLog(startClock()),
	}
	if err := w.quiet(ctx); err != nil {
		return nil, fmt.Errorf("round %d: %w", a.rounds, err)
	}
	var err error
	if w.feed, err = listen(w.namespace, a.servers); err != nil {
		return nil, err
	}
	defer w.feed.close()
	if w.acks, err = w.tapAcks(); err != nil {
		return nil, err
	}
	defer w.acks.nc.Close()
	end, err := w.play(ctx)
	if ctx.Err() != nil {
		return w.figures.report(), errors.Join(ctx.Err(), err)
	}
	w.feed.flush()
	// What the record shows is judged first: it says more than that a job did not
	// end.
	if illegal := w.judge(); illegal != nil {
		err = illegal
	} else if e, ok := errors.AsType[*Illegal](end); ok {
		e.Lines = append(w.lines(e.Job), w.whereabouts(ctx, e.Job)...)
	}
	return w.figures.report(), errors.Join(err, end, a.sweep(ctx, w))
}

// play lets everybody act: first with the chaos, then in calm until all jobs have
// ended. end is what is wrong with the end.
func (w *world) play(ctx context.Context) (end, err error) {
	acting, stop := context.WithCancel(ctx)
	defer stop()
	noisy, hush := context.WithTimeout(ctx, w.cfg.Chaos)
	defer hush()
	var roles, noise sync.WaitGroup
	calm := make(chan struct{})
	for n := range workers {
		roles.Go(func() { w.worker(acting, n) })
	}
	failures := make([]error, processes)
	for n := range processes {
		roles.Go(func() { failures[n] = w.process(acting, noisy, n, calm) })
	}
	for n := range keepers {
		roles.Go(func() { w.keeper(acting, n, calm) })
	}
	if !w.cfg.WorkersOnly {
		noise.Go(func() { err = w.chaos(noisy) })
	}
	for n := range backends {
		noise.Go(func() { w.backend(noisy, n) })
	}
	for n := range operators {
		noise.Go(func() { w.operator(noisy, n) })
	}
	noise.Wait()
	w.calm.Store(true)
	close(calm)
	if err == nil {
		end = w.drain(ctx)
	}
	stop()
	roles.Wait()
	return end, errors.Join(append(failures, err)...)
}

// sweep removes what the round left on the servers.
func (a *Arena) sweep(ctx context.Context, w *world) error {
	nc, err := a.servers.connect(a.servers.direct()...)
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 2*callLimit)
	defer cancel()
	for _, name := range append([]string{"KV_" + w.namespace}, w.workStream(stageNames[0]), w.workStream(stageNames[1])) {
		if err := js.DeleteStream(ctx, name); err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
			return fmt.Errorf("stream %s not removed: %w", name, err)
		}
	}
	return nil
}

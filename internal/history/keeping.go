package history

import (
	"context"
	"time"
)

// keeper is one keeper process after the other. Most give the lead up when they
// end; if the round wants it, some die. When the calm begins the last one ends
// in order, so that a new term begins, which looks at everything there is.
func (w *world) keeper(ctx context.Context, n int, calm <-chan struct{}) {
	r := w.cfg.random("keeper", int64(n))
	if w.cfg.WorkersOnly {
		select {
		case <-ctx.Done():
		case <-calm:
		}
	}
	for ctx.Err() == nil {
		m, err := w.join(ctx, skew(r))
		if err != nil {
			return
		}
		life := between(r, 2*time.Second, 8*time.Second)
		w.keepFor(ctx, m, life, w.cfg.KeeperDeaths && r.Float64() < 0.3, calm)
		w.figures.add("keepers", 1)
	}
}

// keepFor keeps for a time, or until the calm begins, and in the calm until ctx
// ends.
func (w *world) keepFor(ctx context.Context, m *member, life time.Duration, dies bool, calm <-chan struct{}) {
	defer m.leave()
	keeping, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- m.f.Keep(keeping) }()
	timer := time.NewTimer(life)
	defer timer.Stop()
	due := timer.C
	if w.calm.Load() {
		due, calm = nil, nil
	}
	select {
	case <-ctx.Done():
	case <-calm:
	case <-due:
		if dies {
			m.nc.Close()
		}
	}
	stop()
	<-ended // it ended because it was told to
}

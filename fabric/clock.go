package fabric

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"
)

const (
	clockEvery   = 30 * time.Second
	clockSamples = 3
	// clockStep is how far the server's clock may jump, against this process's
	// own, before deadlines that were set under the old time are distrusted.
	clockStep = time.Second
)

// clock tells the server's time: the local wall clock, without its monotonic
// part, plus the offset that was measured last. The monotonic clock would stand
// still while a machine is suspended, and with it every deadline.
type clock struct {
	local  func() time.Time
	server func(context.Context) (time.Time, error)
	log    *slog.Logger

	offset  atomic.Int64 // nanoseconds; written by measure, read by all
	stepped atomic.Int64 // local time in ns of the last step; written by measure
}

func newClock(local func() time.Time, server func(context.Context) (time.Time, error), log *slog.Logger) *clock {
	return &clock{local: local, server: server, log: log}
}

func (c *clock) now() time.Time {
	return c.local().Round(0).Add(time.Duration(c.offset.Load())).UTC().Truncate(time.Millisecond)
}

// run measures again and again until ctx ends.
func (c *clock) run(ctx context.Context) {
	tick := time.NewTicker(clockEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if err := c.measure(ctx); err != nil && ctx.Err() == nil {
				c.log.Warn("server's clock not measured", "error", err)
			}
		}
	}
}

// measure takes the sample with the shortest way to the server and back: the
// offset is wrong by at most half of that.
func (c *clock) measure(ctx context.Context) error {
	var offset, shortest time.Duration
	for i := range clockSamples {
		asked := c.local().Round(0)
		server, err := c.server(ctx)
		if err != nil {
			return err
		}
		way := c.local().Round(0).Sub(asked)
		if i == 0 || way < shortest {
			shortest, offset = way, server.Sub(asked.Add(way/2))
		}
	}
	before, doubt := time.Duration(c.offset.Load()), shortest/2
	step := (offset - before).Abs()
	if before != 0 && step <= doubt { // it agrees with what is known, as far as it can tell
		return nil
	}
	c.offset.Store(int64(offset))
	if before != 0 && step > clockStep+doubt {
		c.stepped.Store(c.local().UnixNano())
		c.log.Warn("clock stepped", "by", offset-before)
	}
	return nil
}

// distrusted reports whether the deadline of a lease may still be of the time
// before the clock stepped: until every process has measured the new time and
// then renewed its leases.
func (c *clock) distrusted(lease time.Duration) bool {
	at := c.stepped.Load()
	return at != 0 && c.local().Sub(time.Unix(0, at)) < clockEvery+lease
}

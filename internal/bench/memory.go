package bench

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"
)

// settleDown is how long an idle worker runs before its memory is read.
const settleDown = 2 * time.Second

// memory is what a worker of many slots needs while it has nothing to do, and what
// the server needs after all that was done.
func (r *run) memory(ctx context.Context) error {
	if r.o.Worker != nil {
		const slots = 256
		p, err := r.o.Worker(ctx, r.namespace, "nothing", slots)
		if err != nil {
			return err
		}
		defer func() { _ = p.Stop() }()
		select {
		case <-time.After(settleDown):
		case <-ctx.Done():
			return ctx.Err()
		}
		r.resident(fmt.Sprintf("memory, idle worker of %d slots", slots), p.ID)
	}
	if r.o.Server != 0 {
		r.resident("memory, server", r.o.Server)
	}
	return nil
}

// resident gives what a process has in memory. Where the system does not say, the
// figure is left out.
func (r *run) resident(name string, pid int) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return
	}
	for line := range strings.Lines(string(text)) {
		var kilobytes float64
		if n, _ := fmt.Sscanf(line, "VmRSS: %f kB", &kilobytes); n == 1 {
			r.figure(Figure{Name: name, Value: kilobytes / 1000, Unit: "MB"})
		}
	}
}

package fabric

import (
	"log/slog"

	"github.com/weft-fabric/weft/job"
)

// attemptOf are the attributes of a line about an attempt, named as in the lines of
// package worker. A runner's logger has the worker already.
func attemptOf(j job.Job) slog.Attr {
	return slog.Group("", "job", j.ID, "stage", j.Stage, "attempt", j.Attempt, "fence", j.Fence)
}

// attempt is attemptOf for a claim as it stands.
func (h *holding) attempt() slog.Attr {
	h.mu.Lock()
	defer h.mu.Unlock()
	return attemptOf(h.rec.Job)
}

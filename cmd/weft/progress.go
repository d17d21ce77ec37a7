package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"github.com/weft-fabric/weft/job"
)

// plainPause is the least time between two plain lines of progress.
const plainPause = 5 * time.Second

// progress shows how far a run has come: a bar on a terminal, a line now and
// then elsewhere.
type progress struct {
	out  io.Writer
	bar  *progressbar.ProgressBar // nil: plain lines
	last time.Time
}

func newProgress(out io.Writer, total int) *progress {
	p := &progress{out: out, last: time.Now()}
	if isTerminal(out) {
		p.bar = progressbar.NewOptions(total,
			progressbar.OptionSetWriter(out), progressbar.OptionShowCount(), progressbar.OptionClearOnFinish(),
			progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionEnableColorCodes(false),
		)
	}
	return p
}

// show takes in the counts.
func (p *progress) show(t *tracker) {
	if p.bar != nil {
		p.bar.ChangeMax(t.total())
		_ = p.bar.Set(t.ended) // a bar that cannot be drawn is no failure
		return
	}
	if time.Since(p.last) >= plainPause {
		p.last = time.Now()
		_, _ = fmt.Fprintf(p.out, "weft: %s\n", summary(t))
	}
}

// finish removes the bar.
func (p *progress) finish() {
	if p.bar != nil {
		_ = p.bar.Clear()
	}
}

// summary is the counts as one line.
func summary(t *tracker) string {
	text := fmt.Sprintf("%d of %d jobs have ended", t.ended, t.total())
	for _, state := range []job.State{job.StateSucceeded, job.StateFailed, job.StateCancelled} {
		if n := t.counts[state]; n > 0 {
			text += fmt.Sprintf(", %d %s", n, state)
		}
	}
	return text
}

// isTerminal reports whether w is a terminal.
func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

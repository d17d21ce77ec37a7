package history

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"time"
)

// report is one line of what a worker process tells: that an operation is about
// to begin, or how it ended, that something is to be counted, or a line for the
// log. What was told before the process died is there to be read afterwards.
type report struct {
	Began   *Op    `json:",omitempty"`
	Ended   *Op    `json:",omitempty"`
	Counted string `json:",omitempty"`
	Logged  string `json:",omitempty"`
}

// reporter writes reports. It is safe for concurrent use.
type reporter struct {
	mu  sync.Mutex
	out *json.Encoder // guarded by mu
}

func newReporter(to io.Writer) *reporter { return &reporter{out: json.NewEncoder(to)} }

// tell does not fail: if nobody reads any more, the process is ended by it.
func (r *reporter) tell(what report) {
	r.mu.Lock()
	defer r.mu.Unlock()
	_ = r.out.Encode(what)
}

// Write passes on a line of a log.
func (r *reporter) Write(line []byte) (int, error) {
	r.tell(report{Logged: string(line)})
	return len(line), nil
}

// begun is what an operation can be found by when it ends.
type begun struct {
	kind  Kind
	job   string
	fence int64
	call  time.Duration
}

// collect takes the reports of a worker process until it ends, and calls started
// whenever an operation begins. What the process was at when it died is unknown:
// it may have happened, and may yet happen.
func (w *world) collect(from io.Reader, started func()) error {
	pending := map[begun]Op{}
	defer func() {
		for _, op := range pending {
			op.Result = Unknown
			w.figures.add("operations cut off", 1)
			w.note(op)
		}
	}()
	for lines := bufio.NewReader(from); ; {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return nil // a line without end was cut off too
		}
		var r report
		if err := json.Unmarshal(line, &r); err != nil {
			return fmt.Errorf("a worker process said %q: %w", line, err)
		}
		switch {
		case r.Began != nil:
			pending[r.Began.key()] = *r.Began
			started()
		case r.Ended != nil:
			delete(pending, r.Ended.key())
			w.keep(*r.Ended)
		case r.Counted != "":
			w.figures.add(r.Counted, 1)
		case r.Logged != "" && w.cfg.Logger != nil:
			w.cfg.Logger.Info(r.Logged)
		}
	}
}

func (o Op) key() begun { return begun{o.Kind, o.Job, o.Fence, o.Call} }

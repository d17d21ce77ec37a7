package exec

import (
	"bytes"
	"io"
	"strings"

	"github.com/weft-fabric/weft/job"
)

// longestLine is where a line of stderr is broken for the log, in bytes.
const longestLine = 4 << 10

// tail reads a command's stderr: each line goes to the log, and the last
// job.MaxReasonSize bytes are kept. One goroutine writes it; it is read once
// that one is done.
type tail struct {
	log  func(line string)
	last []byte // at most twice what is kept
	line []byte // the line that has begun
}

// readFrom reads r to its end.
func (t *tail) readFrom(r io.Reader) {
	_, _ = io.Copy(t, r) // what could not be read is no part of the reason
	if len(t.line) > 0 {
		t.endLine()
	}
}

// Write takes the next bytes of stderr.
func (t *tail) Write(p []byte) (int, error) {
	t.keep(p)
	for rest := p; len(rest) > 0; {
		line, after, ended := bytes.Cut(rest, []byte{'\n'})
		room := longestLine - len(t.line)
		if len(line) > room {
			line, after, ended = rest[:room], rest[room:], true
		}
		t.line = append(t.line, line...)
		if ended {
			t.endLine()
		}
		rest = after
	}
	return len(p), nil
}

func (t *tail) endLine() {
	t.log(strings.ToValidUTF8(strings.TrimSuffix(string(t.line), "\r"), "\uFFFD"))
	t.line = t.line[:0]
}

// keep appends p to the end that is kept. It drops the beginning only when twice
// as much has gathered, so that many small writes stay cheap.
func (t *tail) keep(p []byte) {
	if len(p) > job.MaxReasonSize {
		p = p[len(p)-job.MaxReasonSize:]
	}
	t.last = append(t.last, p...)
	if over := len(t.last) - job.MaxReasonSize; over > job.MaxReasonSize {
		t.last = append(t.last[:0], t.last[over:]...)
	}
}

// text is the end of stderr, valid and trimmed.
func (t *tail) text() string {
	last := t.last
	if over := len(last) - job.MaxReasonSize; over > 0 {
		last = last[over:]
	}
	return strings.TrimSpace(strings.ToValidUTF8(string(last), "\uFFFD"))
}

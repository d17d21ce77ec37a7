package exec_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/weft-fabric/weft/job"
	"github.com/weft-fabric/weft/worker"
	"github.com/weft-fabric/weft/worker/exec"
)

// input is the option of an input for the command.
func input(body io.ReadCloser) func(*exec.Options) {
	return func(o *exec.Options) {
		o.Input = func(context.Context, job.Job) (io.ReadCloser, error) { return body, nil }
	}
}

func TestInputThatBreaksOffFailsTheAttempt(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"cat >/dev/null; echo done",         // it takes the end for the whole
		"cat >/dev/null; exit 65",           // its verdict is of half an input
		"trap 'exit 0' TERM; cat; sleep 60", // it obeys the stop
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			body := io.NopCloser(io.MultiReader(strings.NewReader(strings.Repeat("x", 100_000)), iotest.ErrReader(errors.New("server away"))))
			o := work(t, script(t, text, input(body)))
			if o.Kind() != job.KindFailed || o.Reason() != "reading the input: server away" {
				t.Errorf("got %s %q", o, o.Reason())
			}
		})
	}
}

// blocked is an input that gives something and then nothing more until it is
// closed.
type blocked struct {
	io.Reader
	closed chan struct{}
	once   sync.Once
}

func newBlocked(head string) *blocked {
	return &blocked{Reader: strings.NewReader(head), closed: make(chan struct{})}
}

func (b *blocked) Read(p []byte) (int, error) {
	if n, err := b.Reader.Read(p); err == nil {
		return n, nil
	}
	<-b.closed
	return 0, errors.New("closed under its reader")
}

func (b *blocked) Close() error {
	b.once.Do(func() { close(b.closed) })
	return nil
}

func TestInputNeedNotBeRead(t *testing.T) {
	t.Parallel()
	for name, head := range map[string]string{"big": strings.Repeat("x", 1<<20), "blocked": "x", "blocked at once": ""} {
		for _, text := range []string{"echo done", "exec 0<&-; echo done", "head -c 1 </dev/null; echo done"} {
			t.Run(name+" "+text, func(t *testing.T) {
				t.Parallel()
				body := newBlocked(head)
				if got := string(output(t, work(t, script(t, text, input(body))))); got != "done\n" {
					t.Errorf("got %q", got)
				}
				select {
				case <-body.closed:
				default:
					t.Error("the input was not closed")
				}
			})
		}
	}
}

func TestNULThatNoEnvironmentHoldsIsDiscarded(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*job.Job){
		"input_ref": func(j *job.Job) { j.InputRef = "data:,a\x00b" },
		"key":       func(j *job.Job) { j.Key = "a\x00b" },
	} {
		j := leased(t)
		change(&j)
		o := script(t, "echo done").Work(t.Context(), worker.NewTask(j, nil))
		if o.Kind() != job.KindDiscarded || !strings.Contains(o.Reason(), "NUL") || strings.ContainsAny(o.Reason(), "\n\x00") {
			t.Errorf("%s: got %s %q", name, o, o.Reason())
		}
	}
}

package worker_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/weft-fabric/weft/job"
	"github.com/weft-fabric/weft/worker"
)

// texts are inputs by their references; a reference that is an error's text is that.
type texts map[string]error

func (t texts) OpenRef(_ context.Context, ref string) (io.ReadCloser, error) {
	return io.NopCloser(strings.NewReader(ref)), t[ref]
}

func (t texts) LinkRef(_ context.Context, ref string) (string, error) { return "link:" + ref, t[ref] }

func TestAnInputThatCannotBeOpenedSaysWhatBecomesOfItsJob(t *testing.T) {
	t.Parallel()
	from := texts{"gone": fmt.Errorf("gone: %w", job.ErrUnopenable), "away": errors.New("server away")}
	read := func(ctx context.Context, task *worker.Task, _ struct{}) ([]byte, error) {
		if _, err := task.InputLink(ctx); err != nil && task.Job().Key == "link" {
			return nil, err
		}
		input, err := task.Input(ctx)
		if err != nil {
			return nil, err
		}
		return io.ReadAll(input)
	}
	for _, c := range []struct {
		ref, key string
		kind     job.OutcomeKind
		reason   string
	}{
		{"hello", "", job.KindCompleted, ""},
		{"hello!", "", job.KindDiscarded, "more than 5 bytes"},
		{"gone", "", job.KindDiscarded, "input: gone"},
		{"gone", "link", job.KindDiscarded, "input link: gone"},
		{"away", "", job.KindFailed, "input: server away"},
		{"away", "link", job.KindFailed, "input link: server away"},
	} {
		task := worker.NewTask(job.Job{Spec: job.Spec{InputRef: c.ref, Key: c.key}}, nil).WithInputs(from, 5)
		if o := worker.Typed(read).Work(t.Context(), task); o.Kind() != c.kind || !strings.Contains(o.Reason(), c.reason) {
			t.Errorf("%s %s: %s %q", c.ref, c.key, o, o.Reason())
		}
	}
	task := worker.NewTask(job.Job{Spec: job.Spec{InputRef: "hello"}}, nil)
	if _, err := task.Input(t.Context()); err == nil || !strings.Contains(err.Error(), "Options.Inputs") {
		t.Errorf("without inputs: %v", err)
	}
}

package exec_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/weft-fabric/weft/job"
	"github.com/weft-fabric/weft/worker"
	"github.com/weft-fabric/weft/worker/exec"
)

func TestInputFileHasTheWholeInputOrTheCommandDoesNotRun(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	asFile := func(o *exec.Options) { o.InputFile, o.MaxInput = true, 10 }
	for name, c := range map[string]struct {
		body   io.Reader
		kind   job.OutcomeKind
		reason string
	}{
		"whole":      {strings.NewReader("0123456789"), job.KindCompleted, ""},
		"too large":  {strings.NewReader("0123456789x"), job.KindDiscarded, "more than 10 bytes"},
		"broken off": {io.MultiReader(strings.NewReader("0123"), iotest.ErrReader(errors.New("server away"))), job.KindFailed, "reading the input: server away"},
	} {
		ran := dir + "/ran"
		h := script(t, `cat "$WEFT_INPUT_FILE"; grep -q jb_1 && touch `+ran, input(io.NopCloser(c.body)), asFile)
		o := work(t, h)
		if o.Kind() != c.kind || !strings.Contains(o.Reason(), c.reason) {
			t.Errorf("%s: %s %q", name, o, o.Reason())
		}
		if c.kind == job.KindCompleted && string(output(t, o)) != "0123456789" {
			t.Errorf("%s: the command read %q", name, output(t, o))
		}
		if err := os.Remove(ran); (err == nil) != (c.kind == job.KindCompleted) {
			t.Errorf("%s: the command's trace: %v", name, err)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("%s: left %v, %v", name, left, err)
		}
	}
}

func TestALinkIsShownToTheCommandAlone(t *testing.T) {
	t.Parallel()
	const link = "http://h/b/k?X-Amz-Credential=acc%2Fess&X-Amz-Signature=s1gn"
	var log syncBuffer
	h := script(t, `echo "cannot get $WEFT_INPUT_URL" >&2; echo "acc/ess acc%2Fess s1gn ${WEFT_INPUT_URL#*\?}" >&2; exit 1`, func(o *exec.Options) {
		o.InputURL = func(context.Context, job.Job) (string, error) { return link, nil }
	})
	logger := slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	o := h.Work(t.Context(), worker.NewTask(leased(t), logger))
	if want := "cannot get data:,a b\tc\n[hidden] [hidden] [hidden] [hidden]"; o.Reason() != want {
		t.Errorf("the reason is %q, want %q", o.Reason(), want)
	}
	if text := log.String(); strings.Contains(text, "s1gn") || strings.Contains(text, "ess") || !strings.Contains(text, "cannot get data:") {
		t.Errorf("the log is %s", text)
	}
	none := script(t, `echo "${WEFT_INPUT_URL-unset}"`, func(o *exec.Options) {
		o.InputURL = func(context.Context, job.Job) (string, error) { return "", nil }
	})
	if got := string(output(t, work(t, none))); got != "unset\n" {
		t.Errorf("without a link WEFT_INPUT_URL is %q", got)
	}
}

package exec

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weft-fabric/weft/job"
	"github.com/weft-fabric/weft/worker"
)

// Exit statuses with a meaning of their own, from sysexits.h.
const (
	// ExitPermanent (EX_DATAERR) fails the job whatever attempts are left.
	ExitPermanent = 65
	// ExitReturn (EX_TEMPFAIL) gives the job back at no charge.
	ExitReturn = 75
)

// Options are the settings of a Handler. Start from DefaultOptions.
type Options struct {
	// Grace is how long a command may take between SIGTERM and SIGKILL. The
	// default is 5 s.
	Grace time.Duration
	// Linger is how long after the command's end others of its process group may
	// still write to stdout or stderr before they are killed; without any such
	// writer they are killed at once. The default is 500 ms.
	Linger time.Duration
	// MaxOutput is the most bytes of stdout that a job may have; the default is
	// 256 MiB. A job that writes more fails for good.
	MaxOutput int64
	// MemoryOutput is how many bytes of stdout are kept in memory before the
	// output goes to a temporary file. The default is 64 KiB.
	MemoryOutput int
	// Input, if not nil, opens the job's input, which the command gets on stdin in
	// place of the record, or with InputFile as a file. A job whose input it cannot
	// open fails, for good if the error matches job.ErrUnopenable.
	Input func(context.Context, job.Job) (io.ReadCloser, error)
	// InputFile puts the whole input into a temporary file before the command starts.
	// WEFT_INPUT_FILE names it, and it is removed when the attempt has ended.
	InputFile bool
	// MaxInput is the most bytes of input that a job may have; the default is 1 GiB.
	// A job with more fails for good.
	MaxInput int64
	// InputURL, if not nil, makes a link to the job's input, which the command gets as
	// WEFT_INPUT_URL; an empty one is left out. It is a secret: the log and the reason
	// have the input_ref in its place.
	InputURL func(context.Context, job.Job) (string, error)
	// StderrLevel is the level at which lines of stderr are logged. The default
	// is debug.
	StderrLevel slog.Level
	// Environ, if not nil, gives variables of one attempt's command beyond those of
	// this process and the job's own, as NAME=value; they win over both. ctx is the
	// attempt's.
	Environ func(ctx context.Context) []string
}

// DefaultOptions are the settings that suit most commands.
func DefaultOptions() Options {
	return Options{
		Grace:        5 * time.Second,
		Linger:       500 * time.Millisecond,
		MaxOutput:    256 << 20,
		MaxInput:     job.DefaultMaxInput,
		MemoryOutput: 64 << 10,
		StderrLevel:  slog.LevelDebug,
	}
}

// Validate refuses settings that cannot work.
func (o Options) Validate() error {
	switch {
	case o.Grace <= 0:
		return fmt.Errorf("exec option Grace %s is not above 0; the default is 5s", o.Grace)
	case o.Linger < 0:
		return fmt.Errorf("exec option Linger %s is negative; use 0 to kill what is left at once", o.Linger)
	case o.MaxOutput < 0:
		return fmt.Errorf("exec option MaxOutput %d is negative; the default is 268435456", o.MaxOutput)
	case o.MaxInput < 0:
		return fmt.Errorf("exec option MaxInput %d is negative; the default is %d", o.MaxInput, job.DefaultMaxInput)
	case o.InputFile && o.Input == nil:
		return errors.New("exec option InputFile needs Input, which opens what goes into the file")
	case o.MemoryOutput < 0:
		return fmt.Errorf("exec option MemoryOutput %d is negative; use 0 for always a file", o.MemoryOutput)
	}
	return nil
}

// Handler runs one command for each attempt. It may be used from many
// goroutines at once.
type Handler struct {
	argv    []string
	path    string
	options Options
}

var _ worker.Handler = (*Handler)(nil)

// New makes a handler that runs argv. It looks the command up, so that a name
// that does not exist is reported before any job is taken.
func New(argv []string, o Options) (*Handler, error) {
	if len(argv) == 0 || argv[0] == "" {
		return nil, errors.New("no command is given")
	}
	if err := o.Validate(); err != nil {
		return nil, err
	}
	path, err := exec.LookPath(argv[0])
	if err != nil {
		return nil, cannotRun(argv[0], err)
	}
	return &Handler{argv: argv, path: path, options: o}, nil
}

// cannotRun says in one line why a command cannot be run.
func cannotRun(name string, err error) error {
	if wrapped, ok := errors.AsType[*exec.Error](err); ok { // it repeats the name
		err = wrapped.Err
	}
	if at, ok := errors.AsType[*fs.PathError](err); ok {
		err = at.Err
	}
	return fmt.Errorf("command %q cannot be run: %w; check the name, or give its path", name, err)
}

// Grace is how long a command may take between SIGTERM and SIGKILL; Work returns
// within a few seconds after it.
func (h *Handler) Grace() time.Duration { return h.options.Grace }

// Work runs the command for one attempt and waits for its end.
func (h *Handler) Work(ctx context.Context, t *worker.Task) job.Outcome {
	if strings.ContainsRune(t.Job().InputRef+t.Job().Key, 0) {
		return job.Discarded("input_ref or key has a NUL, which no environment variable can hold")
	}
	in, err := h.feedFor(ctx, t.Job())
	if err != nil {
		return failed(err)
	}
	defer in.remove()
	ended, err := h.run(ctx, t.Job(), in, t.Log())
	if err != nil {
		_ = in.stdin.Close() // nothing has read it
		return job.Failed(fmt.Sprintf("starting %s: %s", h.argv[0], err))
	}
	return ended.outcome(context.Cause(ctx))
}

// failed is the outcome of an attempt that did not get its input.
func failed(err error) job.Outcome {
	if errors.Is(err, job.ErrUnopenable) {
		return job.Discarded(err.Error())
	}
	return job.Failed(err.Error())
}

// command is the attempt's command, not yet started. The trace of its environment is
// the job's, never the one that this process itself may have been started in.
func (h *Handler) command(ctx context.Context, j job.Job, more []string) *exec.Cmd {
	cmd := &exec.Cmd{Path: h.path, Args: h.argv, SysProcAttr: attributes()}
	cmd.Env = append(slices.DeleteFunc(os.Environ(), isTrace),
		"WEFT_JOB_ID="+j.ID,
		"WEFT_STAGE="+j.Stage,
		"WEFT_ATTEMPT="+strconv.FormatInt(j.Attempt, 10),
		"WEFT_FENCE="+strconv.FormatInt(j.Fence, 10),
		"WEFT_INPUT_REF="+j.InputRef,
		"WEFT_KEY="+j.Key,
		"WEFT_WORKER_ID="+j.WorkerID,
	)
	trace := j.Trace.Environ()
	if h.options.Environ != nil {
		trace = append(trace, h.options.Environ(ctx)...)
	}
	cmd.Env = append(cmd.Env, trace...)
	cmd.Env = append(cmd.Env, more...)
	return cmd
}

func isTrace(variable string) bool {
	return strings.HasPrefix(variable, job.TraceParentVariable+"=") || strings.HasPrefix(variable, job.TraceStateVariable+"=")
}

// end is how a command ended.
type end struct {
	state  *os.ProcessState
	output *spool
	stderr string // its last few KiB, trimmed
	input  error  // why the command did not get its whole input
}

// outcome says what the end means. cause is why the attempt had to stop, nil if
// it did not. A command that was told to stop and still says how it ended is
// believed.
func (e end) outcome(cause error) job.Outcome {
	if e.input != nil {
		return failed(e.input)
	}
	if err := e.output.err; errors.Is(err, errTooLarge) {
		return job.Discarded(err.Error())
	} else if err != nil {
		return job.Failed(err.Error())
	}
	switch code := e.state.ExitCode(); {
	case code == 0:
		return e.output.outcome()
	case code == ExitPermanent:
		return job.Discarded(e.reason(nil))
	case code == ExitReturn:
		return job.Returned(e.reason(nil))
	}
	return job.Failed(e.reason(cause))
}

// reason is the end of stderr, or how the command ended if it was silent, after
// the cause if there is one.
func (e end) reason(cause error) string {
	var parts []string
	if cause != nil {
		parts = append(parts, cause.Error())
	}
	if e.stderr != "" {
		parts = append(parts, e.stderr)
	} else {
		parts = append(parts, describe(e.state))
	}
	return strings.Join(parts, ": ")
}

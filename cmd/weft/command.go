package main

import (
	"context"
	"io"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/weft-fabric/weft/fabric"
	"github.com/weft-fabric/weft/internal/app"
	"github.com/weft-fabric/weft/job"
	"github.com/weft-fabric/weft/worker/exec"
)

// commandFlags say how the command of an attempt is fed and how much it may say.
type commandFlags struct {
	stdin     string
	inputFile bool
	maxInput  int64 // a setting, known when the command begins
	maxOutput int64
}

// What a command can get on stdin.
const (
	stdinRecord = "record"
	stdinInput  = "input"
)

func (f *commandFlags) bind(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.stdin, "stdin", stdinRecord, "`WHAT` the command gets on stdin: record, or input for what input_ref names")
	cmd.Flags().BoolVar(&f.inputFile, "input-file", false, "put what input_ref names into a temporary file, which WEFT_INPUT_FILE names; stdin has the record")
	cmd.Flags().Int64Var(&f.maxOutput, "max-output", exec.DefaultOptions().MaxOutput, "most `BYTES` of output; a job with more fails for good")
}

// commandHandler runs the command. It is made, and so checked, before there is a
// server; what it needs of the process is set before the first job is taken.
type commandHandler struct {
	*exec.Handler
	inputs  *fabric.Fabric
	environ func(context.Context) []string // nil without traces
}

// use takes what the handler needs of the process.
func (h *commandHandler) use(a *app.App) { h.inputs, h.environ = a.Fabric(), a.Environ() }

// environment gives a command the trace of its attempt.
func (h *commandHandler) environment(ctx context.Context) []string {
	if h.environ == nil {
		return nil
	}
	return h.environ(ctx)
}

// newHandler looks the command up; what is wrong here is the caller's mistake.
func newHandler(stage string, argv []string, f commandFlags, stderr slog.Level) (*commandHandler, error) {
	if err := job.CheckStage(stage); err != nil {
		return nil, err
	}
	h := &commandHandler{}
	o := exec.DefaultOptions()
	o.MaxInput, o.MaxOutput, o.StderrLevel = f.maxInput, f.maxOutput, stderr
	o.Environ = h.environment
	o.InputFile, o.InputURL = f.inputFile, h.link
	switch {
	case f.stdin != stdinRecord && f.stdin != stdinInput:
		return nil, app.Usage("--stdin %q is neither record nor input", f.stdin)
	case f.stdin == stdinInput && f.inputFile:
		return nil, app.Usage("--stdin input and --input-file are two ways to the same; give one")
	case f.stdin == stdinInput || f.inputFile:
		o.Input = h.input
	}
	handler, err := exec.New(argv, o)
	if err != nil {
		return nil, &app.UsageError{Err: err}
	}
	h.Handler = handler
	return h, nil
}

// input opens what input_ref names.
func (h *commandHandler) input(ctx context.Context, j job.Job) (io.ReadCloser, error) {
	return h.inputs.OpenRef(ctx, j.InputRef)
}

// link makes a link to what input_ref names, if its scheme has links.
func (h *commandHandler) link(ctx context.Context, j job.Job) (string, error) {
	return h.inputs.LinkRef(ctx, j.InputRef)
}

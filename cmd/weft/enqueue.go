package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weft-fabric/weft/fabric"
	"github.com/weft-fabric/weft/internal/app"
	"github.com/weft-fabric/weft/job"
)

// enqueueFlags are the flags of weft enqueue beside the settings.
type enqueueFlags struct {
	jobs      string
	keepGoing bool
	resumable bool
	asJSON    bool

	jobFlags
	input string
	in    time.Duration
	at    string
}

func (p *program) newEnqueue() *cobra.Command {
	var f enqueueFlags
	cmd := &cobra.Command{
		Use:   "enqueue STAGE (--input FILE | --input-ref REF | --jobs FILE)",
		Short: "Publish one job, or a file of jobs",
		Long: `Enqueue publishes a job and prints its id, or with --jobs one id for each line
of a JSONL file of specs. A spec has the members of a record: input_ref, and if
wanted id, payload, dependencies, on_dependency_failure, key, max_attempts,
priority, timeout, labels, available_at and input_revision.

A file is checked as a whole first: if any line is broken, nothing is enqueued
unless --keep-going is given. Enqueueing the same id again with the same spec
changes nothing; with another spec it is refused with duplicate_job. A job that
others depend on has to come before them.

A reference is opaque to Weft, except data: URIs and nats-obj://BUCKET/NAME, and
s3:// and http(s):// where a runner is told to open them.

With --input the job's input is the content of a file: of up to 8 KiB in the
reference itself, of more in the object store of inputs, under its SHA-256. So
the same command once more uploads nothing again. A keeper removes an input
that no record mentions when the retention of succeeded jobs has passed.

Jobs belong to the trace that TRACEPARENT in the environment names, unless their
spec has a traceparent.`,
		Example: `  weft enqueue hash --input-ref data:,hello
  weft enqueue resize --input photo.jpg
  weft enqueue mail --input-ref db:42 --in 10m --priority 1 --label tenant=acme
  weft enqueue hash --jobs jobs.jsonl --resumable`,
		Args: oneStage,
	}
	f.bind(cmd)
	loader := connecting(cmd, "max_attempts", "max_input")
	return p.command(cmd, loader, func(ctx context.Context, s settings, args []string) error {
		if err := job.CheckStage(args[0]); err != nil {
			return err
		}
		if f.jobs != "" {
			return p.enqueueFile(ctx, s, args[0], f)
		}
		return p.enqueueOne(ctx, s, args[0], f)
	})
}

func oneStage(_ *cobra.Command, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("give one stage, not %d", len(args))
	}
	return nil
}

// specFlags are those that say what one job is, and mean nothing for a file.
var specFlags = []string{
	"input", "input-ref", "input-revision", "id", "payload", "key", "after", "on-dependency-failure",
	"priority", "timeout", "label", "in", "at",
}

func (f *enqueueFlags) bind(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.jobs, "jobs", "", "JSONL `FILE` of specs, or - for stdin")
	flags.BoolVar(&f.keepGoing, "keep-going", false, "with --jobs: go on after lines that are broken or refused")
	flags.BoolVar(&f.resumable, "resumable", false, "with --jobs: make ids from the lines and their numbers, so that the same command once more enqueues only what is missing")
	f.jobFlags.bind(flags)
	flags.StringVar(&f.input, "input", "", "`FILE` that is the input, or - for stdin")
	flags.StringVar(&f.spec.ID, "id", "", "job `ID`; a fresh one by default")
	flags.DurationVar(&f.in, "in", 0, "start not before this time has passed")
	flags.StringVar(&f.at, "at", "", "start not before this `TIME`, as 2006-01-02T15:04:05Z")
	jsonFlag(cmd, &f.asJSON)
	cmd.PreRunE = f.check
	exclusive(cmd, "in", "at")
	exclusive(cmd, "input", "input-ref")
	oneOf(cmd, "input", "input-ref", "jobs")
	for _, name := range specFlags {
		exclusive(cmd, "jobs", name)
	}
}

// check refuses what the flags' own forms let pass.
func (f *enqueueFlags) check(cmd *cobra.Command, _ []string) error {
	given := cmd.Flags().Changed
	switch {
	case f.keepGoing && f.jobs == "":
		return errors.New("--keep-going needs --jobs")
	case f.resumable && f.jobs == "":
		return errors.New("--resumable needs --jobs; a single job is resumable by its --id")
	case given("in") && f.in < 0:
		return fmt.Errorf("--in %s is negative", f.in)
	case given("input") && f.input == "":
		return errors.New("--input is empty; give a file, or - for stdin")
	case given("id") && f.spec.ID == "":
		return errors.New("--id is empty; leave it out for a fresh id")
	}
	if err := f.checkJob(given); err != nil {
		return err
	}
	return f.fill(given)
}

// fill moves into the spec what a flag cannot write there itself.
func (f *enqueueFlags) fill(given func(string) bool) (err error) {
	if given("at") {
		if f.spec.AvailableAt, err = time.Parse(time.RFC3339Nano, f.at); err != nil {
			return fmt.Errorf("--at %q is not a time such as 2006-01-02T15:04:05Z", f.at)
		}
	}
	return nil
}

func (p *program) enqueueOne(ctx context.Context, s settings, stage string, f enqueueFlags) (err error) {
	spec := f.spec
	spec.Stage, spec.Trace = stage, surroundingTrace()
	if s.given("max_attempts") {
		spec.MaxAttempts = s.MaxAttempts
	}
	if f.input != "" {
		spec.InputRef = "to be known" // so that all the rest is checked before a byte is sent
	}
	if err := checkSpec(spec, s.MaxAttempts); err != nil {
		return err
	}
	input, err := p.openInput(f.input)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, input.Close()) }()
	return p.with(ctx, s, "enqueue", func(ctx context.Context, a *app.App) error {
		if err := a.Refusals().MayEnqueue(ctx, stage); err != nil {
			return err
		}
		if f.input != "" {
			if spec.InputRef, err = a.Fabric().PutInput(ctx, input); err != nil {
				return fmt.Errorf("--input %s: %w; nothing is enqueued", f.input, err)
			}
		}
		if f.in > 0 {
			spec.AvailableAt = a.Fabric().Now().Add(f.in)
		}
		ctx, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		j, err := a.Fabric().Enqueue(ctx, spec, fabric.OnConflict(f.conflict))
		if err != nil {
			return err
		}
		return printJob(p.Out, j, f.asJSON)
	})
}

// openInput opens the file of --input, before there is a connection. Without one it
// gives nothing.
func (p *program) openInput(name string) (io.ReadCloser, error) {
	switch name {
	case "":
		return io.NopCloser(strings.NewReader("")), nil
	case "-":
		return io.NopCloser(p.In), nil
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, &app.UsageError{Err: fmt.Errorf("--input: %w", err)}
	}
	if info, err := file.Stat(); err != nil || info.IsDir() {
		_ = file.Close() // only looked at
		return nil, app.Usage("--input %s is a folder; give a file", name)
	}
	return file, nil
}

// printJob prints the record, or only the id.
func printJob(to io.Writer, j job.Job, asJSON bool) error {
	line := append([]byte(j.ID), '\n')
	if asJSON {
		line = append(j.AppendJSON(nil), '\n')
	}
	_, err := to.Write(line)
	return err
}

func (p *program) enqueueFile(ctx context.Context, s settings, stage string, f enqueueFlags) (err error) {
	file, err := openSpecs(f.jobs, p.In)
	if err != nil {
		return &app.UsageError{Err: err}
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	fresh := func() *specChecker {
		return &specChecker{stage: stage, maxAttempts: s.MaxAttempts, number: f.resumable, trace: surroundingTrace()}
	}
	batch, err := checkBatch(file, fresh, f.keepGoing, p.complain)
	if err != nil {
		return err
	}
	p.noteEmpty(batch)
	return p.with(ctx, s, "enqueue", func(ctx context.Context, a *app.App) error {
		if err := a.Refusals().MayEnqueue(ctx, stage); err != nil {
			return err
		}
		return p.enqueueBatch(ctx, a.Fabric(), batch, f)
	})
}

func (p *program) enqueueBatch(ctx context.Context, fab *fabric.Fabric, batch *specBatch, f enqueueFlags) error {
	refused := 0
	out := bufio.NewWriter(p.Out)
	err := enqueueAll(ctx, fab.EnqueueMany, batch.specs(), func(e enqueued) error {
		if e.err == nil {
			return printJob(out, e.job, f.asJSON)
		}
		if !f.keepGoing {
			return fmt.Errorf("%w; the jobs whose ids are printed are enqueued", batch.at(e.line, e.err))
		}
		refused++
		p.complain(batch.at(e.line, e.err))
		return nil
	}, fabric.OnConflict(f.conflict))
	err = errors.Join(err, out.Flush())
	if err == nil && refused+batch.broken > 0 {
		return &app.QuietError{Code: app.ExitFailed}
	}
	return err
}

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/weft-fabric/weft/config"
	"github.com/weft-fabric/weft/internal/app"
	"github.com/weft-fabric/weft/internal/bench"
)

func (p *program) newBench() *cobra.Command {
	o := bench.DefaultOptions()
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure the fabric against raw JetStream",
		Long: `Bench measures what raw JetStream does and what the fabric does, in one run, and
prints each figure with the bound that the raw figures allow and its part of it.
It starts a server in a process of its own unless one is given, works in a
namespace of its own, and removes it in the end.`,
		Example: `  weft bench
  weft bench --jobs 100000 --slots 64 --json
  weft bench --growth 1000000 --for 15m
  weft bench --server nats://127.0.0.1:4222`,
		Args: cobra.NoArgs,
	}
	flags := cmd.Flags()
	flags.IntVar(&o.Jobs, "jobs", o.Jobs, "`JOBS` of each throughput figure")
	flags.DurationVar(&o.For, "for", o.For, "the whole run ends after `D`")
	flags.IntVar(&o.Payload, "payload", o.Payload, "`BYTES` of a job's payload")
	flags.IntSliceVar(&o.Slots, "slots", o.Slots, "numbers of `SLOTS` to drain with")
	flags.IntVar(&o.Held, "held", o.Held, "`LEASES` that are renewed at once")
	flags.IntVar(&o.Workers, "processes", o.Workers, "`PROCESSES` that drain together; 0 leaves that out")
	flags.IntVar(&o.Growth, "growth", o.Growth, "also drain with `JOBS` waiting behind, and as many records kept; a million take some minutes")
	jsonFlag(cmd, &asJSON)
	loader := connecting(cmd)
	return p.command(cmd, loader, func(ctx context.Context, s settings, _ []string) error {
		if err := o.Validate(); err != nil {
			return &app.UsageError{Err: err}
		}
		o.Logger = s.log
		return p.bench(ctx, s, o, asJSON)
	})
}

func (p *program) bench(ctx context.Context, s settings, o bench.Options, asJSON bool) (err error) {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	c := s.Connection
	if !s.given("server") && !s.given("context") {
		url, server, startErr := p.benchServer()
		if startErr != nil {
			return startErr
		}
		defer func() { err = errors.Join(err, server.Stop()) }()
		o.Server = server.ID
		c = config.Connection{Server: url}
	}
	nc, err := app.Connect(c, s.Namespace, "weft bench", s.log)
	if err != nil {
		return err
	}
	defer nc.Close()
	o.Worker = func(ctx context.Context, namespace, stage string, slots int) (bench.Process, error) {
		cmd, err := self("bench-worker", stage, "--server", nc.ConnectedUrl(), "--namespace", namespace, "--concurrency", strconv.Itoa(slots))
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			return bench.Process{}, err
		}
		return bench.Process{ID: cmd.Process.Pid, Stop: func() error { return end(cmd) }}, nil
	}
	t := newTable(p.Out, "FIGURE", "VALUE", "UNIT", "BOUND", "RATIO")
	var printErr error
	err = bench.Run(ctx, nc, o, func(f bench.Figure) {
		p.note("%s: %s", f.Name, strings.TrimSpace(value(f.Value)+" "+f.Unit))
		if asJSON {
			printErr = errors.Join(printErr, json.NewEncoder(p.Out).Encode(f))
			return
		}
		printErr = errors.Join(printErr, t.row(f.Name, value(f.Value), f.Unit, value(f.Bound), ratio(f)))
	})
	if !asJSON {
		printErr = errors.Join(printErr, t.flush())
	}
	return errors.Join(err, printErr)
}

func value(v float64) string {
	switch {
	case v == 0:
		return "-"
	case v < 10:
		return strconv.FormatFloat(v, 'f', 2, 64)
	}
	return strconv.FormatFloat(v, 'f', 0, 64)
}

func ratio(f bench.Figure) string {
	if f.Bound == 0 {
		return "-"
	}
	return strconv.FormatFloat(f.Ratio, 'f', 2, 64)
}

// self is this program as a command that ends with it.
func self(args ...string) (*exec.Cmd, error) {
	path, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(path, args...)
	cmd.Stderr = io.Discard
	return cmd, nil
}

// end ends a process that this one has started, and waits for it.
func end(cmd *exec.Cmd) error {
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	return cmd.Wait()
}

// benchServer starts weft serve on a folder that is removed with it, and reads
// where it listens.
func (p *program) benchServer() (url string, server bench.Process, err error) {
	dir, err := os.MkdirTemp("", "weft-bench-")
	if err != nil {
		return "", server, err
	}
	cmd, err := self("serve", "--data", dir, "--listen", "127.0.0.1:-1")
	if err != nil {
		return "", server, errors.Join(err, os.RemoveAll(dir))
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return "", server, errors.Join(err, os.RemoveAll(dir))
	}
	server = bench.Process{ID: cmd.Process.Pid, Stop: func() error { return errors.Join(end(cmd), os.RemoveAll(dir)) }}
	url, err = bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return "", server, errors.Join(fmt.Errorf("the benchmark's own server did not start: %w", err), server.Stop())
	}
	return strings.TrimSpace(url), server, nil
}

// newBenchWorker is one of the processes that drain together.
func (p *program) newBenchWorker() *cobra.Command {
	cmd := &cobra.Command{Use: "bench-worker STAGE", Hidden: true, Args: cobra.ExactArgs(1), Short: "Run no-op jobs for weft bench"}
	loader := connecting(cmd, "concurrency")
	return p.command(cmd, loader, func(ctx context.Context, s settings, args []string) (err error) {
		ctx, _, stop := app.Signals(ctx)
		defer stop()
		a, err := app.Start(ctx, app.Options{Config: s.Config, Logger: s.log, Name: "weft bench-worker"})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, a.Stop()) }()
		return a.Work(ctx, app.Work{Stage: args[0], Handler: bench.Noop, Grace: config.Default().Drain})
	})
}

package exec

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"time"

	"github.com/weft-fabric/weft/job"
)

// process is a command that was started, with the parent's ends of its pipes.
// The pipes are made here and not by os/exec, whose Wait would wait for every
// process that holds one, without a way to kill them first.
type process struct {
	cmd    *exec.Cmd
	stdin  *os.File
	stdout *os.File
	stderr *os.File

	reapOnce sync.Once
	reapErr  error
}

// closeDelay bounds the wait for the ends of stdout and stderr after the process
// group was killed. Only a process that left the group can hold them open then.
const closeDelay = time.Second

// run starts the command, sees it to its end, and leaves nothing of it behind.
// The error is that of the start.
//
// It keeps its OS thread for the whole time: Linux sends the parent-death signal
// when the thread that started the process ends, not the process, and the Go
// runtime may end a thread that nobody holds. The thread is needed anyway, since
// waiting for the end blocks it.
func (h *Handler) run(ctx context.Context, j job.Job, in *given, log *slog.Logger) (end, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)

	p, err := start(h.command(ctx, j, in.env))
	if err != nil {
		return end{}, err
	}
	output := &spool{memory: h.options.MemoryOutput, limit: h.options.MaxOutput, failed: stop}
	stderr := &tail{log: func(line string) { log.Log(ctx, h.options.StderrLevel, "stderr", "line", in.shown(line)) }}
	fed := &feed{from: in.stdin, failed: stop}
	read := p.copy(fed, output, stderr)
	p.awaitEnd(ctx, h.options, fed, read)
	return end{state: p.cmd.ProcessState, output: output, stderr: in.shown(stderr.text()), input: fed.err}, nil
}

// start starts the command on three pipes. When it fails, no pipe is left.
func start(cmd *exec.Cmd) (*process, error) {
	p := &process{cmd: cmd}
	var child [3]*os.File
	defer func() {
		for _, f := range child {
			closeFile(f)
		}
	}()
	err := errors.Join(
		pipe(&child[0], &p.stdin),
		pipe(&p.stdout, &child[1]),
		pipe(&p.stderr, &child[2]),
	)
	if err == nil {
		cmd.Stdin, cmd.Stdout, cmd.Stderr = child[0], child[1], child[2]
		err = cmd.Start()
	}
	if err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

func pipe(reader, writer **os.File) (err error) {
	*reader, *writer, err = os.Pipe()
	return err
}

func closeFile(f *os.File) {
	if f != nil {
		_ = f.Close() // a pipe's end holds nothing that could be lost
	}
}

func (p *process) close() {
	closeFile(p.stdin)
	closeFile(p.stdout)
	closeFile(p.stderr)
}

// copy feeds stdin and reads stdout and stderr, each in a goroutine of its own.
// The channel is closed when all three are done.
func (p *process) copy(input *feed, stdout *spool, stderr *tail) <-chan struct{} {
	var streams sync.WaitGroup
	streams.Go(func() {
		_, _ = io.Copy(p.stdin, input) // feed keeps errors of the input; a command need not read its input
		closeFile(p.stdin)
	})
	streams.Go(func() { stdout.readFrom(p.stdout) })
	streams.Go(func() { stderr.readFrom(p.stderr) })
	done := make(chan struct{})
	go func() {
		streams.Wait()
		close(done)
	}()
	return done
}

// awaitEnd waits for the command, then for what it wrote, and kills what it left
// behind. The command is reaped last: until then its process id, which is the
// id of its group, cannot be given to a stranger that the signals would hit.
func (p *process) awaitEnd(ctx context.Context, o Options, input *feed, read <-chan struct{}) {
	exited := make(chan struct{})
	var stopper sync.WaitGroup
	stopper.Go(func() { p.stopOn(ctx, o.Grace, exited) })
	p.awaitExit()
	close(exited)
	stopper.Wait()

	closeFile(p.stdin) // frees a feeder whose reader has gone
	input.end()
	wait(ctx, read, o.Linger)
	p.killGroup()
	wait(context.WithoutCancel(ctx), read, closeDelay)
	p.close()
	<-read
	_ = p.reap() // the state says all that the error does
}

// stopOn tells the process group to stop when ctx ends, and kills it when it
// has not within grace.
func (p *process) stopOn(ctx context.Context, grace time.Duration, exited <-chan struct{}) {
	select {
	case <-exited:
		return
	case <-ctx.Done():
	}
	p.terminateGroup()
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-exited:
	case <-timer.C:
		p.killGroup()
	}
}

// wait waits until done, until ctx ends, and not longer than limit.
func wait(ctx context.Context, done <-chan struct{}, limit time.Duration) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-done:
	case <-ctx.Done():
	case <-timer.C:
	}
}

// reap collects the command's exit status, once.
func (p *process) reap() error {
	p.reapOnce.Do(func() { p.reapErr = p.cmd.Wait() })
	return p.reapErr
}

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// watchEvery is how often the use of CPU and memory is looked at. The kernel's
// own limits hold in between and a process's final figures are always checked,
// so this only sets how soon a process that went too far is stopped.
const watchEvery = 10 * time.Millisecond

// runTask runs the task in a process group of its own and returns when no
// process of that group is left. An error means that the judge failed or was
// stopped, never that the task did badly.
func runTask(ctx context.Context, t task) (outcome, error) {
	// The kernel sends the parent death signal when the starting thread ends, not
	// the process, so the goroutine has to stay on that thread.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	cmd, report, err := startLauncher(t)
	if err != nil {
		return outcome{}, fmt.Errorf("cannot start %s: %w", t.argv[0], err)
	}
	defer report.Close()

	pid := cmd.Process.Pid
	exited := make(chan struct{})
	go func() {
		defer close(exited)
		awaitExit(pid)
	}()
	stopped := watch(ctx, pid, t, exited)

	// The leader is not reaped yet, thus its id still names this group and no
	// other. Killing the group also ends whatever the leader left behind.
	_ = unix.Kill(-pid, unix.SIGKILL)
	<-exited
	_ = cmd.Wait() // how it ended is in ProcessState

	if problem, _ := io.ReadAll(report); len(problem) > 0 {
		return outcome{}, fmt.Errorf("cannot start %s: %s", t.argv[0], problem)
	}
	if stopped == stopCancelled {
		return outcome{}, fmt.Errorf("judging was stopped (%v): %w", context.Cause(ctx), context.Canceled)
	}
	return newOutcome(cmd.ProcessState, stopped), nil
}

// startLauncher starts this program again as the launcher, which confines itself
// and then becomes the task. The returned pipe carries an error when it cannot;
// it is at its end as soon as the task runs.
func startLauncher(t task) (*exec.Cmd, *os.File, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, nil, err
	}
	report, reportWriter, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	defer reportWriter.Close()

	cmd := exec.Command(self)
	cmd.Args = launcherArgs(t)
	cmd.Env = append([]string{}, t.env...) // never nil, which would mean the judge's own
	cmd.Dir = t.dir
	if t.stdin != nil {
		cmd.Stdin = t.stdin
	}
	cmd.Stdout, cmd.Stderr = t.stdout, t.stderr
	cmd.ExtraFiles = []*os.File{reportWriter}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		report.Close()
		return nil, nil, err
	}
	return cmd, report, nil
}

// awaitExit waits for the process to end and leaves it to be reaped.
func awaitExit(pid int) {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// watch returns when the process has ended or has to be stopped.
func watch(ctx context.Context, pid int, t task, exited <-chan struct{}) stopReason {
	wall := time.NewTimer(t.limits.wall)
	defer wall.Stop()
	look := time.NewTicker(watchEvery)
	defer look.Stop()
	for {
		select {
		case <-exited:
			return stopNone
		case <-ctx.Done():
			return stopCancelled
		case <-wall.C:
			return stopWall
		case <-look.C:
			if reason := beyondLimits(pid, t); reason != stopNone {
				return reason
			}
		}
	}
}

func beyondLimits(pid int, t task) stopReason {
	// The kernel keeps a file at its limit, but a program that does not look at
	// errors of writing would go on.
	if fileSize(t.stdout) >= t.limits.file || fileSize(t.stderr) >= t.limits.file {
		return stopOutput
	}
	used, err := readUsage(pid)
	switch {
	case err != nil: // it ended just now, and there is nothing left to see
		return stopNone
	case t.limits.memory > 0 && used.memory > t.limits.memory:
		return stopMemory
	case used.cpu > t.limits.cpu:
		return stopCPU
	}
	return stopNone
}

func newOutcome(state *os.ProcessState, stopped stopReason) outcome {
	o := outcome{
		stopped: stopped,
		ending:  describeEnding(state),
		cpu:     state.UserTime() + state.SystemTime(),
	}
	if usage, ok := state.SysUsage().(*syscall.Rusage); ok {
		o.memory = usage.Maxrss << 10
	}
	return o
}

func describeEnding(state *os.ProcessState) string {
	status, ok := state.Sys().(syscall.WaitStatus)
	switch {
	case state.Success():
		return ""
	case ok && status.Signaled():
		return "killed by " + unix.SignalName(status.Signal())
	default:
		return state.String()
	}
}

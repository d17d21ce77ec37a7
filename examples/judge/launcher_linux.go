package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// launcherName is the argv[0] by which this program knows that it was started
// to become a task. Resource limits must be in force before the task's first
// instruction, and only the process itself can do that without a race.
const launcherName = "judge-launcher"

// launcherReport is the descriptor on which the launcher says why it failed.
const launcherReport = 3

// maxOpenFiles is ample for a submission and for a compiler.
const maxOpenFiles = 256

func isLauncher(args []string) bool {
	return len(args) > 0 && args[0] == launcherName
}

// launcherArgs has three figures in front of the command to become: the limits
// that the kernel enforces.
func launcherArgs(t task) []string {
	seconds := int64((t.limits.cpu + time.Second - 1) / time.Second)
	figures := []string{
		launcherName,
		strconv.FormatInt(seconds, 10),
		strconv.FormatInt(t.limits.data, 10),
		strconv.FormatInt(t.limits.file, 10),
	}
	return append(figures, t.argv...)
}

// launch becomes the task. It returns only if that failed.
func launch(args []string) int {
	// no_new_privs belongs to a thread, so the thread that sets it must be the one
	// that executes the task.
	runtime.LockOSThread()
	report := os.NewFile(launcherReport, "report")
	unix.CloseOnExec(launcherReport)
	if err := becomeTask(args); err != nil {
		fmt.Fprint(report, err)
	}
	return exitFailed
}

func becomeTask(args []string) error {
	const figures = 3
	if len(args) < 1+figures+1 {
		return errors.New("the launcher is for the judge's own use")
	}
	var values [figures]uint64
	for i := range values {
		value, err := strconv.ParseUint(args[1+i], 10, 63)
		if err != nil {
			return err
		}
		values[i] = value
	}
	if err := confine(values[0], values[1], values[2]); err != nil {
		return err
	}
	argv := args[1+figures:]
	return os.NewSyscallError("execve", syscall.Exec(argv[0], argv, os.Environ()))
}

// confine sets what the kernel enforces. The limit of CPU time is one second
// above the judge's own, which is finer; it is there for the case that the
// judge is too busy to look. The limit of memory comes last, for it is lower
// than what the launcher's own runtime has mapped by now.
func confine(cpuSeconds, dataBytes, fileBytes uint64) error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return os.NewSyscallError("prctl", err)
	}
	wanted := []struct {
		resource   int
		soft, hard uint64
	}{
		{unix.RLIMIT_CORE, 0, 0},
		{unix.RLIMIT_NOFILE, maxOpenFiles, maxOpenFiles},
		{unix.RLIMIT_CPU, cpuSeconds + 1, cpuSeconds + 2},
		{unix.RLIMIT_FSIZE, fileBytes, fileBytes},
		{unix.RLIMIT_DATA, dataBytes, dataBytes},
	}
	for _, w := range wanted {
		if err := lowerLimit(w.resource, w.soft, w.hard); err != nil {
			return err
		}
	}
	return nil
}

// lowerLimit never asks for more than the judge itself was given, which the
// kernel would refuse.
func lowerLimit(resource int, soft, hard uint64) error {
	var now unix.Rlimit
	if err := unix.Getrlimit(resource, &now); err != nil {
		return os.NewSyscallError("getrlimit", err)
	}
	lowered := unix.Rlimit{Cur: min(soft, now.Max), Max: min(hard, now.Max)}
	return os.NewSyscallError("setrlimit", unix.Setrlimit(resource, &lowered))
}

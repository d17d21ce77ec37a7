//go:build unix

package history

import (
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// monotonic is the system's clock that nobody sets, which all processes share.
func monotonic() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic(err) // every system has it
	}
	return time.Duration(t.Nano())
}

// apart gives a child a process group of its own. A terminal's signals do not
// reach it; and if the parent dies while it is stopped, and so cannot notice, the
// system wakes and hangs up the group that has nobody left.
func apart() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// stopProcess and continueProcess keep a process from running, whatever it is at.
func stopProcess(p *os.Process) error     { return p.Signal(syscall.SIGSTOP) }
func continueProcess(p *os.Process) error { return p.Signal(syscall.SIGCONT) }

package exec

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// attributes give the command a process group of its own, and have the kernel
// kill it when the worker dies. The signal reaches the command alone; children
// of a shell that was killed this way live on until they notice.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// awaitExit waits for the command's exit without reaping it.
func (p *process) awaitExit() {
	for {
		err := unix.Waitid(unix.P_PID, p.cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

//go:build unix && !linux

package exec

import "syscall"

// attributes give the command a process group of its own.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// awaitExit waits for the command's exit. Here it cannot do so without reaping
// it; that leaves a moment in which the process id could be used again.
func (p *process) awaitExit() { _ = p.reap() }

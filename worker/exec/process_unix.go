//go:build unix

package exec

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

func (p *process) terminateGroup() { p.signalGroup(syscall.SIGTERM) }
func (p *process) killGroup()      { p.signalGroup(syscall.SIGKILL) }

// signalGroup signals every process of the command's group. That it has none
// any more is no error.
func (p *process) signalGroup(signal syscall.Signal) {
	_ = syscall.Kill(-p.cmd.Process.Pid, signal)
}

// describe says how a command ended that said nothing itself.
func describe(state *os.ProcessState) string {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return "killed by signal " + unix.SignalName(status.Signal())
	}
	return state.String()
}

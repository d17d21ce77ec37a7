//go:build !unix

package exec

import (
	"os"
	"syscall"
)

func attributes() *syscall.SysProcAttr { return nil }

func (p *process) awaitExit() { _ = p.reap() }

// terminateGroup can only end the command itself: there are no process groups,
// and no signal that asks.
func (p *process) terminateGroup() { p.killGroup() }
func (p *process) killGroup()      { _ = p.cmd.Process.Kill() }

// describe says how a command ended that said nothing itself.
func describe(state *os.ProcessState) string { return state.String() }

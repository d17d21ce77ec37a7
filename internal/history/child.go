package history

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"
)

// Servers and some of the workers of a run are processes of their own, so that
// they can be killed as a machine would, and stopped in the middle of anything.
// A child is this very program: the variable childEnv tells it what to be, and
// its standard input ends when the program that started it does.

const childEnv = "WEFT_HISTORY_CHILD"

// endWait is how long a child may take to end in order.
const endWait = 30 * time.Second

// childRole is what a child is told to be: one of the two.
type childRole struct {
	Server *serverConfig
	Worker *workerConfig
}

// ServeIfChild makes this process a server or a worker, and does not return, if
// it was started to be one. A program that runs rounds must call it before
// anything else.
func ServeIfChild() {
	text := os.Getenv(childEnv)
	if text == "" {
		return
	}
	if err := beChild(text); err != nil {
		fmt.Fprintln(os.Stderr, "history child:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func beChild(text string) error {
	var role childRole
	if err := json.Unmarshal([]byte(text), &role); err != nil {
		return err
	}
	switch {
	case role.Server != nil:
		return serve(*role.Server)
	case role.Worker != nil:
		return workAsChild(*role.Worker)
	}
	return errors.New("told to be nothing")
}

// child is a running process. Its output is to be read to its end before it is
// waited for.
type child struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout io.Reader
}

func launch(role childRole) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(role)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), childEnv+"="+string(text))
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = apart()
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &child{cmd: cmd, stdin: stdin, stdout: stdout}, nil
}

// freeze keeps the process from running, until it is thawed or killed. One that
// has ended just now stays so.
func (c *child) freeze() error { return unlessEnded(stopProcess(c.cmd.Process)) }

func (c *child) thaw() error { return unlessEnded(continueProcess(c.cmd.Process)) }

func unlessEnded(err error) error {
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}

// kill ends the process at once, as a power switch would, frozen or not.
func (c *child) kill() {
	_ = c.cmd.Process.Kill()
	_ = c.cmd.Wait() // it says that it was killed
	_ = c.stdin.Close()
}

// stop lets the process end in order.
func (c *child) stop() {
	_ = c.stdin.Close()
	timer := time.AfterFunc(endWait, func() { _ = c.cmd.Process.Kill() })
	defer timer.Stop()
	_ = c.cmd.Wait()
}

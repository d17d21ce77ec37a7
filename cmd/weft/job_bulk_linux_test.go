package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weft-fabric/weft/internal/app"
)

// terminal opens a terminal of its own: what is written to the one end is typed at
// the other.
func terminal(t *testing.T) (keyboard, screen *os.File) {
	t.Helper()
	keyboard, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = keyboard.Close() })
	if err := unix.IoctlSetPointerInt(int(keyboard.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(keyboard.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	screen, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = screen.Close() })
	return keyboard, screen
}

// typed runs the program on a terminal and types the answer once it has asked.
func typed(t *testing.T, s *site, question, answer string, args ...string) (code int, out string) {
	t.Helper()
	keyboard, screen := terminal(t)
	var stdout syncBuffer
	cmd := exec.Command(os.Args[0], s.args(args)...)
	cmd.Env = append(os.Environ(), asProgram+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = screen, &stdout, screen, patience
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	asked := make(chan string, 1)
	go func() {
		var seen strings.Builder
		for r := bufio.NewReader(keyboard); ; {
			c, err := r.ReadByte()
			if err != nil {
				asked <- seen.String()
				return
			}
			seen.WriteByte(c)
			if strings.HasSuffix(seen.String(), question) {
				asked <- question
				_, _ = io.Copy(io.Discard, r)
				return
			}
		}
	}()
	select {
	case got := <-asked:
		if got != question {
			t.Fatalf("it said %q, want %q", got, question)
		}
	case <-time.After(patience):
		_ = cmd.Process.Kill()
		t.Fatalf("it did not ask %q", question)
	}
	if _, err := io.WriteString(keyboard, answer+"\n"); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // the state says how it ended
	return cmd.ProcessState.ExitCode(), stdout.String()
}

func TestBulkAsksOnATerminal(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	mixed(t, s)
	code, out := typed(t, s, "weft: 3 jobs match; cancel? [y/N] ", "", "job", "cancel", "--stage", "a")
	if code != app.ExitFailed || out != "" {
		t.Errorf("refused, it exits %d and prints %q", code, out)
	}
	if got := s.states(t); strings.Contains(got, "cancelled") {
		t.Errorf("refused, the jobs are %s", got)
	}
	code, out = typed(t, s, "weft: 1 job matches; cancel? [y/N] ", "y", "job", "cancel", "--stage", "a", "--limit", "1")
	if code != app.ExitDone || out != "a1 cancelled\n" {
		t.Errorf("agreed, it exits %d and prints %q", code, out)
	}
}

package fabric_test

// Processes of their own for tests that measure one or kill it: the test binary
// runs itself, with the part that it shall play in an environment variable.

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/weft-fabric/weft/fabric"
	"github.com/weft-fabric/weft/internal/natstest"
)

const childPart = "WEFT_TEST_CHILD"

// parts are what a child process can be. Each says on out when it is ready, ends
// when in is closed, and then says how much memory it had from the system.
var parts = map[string]func(in io.Reader, out io.Writer, args []string) error{
	"keeper": keeperPart,
	"server": serverPart,
}

// TestChild is the entry of a child process, and nothing in any other.
func TestChild(t *testing.T) {
	part, ok := parts[os.Getenv(childPart)]
	if !ok {
		return
	}
	if err := part(os.Stdin, os.Stdout, []string{os.Getenv(childPart + "_1"), os.Getenv(childPart + "_2")}); err != nil {
		t.Fatal(err)
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	fmt.Printf("memory %d\n", m.Sys) // it never goes down
}

// child is a running child process.
type child struct {
	*exec.Cmd
	in  io.Closer
	out *bufio.Reader
}

// startChild starts a part and waits until it is ready. It is killed at the end
// of the test if it still runs.
func startChild(t *testing.T, part string, args ...string) child {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestChild$")
	cmd.Env = append(os.Environ(), childPart+"="+part)
	for i, arg := range args {
		cmd.Env = append(cmd.Env, fmt.Sprintf("%s_%d=%s", childPart, i+1, arg))
	}
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c := child{cmd, in, bufio.NewReader(out)}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	if line := c.line(t); line != "ready\n" {
		t.Fatalf("child %s said %q", part, line)
	}
	return c
}

func (c child) line(t *testing.T) string {
	t.Helper()
	line, err := c.out.ReadString('\n')
	if err != nil {
		t.Fatalf("child said %q: %v", line, err)
	}
	return line
}

// end lets the child end by itself, and gives the memory it had, in bytes.
func (c child) end(t *testing.T) (memory uint64) {
	t.Helper()
	c.in.Close()
	line := c.line(t)
	if _, err := fmt.Sscanf(line, "memory %d", &memory); err != nil {
		t.Fatalf("child said %q: %v", line, err)
	}
	_, _ = io.ReadAll(c.out)
	if err := c.Wait(); err != nil {
		t.Fatal(err)
	}
	return memory
}

// kill ends the child as a power cut would.
func (c child) kill(t *testing.T) {
	t.Helper()
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = c.Wait()
}

// keeperPart is a process in which only a keeper runs; its argument is the
// server.
func keeperPart(in io.Reader, out io.Writer, args []string) error {
	nc, err := nats.Connect(args[0])
	if err != nil {
		return err
	}
	defer nc.Close()
	f, err := fabric.Open(context.Background(), nc, fabric.DefaultOptions())
	if err != nil {
		return err
	}
	defer f.Close()
	ctx, cancel := context.WithCancel(context.Background())
	kept := make(chan error, 1)
	go func() { kept <- f.Keep(ctx) }()
	fmt.Fprintln(out, "ready")
	_, _ = io.ReadAll(in)
	cancel()
	return <-kept
}

// serverPart is a process in which only a server runs; its arguments are the
// port and the folder.
func serverPart(in io.Reader, out io.Writer, args []string) error {
	opts := &server.Options{Host: "127.0.0.1", JetStream: true, StoreDir: args[1], NoLog: true, NoSigs: true}
	if _, err := fmt.Sscan(args[0], &opts.Port); err != nil {
		return err
	}
	srv, err := server.NewServer(opts)
	if err != nil {
		return err
	}
	srv.Start()
	if !srv.ReadyForConnections(10 * time.Second) {
		return fmt.Errorf("server on port %s not ready", args[0])
	}
	fmt.Fprintln(out, "ready")
	_, _ = io.ReadAll(in)
	srv.Shutdown()
	return nil
}

// freePort is a port that was free a moment ago.
func freePort(t *testing.T) int {
	t.Helper()
	s := natstest.Start(t)
	port := s.Port()
	s.Stop()
	return port
}

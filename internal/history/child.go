package history

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// A server of a run is a process of its own, so that it can be killed as a
// machine would. It is this very program: the variable childEnv tells it to be a
// server, and its standard input ends when the program that started it does.

const (
	childEnv  = "WEFT_HISTORY_SERVER"
	readyLine = "ready\n"
	readyWait = 20 * time.Second
)

// childConfig is what a server process is told.
type childConfig struct {
	Name   string   `json:"name"`
	Dir    string   `json:"dir"`
	Port   int      `json:"port"`
	Route  int      `json:"route"`  // port for the other servers, 0 if there are none
	Routes []string `json:"routes"` // addresses of all servers' route ports
}

// ServeIfChild makes this process a server, and does not return, if it was
// started to be one. A program that calls Run must call it before anything else.
func ServeIfChild() {
	text := os.Getenv(childEnv)
	if text == "" {
		return
	}
	if err := serve(text); err != nil {
		fmt.Fprintln(os.Stderr, "history server:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func serve(text string) error {
	var c childConfig
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return err
	}
	opts := &server.Options{
		ServerName: c.Name, Host: "127.0.0.1", Port: c.Port,
		JetStream: true, StoreDir: c.Dir, NoLog: true, NoSigs: true,
	}
	if c.Route != 0 {
		opts.Cluster = server.ClusterOpts{Name: "history", Host: "127.0.0.1", Port: c.Route, NoAdvertise: true}
		for _, route := range c.Routes {
			opts.Routes = append(opts.Routes, &url.URL{Scheme: "nats-route", Host: route})
		}
	}
	s, err := server.NewServer(opts)
	if err != nil {
		return err
	}
	s.Start()
	if !s.ReadyForConnections(readyWait) {
		return errors.New("not ready")
	}
	if _, err := io.WriteString(os.Stdout, readyLine); err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	s.Shutdown()
	s.WaitForShutdown()
	return nil
}

// child is a running server process.
type child struct {
	cmd   *exec.Cmd
	stdin io.Closer
}

// spawn starts a server process and waits until clients can connect.
func spawn(c childConfig) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), childEnv+"="+string(text))
	cmd.Stderr = os.Stderr
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
	ch := &child{cmd: cmd, stdin: stdin}
	answer := make([]byte, len(readyLine))
	if _, err := io.ReadFull(stdout, answer); err != nil || string(answer) != readyLine {
		ch.kill()
		return nil, fmt.Errorf("server %s did not start", c.Name)
	}
	return ch, nil
}

// kill ends the process at once, as a power switch would.
func (c *child) kill() {
	_ = c.cmd.Process.Kill()
	_ = c.cmd.Wait() // it says that it was killed
	_ = c.stdin.Close()
}

// stop lets the process end in order.
func (c *child) stop() {
	_ = c.stdin.Close()
	timer := time.AfterFunc(readyWait, func() { _ = c.cmd.Process.Kill() })
	defer timer.Stop()
	_ = c.cmd.Wait()
}

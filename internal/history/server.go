package history

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

const (
	readyLine = "ready\n"
	readyWait = 20 * time.Second
)

// serverConfig is what a server process is told.
type serverConfig struct {
	Name   string
	Dir    string
	Port   int
	Route  int      // port for the other servers, 0 if there are none
	Routes []string // addresses of all servers' route ports
}

// serve is the life of a server process.
func serve(c serverConfig) error {
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

// spawn starts a server process and waits until clients can connect.
func spawn(c serverConfig) (*child, error) {
	ch, err := launch(childRole{Server: &c})
	if err != nil {
		return nil, err
	}
	answer := make([]byte, len(readyLine))
	if _, err := io.ReadFull(ch.stdout, answer); err != nil || string(answer) != readyLine {
		ch.kill()
		return nil, fmt.Errorf("server %s did not start", c.Name)
	}
	return ch, nil
}

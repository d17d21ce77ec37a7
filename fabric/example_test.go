package fabric_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"log"
	"log/slog"
	"os"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/weft-fabric/weft/fabric"
	"github.com/weft-fabric/weft/job"
	"github.com/weft-fabric/weft/worker"
)

// A backend enqueues and waits, a worker runs; both over connections of their
// own making. Here both are one process, and the server is embedded.
func Example() {
	nc, stop := embedded()
	defer stop()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()

	f, err := fabric.Open(ctx, nc, fabric.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()

	finished := make(chan error)
	go func() { finished <- hashes(ctx, f) }()

	j, err := f.Enqueue(ctx, job.Spec{Stage: "hash", InputRef: "data:,hello"})
	if err != nil {
		log.Fatal(err)
	}
	if j, err = f.Wait(ctx, j.ID); err != nil {
		log.Fatal(err)
	}
	body, err := f.Output(ctx, j)
	if err != nil {
		log.Fatal(err)
	}
	defer body.Close()
	output, _ := io.ReadAll(body)
	fmt.Printf("%s after attempt %d: %s\n", j.State, j.Attempt, output)

	cancel() // the worker drains
	fmt.Println("worker:", <-finished)
	// Output:
	// succeeded after attempt 1: 2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824
	// worker: <nil>
}

// A backend lands outcomes. The feed has a name, so what ends while the backend is
// away comes when it is back; what comes twice has the same ID.
func ExampleFabric_Outcomes() {
	nc, stop := embedded()
	defer stop()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()

	f, err := fabric.Open(ctx, nc, fabric.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()

	if _, err := f.Enqueue(ctx, job.Spec{ID: "report-7", Stage: "render", InputRef: "data:,x"}); err != nil {
		log.Fatal(err)
	}
	if _, err := f.Cancel(ctx, "report-7", "not needed"); err != nil {
		log.Fatal(err)
	}
	landed := map[string]bool{} // a table with a unique column, in life
	err = f.Outcomes(ctx, "billing", func(_ context.Context, o fabric.Outcome) error {
		if !landed[o.ID()] {
			landed[o.ID()] = true
			fmt.Println(o.Job.ID, o.Job.State, o.Job.Reason)
		}
		cancel() // a backend goes on
		return nil
	}, fabric.OnlyOutcomes(fabric.Filter{Stage: "render"}))
	fmt.Println(err)
	// Output:
	// report-7 cancelled not needed
	// context canceled
}

// hashes runs a worker for the stage hash until ctx ends.
func hashes(ctx context.Context, f *fabric.Fabric) error {
	runner, err := f.Runner("")
	if err != nil {
		return err
	}
	defer runner.Close()
	options := worker.DefaultOptions()
	options.Inputs = f
	options.Logger = slog.New(slog.DiscardHandler)
	w, err := worker.New(runner, options)
	if err != nil {
		return err
	}
	err = w.Handle("hash", worker.Typed(func(ctx context.Context, t *worker.Task, _ struct{}) ([]byte, error) {
		input, err := t.Input(ctx)
		if err != nil {
			return nil, err
		}
		defer input.Close()
		sum := sha256.New()
		if _, err := io.Copy(sum, input); err != nil {
			return nil, err
		}
		return fmt.Appendf(nil, "%x", sum.Sum(nil)), nil
	}))
	if err != nil {
		return err
	}
	return w.Run(ctx)
}

// embedded runs a server in this process, for the examples.
func embedded() (nc *nats.Conn, stop func()) {
	dir, err := os.MkdirTemp("", "weft-example")
	if err != nil {
		log.Fatal(err)
	}
	s, err := server.NewServer(&server.Options{DontListen: true, JetStream: true, StoreDir: dir, NoLog: true, NoSigs: true})
	if err != nil {
		log.Fatal(err)
	}
	s.Start()
	if nc, err = nats.Connect("", nats.InProcessServer(s)); err != nil {
		log.Fatal(err)
	}
	return nc, func() {
		nc.Close()
		s.Shutdown()
		s.WaitForShutdown()
		os.RemoveAll(dir)
	}
}

package docs_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"log/slog"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/weft-fabric/weft/fabric"
	"github.com/weft-fabric/weft/internal/embed"
	"github.com/weft-fabric/weft/job"
	"github.com/weft-fabric/weft/worker"
)

// The README's samples are lines of the functions below; TestEachSampleOfThePagesIsTrue
// finds them here. This runs them: a runner, a backend, and a feed.
func Example() {
	defer slog.SetDefault(slog.Default())
	slog.SetDefault(slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	server := embed.New(embed.Options{})
	if err := server.Start(ctx); err != nil {
		log.Fatal(err)
	}
	defer server.Stop(ctx)
	nc, err := nats.Connect("", server.InProcess())
	if err != nil {
		log.Fatal(err)
	}
	defer nc.Close()
	f, err := fabric.Open(ctx, nc, fabric.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()

	running, drain := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- runs(running, f) }()
	if err := enqueues(ctx, nc, strings.NewReader("a photograph")); err != nil {
		log.Fatal(err)
	}
	drain()
	fmt.Println("runner:", <-ended)

	landing, enough := context.WithCancel(ctx)
	land := func(_ context.Context, _, _ string, state job.State, outputRef string) error {
		fmt.Println("landed:", state, outputRef)
		enough()
		return nil
	}
	fmt.Println("feed:", lands(landing, f, land))
	// Output:
	// backend: succeeded after attempt 1
	// runner: <nil>
	// landed: succeeded data:text/plain;charset=utf-8,a%20photograph%20of%20width%20800
	// feed: context canceled
}

func enqueues(ctx context.Context, nc *nats.Conn, photo io.Reader) error {
	f, err := fabric.Open(ctx, nc, fabric.Options{}) // nc is a *nats.Conn
	if err != nil {
		return err
	}
	defer f.Close()
	ref, err := f.PutInput(ctx, photo) // an io.Reader; or a reference of your own, such as s3://photos/1.jpg
	if err != nil {
		return err
	}
	j, err := f.Enqueue(ctx, job.Spec{Stage: "resize", InputRef: ref, Payload: []byte(`{"width":800}`)})
	if err != nil {
		return err
	}
	j, err = f.Wait(ctx, j.ID) // until it has ended
	fmt.Printf("backend: %s after attempt %d\n", j.State, j.Attempt)
	return err
}

func lands(ctx context.Context, f *fabric.Fabric, land func(_ context.Context, id, jobID string, state job.State, outputRef string) error) error {
	err := f.Outcomes(ctx, "billing", func(ctx context.Context, o fabric.Outcome) error {
		return land(ctx, o.ID(), o.Job.ID, o.Job.State, o.Job.OutputRef)
	})
	return err
}

func runs(ctx context.Context, f *fabric.Fabric) error {
	runner, err := f.Runner("")
	if err != nil {
		return err
	}
	defer runner.Close()
	options := worker.DefaultOptions()
	options.Inputs = f
	w, err := worker.New(runner, options)
	if err != nil {
		return err
	}
	err = w.Handle("resize", worker.Typed(func(ctx context.Context, t *worker.Task, s size) ([]byte, error) {
		photo, err := t.Input(ctx) // a stream, whatever the scheme
		if err != nil {
			return nil, err // tried again, or for good if no attempt could open it
		}
		defer photo.Close()
		return resize(photo, s)
	}))
	if err != nil {
		return err
	}
	return w.Run(ctx) // drains when ctx ends
}

// size is the payload of the sample's jobs.
type size struct {
	Width int `json:"width"`
}

func resize(photo io.Reader, s size) ([]byte, error) {
	pixels, err := io.ReadAll(photo)
	return fmt.Appendf(nil, "%s of width %d", pixels, s.Width), err
}

package worker_test

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/weft-fabric/weft/job"
	"github.com/weft-fabric/weft/worker"
)

// A worker of one stage. newMemory stands for a fabric.
func Example() {
	fabric := newMemory(30 * time.Second)
	fabric.enqueue(job.Spec{ID: "greet-1", Stage: "greet", Payload: []byte(`{"name":"Ada"}`)})

	options := worker.DefaultOptions()
	options.Logger = slog.New(slog.DiscardHandler)
	w, err := worker.New(fabric, options)
	if err != nil {
		fmt.Println(err)
		return
	}
	type greeting struct {
		Name string `json:"name"`
	}
	err = w.Handle("greet", worker.Typed(func(ctx context.Context, t *worker.Task, g greeting) ([]byte, error) {
		if g.Name == "" {
			return nil, worker.Permanent(fmt.Errorf("job %s names nobody", t.Job().ID))
		}
		w.Stop() // one job is enough for an example
		return []byte("hello " + g.Name), nil
	}))
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := w.Run(context.Background()); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(fabric.job("greet-1").OutputRef)
	// Output: data:,hello Ada
}

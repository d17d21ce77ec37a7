package history

import (
	"context"
	"log/slog"
	"os"
	"time"
)

// workerConfig is what a worker process is told.
type workerConfig struct {
	Name      string
	Stage     string
	Namespace string
	URLs      []string
	Replicas  int
	Skew      time.Duration
	Round     Config
	Clock     clock
	LogLevel  slog.Level
}

func (w *world) workerConfig(name, stage string, skew time.Duration) *workerConfig {
	c := &workerConfig{
		Name: name, Stage: stage, Namespace: w.namespace, URLs: w.urls, Replicas: w.replicas, Skew: skew,
		Round: w.cfg, Clock: w.log.clock, LogLevel: slog.LevelError + 1,
	}
	for _, level := range []slog.Level{slog.LevelError, slog.LevelWarn, slog.LevelInfo, slog.LevelDebug} {
		if w.cfg.Logger != nil && w.cfg.Logger.Enabled(context.Background(), level) {
			c.LogLevel = level
		}
	}
	return c
}

// workAsChild is the life of a worker process. The first thing that it hears is
// that the calm has begun; when it can hear no more, it ends.
func workAsChild(c workerConfig) error {
	up := newReporter(os.Stdout)
	w := &world{
		cfg: c.Round, namespace: c.Namespace, urls: c.URLs, replicas: c.Replicas, log: newLog(c.Clock), up: up,
	}
	w.cfg.Logger = slog.New(slog.NewTextHandler(up, &slog.HandlerOptions{Level: c.LogLevel})).With("process", c.Name)
	ctx, end := context.WithCancel(context.Background())
	defer end()
	go func() {
		defer end()
		heard := make([]byte, len("calm\n"))
		for {
			if _, err := os.Stdin.Read(heard); err != nil {
				return
			}
			w.calm.Store(true)
		}
	}()
	if m, err := w.join(ctx, c.Skew); err == nil {
		w.enliven(m, c.Name, c.Stage).run(ctx)
	}
	return nil
}

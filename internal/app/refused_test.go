package app_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/weft-fabric/weft/config"
	"github.com/weft-fabric/weft/internal/app"
	"github.com/weft-fabric/weft/internal/natstest"
)

// An operator who looks at everything must not keep others from what they may.
func TestPermissionIsAskedForWhileSomebodyListensToEverything(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	if _, err := s.Connect().Subscribe(">", func(*nats.Msg) {}); err != nil {
		t.Fatal(err)
	}
	refusals := app.HearRefusals(s.Connect(), config.Default(), slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := refusals.MayEnqueue(ctx, "hash"); err != nil {
		t.Error(err)
	}
}

package natstest

import (
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/weft-fabric/weft/internal/flight"
)

// Tower sends over a connection until the test ends.
func Tower(tb testing.TB, nc *nats.Conn) *flight.Tower {
	tb.Helper()
	tower, err := flight.New(nc)
	if err != nil {
		tb.Fatalf("natstest: %v", err)
	}
	tb.Cleanup(tower.Close)
	return tower
}

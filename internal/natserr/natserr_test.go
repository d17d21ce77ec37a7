package natserr_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weft-fabric/weft/internal/natserr"
)

func TestUnknownTellsWhatMayHaveHappened(t *testing.T) {
	broken := &net.OpError{Op: "write", Net: "tcp", Err: syscall.EPIPE}
	for _, c := range []struct {
		err  error
		want bool
	}{
		{context.DeadlineExceeded, true},
		{nats.ErrTimeout, true},
		{nats.ErrNoResponders, true},
		{jetstream.ErrNoStreamResponse, true},
		{nats.ErrConnectionReconnecting, true},
		{nats.ErrReconnectBufExceeded, true},
		{broken, true},
		{&jetstream.APIError{Code: 503, ErrorCode: 10008}, true},
		{&jetstream.APIError{Code: 503, ErrorCode: 10077}, false}, // the store is full
		{&jetstream.APIError{Code: 503, ErrorCode: 10023}, false}, // the server is full
		{&jetstream.APIError{Code: 400, ErrorCode: 10071}, false},
		{nats.ErrConnectionClosed, false}, // for good
		{errors.New("anything else"), false},
	} {
		if got := natserr.Unknown(fmt.Errorf("publish: %w", c.err)); got != c.want {
			t.Errorf("%v: %v", c.err, got)
		}
	}
}

// Package natserr tells what an error of the NATS client or server leaves open.
// Server errors are matched by their codes, never by their texts.
package natserr

import (
	"context"
	"errors"
	"net"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Server codes of status 503 that do not pass by themselves.
const (
	codeStoreFailed           jetstream.ErrorCode = 10077
	codeInsufficientResources jetstream.ErrorCode = 10023
)

// Unknown reports whether err leaves open if a request was carried out, or says
// that it was not for a cause that passes by itself: no leader yet, no
// connection. Such a request is to be repeated, in a way that carrying it out
// twice is harmless.
func Unknown(err error) bool {
	for _, target := range []error{
		context.DeadlineExceeded, context.Canceled, nats.ErrTimeout,
		nats.ErrNoResponders, jetstream.ErrNoStreamResponse,
		nats.ErrDisconnected, nats.ErrConnectionReconnecting, nats.ErrReconnectBufExceeded,
	} {
		if errors.Is(err, target) {
			return true
		}
	}
	if _, ok := errors.AsType[net.Error](err); ok { // the connection broke under the request
		return true
	}
	api, ok := errors.AsType[*jetstream.APIError](err)
	return ok && api.Code == 503 && api.ErrorCode != codeStoreFailed && api.ErrorCode != codeInsufficientResources
}

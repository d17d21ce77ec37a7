package fabric

import (
	"time"

	"github.com/nats-io/nats.go"
)

const (
	// pingEvery and pingsUnanswered bound how long a connection that looks open
	// and is not stays unnoticed: the client gives it up when one more ping is due
	// than may be unanswered, so after 15 s. The client's own setting would take
	// six minutes, many times a lease.
	pingEvery       = 5 * time.Second
	pingsUnanswered = 2
)

// ConnectOptions make a connection fit for a fabric: it is taken up again for as
// long as that takes, and one that has stalled is noticed well within a lease.
// Options given after these win over them.
func ConnectOptions() []nats.Option {
	return []nats.Option{
		nats.MaxReconnects(-1),
		nats.PingInterval(pingEvery),
		nats.MaxPingsOutstanding(pingsUnanswered),
	}
}

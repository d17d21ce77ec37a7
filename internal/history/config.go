package history

import (
	"fmt"
	"hash/fnv"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/weft-fabric/weft/internal/fault"
	"github.com/weft-fabric/weft/job"
)

// Config says what one round of a history test does.
type Config struct {
	Seed  uint64
	Chaos time.Duration // how long clients and chaos are at it
	Drain time.Duration // within what time every job must have ended afterwards

	// WorkersOnly leaves servers, connections and items alone, and runs no keeper
	// before the calm: workers stall and die often, and nothing else goes wrong.
	WorkersOnly bool
	// KeeperDeaths lets keepers die without giving up the lead, which then stays
	// with them for as long as its key lives.
	KeeperDeaths bool

	Faults *fault.Plan  // planted mistakes, nil for none
	Logger *slog.Logger `json:"-"` // of the fabrics, nil discards
}

// Sizes of a round. They keep two cores busy and no more.
const (
	lease     = time.Second
	backends  = 3
	operators = 2
	workers   = 4 // goroutines of this process: they are quick to die and to be born
	processes = 3 // workers that are processes
	slots     = 8 // attempts that one worker runs at once
	keepers   = 2
	enqueues  = 60 * time.Millisecond // mean wait of a backend between two jobs
	operates  = 80 * time.Millisecond // mean wait of an operator between two calls
	skewMost  = 5 * time.Minute       // how far clients' clocks are off
	callLimit = 5 * time.Second       // of one call of a client
	joinLimit = 2 * time.Second       // of one try to join: a connection lost in it must not cost a whole round
)

// stages of a round; workers take turns among them.
var stageNames = []string{"alpha", "beta"}

// random is the source of one role's choices. Together with the seed, the name
// of the role decides all of them.
func (c Config) random(role string, n int64) *rand.Rand {
	h := fnv.New64a()
	fmt.Fprintf(h, "%s/%d", role, n)
	return rand.New(rand.NewPCG(c.Seed, h.Sum64()))
}

// about is a random wait around d.
func about(r *rand.Rand, d time.Duration) time.Duration {
	return d/2 + time.Duration(r.Int64N(int64(d)))
}

func between(r *rand.Rand, from, to time.Duration) time.Duration {
	return from + time.Duration(r.Int64N(int64(to-from)))
}

func skew(r *rand.Rand) time.Duration { return between(r, -skewMost, skewMost) }

// backoff is short, so that a job can fail and come back often in a round.
var backoff = job.Backoff{Initial: 20 * time.Millisecond, Max: time.Second, Factor: 3, Jitter: 0.5}

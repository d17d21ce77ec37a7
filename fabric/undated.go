package fabric

import (
	"context"
	"time"
)

// undated ends when its parent does and does not tell when that will be. The
// client gives each request a limit of its own unless the context has a deadline,
// and then waits for a lost answer until that; so calls that go on for long, such
// as Claim and Keep, make their requests with one of these.
type undated struct{ context.Context }

// Deadline tells of none.
func (undated) Deadline() (time.Time, bool) { return time.Time{}, false }

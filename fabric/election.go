package fabric

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/weft-fabric/weft/kv"
)

const (
	leaderTTL   = 10 * time.Second
	leaderRenew = leaderTTL / 4
	// leaderPoll is how often a process that does not lead looks whether
	// anybody does.
	leaderPoll = 2 * time.Second
	// termPause is how long a term that broke is not begun again.
	termPause = time.Second
)

// election makes one process lead: whoever holds the key leader.keeper, which
// the server removes when its holder has not renewed it for leaderTTL. It does
// not fence what a leader does. It need not: a deposed leader that does not know
// it yet only repeats compare-and-sets that are right or refused.
type election struct {
	f  *Fabric
	id string
}

type leaderRecord struct {
	ID   string    `json:"id"`
	Host string    `json:"host"`
	PID  int       `json:"pid"`
	At   time.Time `json:"at"`
}

func newElection(f *Fabric) *election { return &election{f: f, id: "kp_" + ulid.Make().String()} }

// run stands for election until ctx ends, and calls lead for each term with a
// context that ends when the term does.
func (e *election) run(ctx context.Context, lead func(context.Context) error) error {
	for ctx.Err() == nil {
		revision, won := e.stand(ctx)
		if !won {
			if ctx.Err() != nil { // it may have won and not have heard of it
				e.resign()
			}
			pause(ctx, leaderPoll)
			continue
		}
		e.term(ctx, revision, lead)
		pause(ctx, termPause)
	}
	return nil
}

// stand tries to take the key.
func (e *election) stand(ctx context.Context) (uint64, bool) {
	revision, err := e.write(ctx, 0)
	conflict, taken := errors.AsType[*kv.Conflict](err)
	if taken && e.f.Now().Sub(conflict.Current.Created) > 2*leaderTTL {
		// A leader's key does not get that old. Somebody else has written it, or
		// without a time to live.
		revision, err = e.write(ctx, conflict.Current.Revision)
	}
	if err != nil && !taken && ctx.Err() == nil {
		e.f.log.Warn("keeper's election", "error", err)
	}
	return revision, err == nil
}

func (e *election) write(ctx context.Context, revision uint64) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, leaderTTL/2)
	defer cancel()
	host, _ := os.Hostname()
	value, err := json.Marshal(leaderRecord{ID: e.id, Host: host, PID: os.Getpid(), At: e.f.Now()})
	if err != nil {
		return 0, err
	}
	return e.f.bucket.Swap(ctx, kv.Write{Key: kv.LeaderKey, Value: value, Revision: revision, TTL: leaderTTL})
}

// term leads while the key is renewed beside the work.
func (e *election) term(ctx context.Context, revision uint64, lead func(context.Context) error) {
	term, end := context.WithCancel(ctx)
	defer end()
	done := make(chan error, 1)
	go func() { done <- lead(term) }()
	renew := time.NewTicker(leaderRenew)
	defer renew.Stop()
	for {
		select {
		case err := <-done:
			if err != nil && ctx.Err() == nil {
				e.f.log.Warn("keeper's term broke", "error", err)
			}
			e.resign()
			return
		case <-renew.C:
			next, err := e.write(term, revision)
			if err != nil && term.Err() == nil {
				e.f.log.Warn("keeper's lead lost", "error", err)
				end()
				<-done
				return
			}
			if err == nil {
				revision = next
			}
		}
	}
}

// resign gives the key up, so that another process need not wait for its end. The
// key itself says whether it is this process's: the answer to the last write of it
// may have been too late to be heard.
func (e *election) resign() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	held, err := e.f.bucket.Get(ctx, kv.LeaderKey)
	var leader leaderRecord
	if err == nil && (json.Unmarshal(held.Value, &leader) != nil || leader.ID != e.id) {
		return
	}
	if err == nil {
		err = e.f.bucket.Delete(ctx, kv.LeaderKey, held.Revision)
	}
	if err != nil {
		e.f.log.Debug("keeper's lead not given up; it ends by itself", "error", err)
	}
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

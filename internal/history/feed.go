package history

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/weft-fabric/weft/job"
)

// change is one revision of a record, as a server republished it.
type change struct {
	revision, before uint64 // before is the revision it replaced, 0 for none
	stored           time.Time
	job              job.Job
	bad              error // the record cannot be read
}

// feed collects the changes of every record. It listens at each server, past the
// proxies, and keeps each revision once.
type feed struct {
	prefix string // of the subjects of events
	conns  []*nats.Conn

	mu      sync.Mutex
	changes map[string]map[uint64]change // guarded by mu: by job, by revision
	bodies  map[string]*nats.Msg         // guarded by mu: the latest of each job
}

// listen begins to collect, and returns once every server knows.
func listen(namespace string, s *servers) (*feed, error) {
	f := &feed{
		prefix:  namespace + ".event.job.",
		changes: map[string]map[uint64]change{}, bodies: map[string]*nats.Msg{},
	}
	for _, url := range s.direct() {
		if err := f.listenAt(s, url); err != nil {
			f.close()
			return nil, err
		}
	}
	return f, nil
}

func (f *feed) listenAt(s *servers, url string) error {
	nc, err := s.connect(url)
	if err != nil {
		return fmt.Errorf("feed: %w", err)
	}
	f.conns = append(f.conns, nc)
	sub, err := nc.Subscribe(f.prefix+">", f.take)
	if err != nil {
		return fmt.Errorf("feed: %w", err)
	}
	if err := sub.SetPendingLimits(-1, -1); err != nil {
		return fmt.Errorf("feed: %w", err)
	}
	return nc.Flush()
}

func (f *feed) close() {
	for _, nc := range f.conns {
		nc.Close()
	}
}

// flush waits until what the servers have sent so far has been taken.
func (f *feed) flush() {
	for _, nc := range f.conns {
		_ = nc.FlushTimeout(2 * time.Second) // a server that is down has nothing to say
	}
}

func (f *feed) take(msg *nats.Msg) {
	id := strings.TrimPrefix(msg.Subject, f.prefix)
	c := change{}
	c.revision, _ = strconv.ParseUint(msg.Header.Get("Nats-Sequence"), 10, 64)
	c.before, _ = strconv.ParseUint(msg.Header.Get("Nats-Last-Sequence"), 10, 64)
	c.stored, _ = time.Parse(time.RFC3339Nano, msg.Header.Get("Nats-Time-Stamp"))
	c.bad = json.Unmarshal(msg.Data, &c.job)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.changes[id] == nil {
		f.changes[id] = map[uint64]change{}
	}
	if known, ok := f.changes[id][c.revision]; ok && !known.stored.Equal(c.stored) {
		c.bad = fmt.Errorf("the revision was two things: %s, and %s", sketch(known.job), sketch(c.job))
	}
	f.changes[id][c.revision] = c
	f.bodies[id] = msg
}

// of gives the changes of a job in the order in which they were made.
func (f *feed) of(id string) []change {
	f.mu.Lock()
	defer f.mu.Unlock()
	changes := make([]change, 0, len(f.changes[id]))
	for _, c := range f.changes[id] {
		changes = append(changes, c)
	}
	slices.SortFunc(changes, func(a, b change) int { return int(int64(a.revision) - int64(b.revision)) })
	return changes
}

// ids are the jobs that have changed.
func (f *feed) ids() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	ids := make([]string, 0, len(f.changes))
	for id := range f.changes {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// latest is the latest event of a job, which has its record.
func (f *feed) latest(id string) *nats.Msg {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.bodies[id]
}

package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/weft-fabric/weft/job"
)

// maxOutput is the largest output that memory stores, in bytes.
const maxOutput = 1 << 10

var errDown = errors.New("no server")

// memory is a worker.Fabric that keeps its records in memory and changes them by
// the real transitions of package job, on the clock of the test. What goes wrong
// is asked for by its switches: down, stuck, and the other methods that play an
// operator or another worker.
type memory struct {
	lease time.Duration

	mu      sync.Mutex // guards all below
	jobs    map[string]job.Job
	order   []string              // ids as they were enqueued
	nudges  map[string]*job.Nudge // by id, made at each claim
	changed chan struct{}         // closed and replaced at every change
	down    bool                  // no call gets through
	refuse  error                 // what Claim answers, if not nil
	wanted  map[string]int        // by stage: what Want has said since the last Claim began
	deaf    int                   // so many claims come although ctx has ended
	stuck   map[string]bool       // ids whose renewals wait until their context ends
	busy    map[string]bool       // ids with a Renew or Settle under way

	asks     []ask
	renewals []renewal
	settled  []settlement
	breaches []string // broken promises of the worker
}

type ask struct {
	stage string
	n     int
	at    time.Time
}

type renewal struct {
	id       string
	at       time.Time
	progress string
	err      error
}

type settlement struct {
	id      string
	fence   int64
	outcome job.Outcome
	at      time.Time
	err     error
}

func newMemory(lease time.Duration) *memory {
	return &memory{
		lease: lease, jobs: map[string]job.Job{}, nudges: map[string]*job.Nudge{},
		changed: make(chan struct{}), stuck: map[string]bool{}, wanted: map[string]int{}, busy: map[string]bool{},
	}
}

// note wakes whoever waits for a change. The caller holds mu.
func (m *memory) note() {
	close(m.changed)
	m.changed = make(chan struct{})
}

func (m *memory) enqueue(specs ...job.Spec) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range specs {
		if s.Stage == "" {
			s.Stage = "build"
		}
		if s.MaxAttempts == 0 {
			s.MaxAttempts = job.DefaultMaxAttempts
		}
		s.InputRef = "data:,x"
		j, err := job.New(s, time.Now())
		if err != nil {
			panic(err)
		}
		m.jobs[j.ID] = j
		m.order = append(m.order, j.ID)
	}
	m.note()
}

// set changes switches under the lock and wakes who waits.
func (m *memory) set(change func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change()
	m.note()
}

func (m *memory) job(id string) job.Job {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.jobs[id]
}

// cancel is the operator's, with or without the hint to the holder.
func (m *memory) cancel(id, reason string, hint bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	j, err := m.jobs[id].Cancel(m.jobs[id].Fence, reason, time.Now())
	if err != nil {
		panic(err)
	}
	m.jobs[id] = j
	if hint {
		m.hint(id)
	}
	m.note()
}

func (m *memory) hint(id string) {
	m.nudges[id].Hint()
}

// steal lets another worker, whose clock says now, take the job over.
func (m *memory) steal(id string, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	j, _, err := m.jobs[id].Claim("rn_other", now, time.Hour)
	if err != nil {
		panic(err)
	}
	m.jobs[id] = j
	m.note()
}

// Claim is worker.Fabric's.
func (m *memory) Claim(ctx context.Context, stage string, n int) ([]job.Claim, error) {
	m.mu.Lock()
	m.asks = append(m.asks, ask{stage, n, time.Now()})
	m.wanted[stage] = n
	m.mu.Unlock()
	for {
		m.mu.Lock()
		if ctx.Err() != nil && m.deaf == 0 {
			m.mu.Unlock()
			return nil, ctx.Err()
		}
		if err := m.refusal(); err != nil {
			m.mu.Unlock()
			return nil, err
		}
		claims, next := m.take(stage, min(n, m.wanted[stage]))
		changed := m.changed
		m.mu.Unlock()
		if len(claims) > 0 {
			return claims, nil
		}
		timer := time.NewTimer(next)
		select {
		case <-ctx.Done():
			m.late(stage)
		case <-changed:
		case <-timer.C:
		}
		timer.Stop()
	}
}

func (m *memory) refusal() error {
	if m.down {
		return errDown
	}
	return m.refuse
}

// Want is worker.Wanter's.
func (m *memory) Want(stage string, n int) { m.set(func() { m.wanted[stage] = n }) }

// late makes a job appear just when the context of a deaf claim has ended.
func (m *memory) late(stage string) {
	m.mu.Lock()
	deaf := m.deaf
	m.mu.Unlock()
	if deaf > 0 {
		for i := range deaf {
			m.enqueue(job.Spec{ID: fmt.Sprintf("late-%d", i), Stage: stage})
		}
	}
}

// take leases up to n jobs and says when it is worth looking again.
func (m *memory) take(stage string, n int) ([]job.Claim, time.Duration) {
	var claims []job.Claim
	next, now := time.Hour, time.Now()
	for _, id := range m.order {
		if m.jobs[id].Stage != stage || len(claims) >= n {
			continue
		}
		j, token, err := m.jobs[id].Claim("rn_test", now, m.lease)
		switch {
		case err == nil:
			m.jobs[id] = j
			m.nudges[id] = &job.Nudge{}
			claims = append(claims, job.Claim{Job: j, Token: token, Lease: m.lease, Nudge: m.nudges[id]})
		case errors.Is(err, job.ErrAttemptLimitReached):
			if j, err := m.jobs[id].Expire(m.jobs[id].Fence, now); err == nil {
				m.jobs[id] = j
			}
		case errors.Is(err, job.ErrLeaseHeld):
			next = min(next, m.jobs[id].LeaseExpiresAt.Sub(now))
		case errors.Is(err, job.ErrNotAvailable):
			next = min(next, m.jobs[id].AvailableAt.Sub(now))
		}
	}
	if len(claims) > 0 {
		m.deaf = 0
	}
	return claims, next
}

// enter notes a write of a claim and that another was under way, if so.
func (m *memory) enter(id, what string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.busy[id] {
		m.breaches = append(m.breaches, what+" of "+id+" while another write of the claim was under way")
	}
	m.busy[id] = true
}

func (m *memory) leave(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.busy, id)
}

// Renew is worker.Fabric's.
func (m *memory) Renew(ctx context.Context, c job.Claim, progress json.RawMessage) (job.Claim, error) {
	m.enter(c.Job.ID, "renewal")
	defer m.leave(c.Job.ID)
	if _, bounded := ctx.Deadline(); !bounded {
		m.set(func() { m.breaches = append(m.breaches, "renewal without a limit") })
	}
	m.mu.Lock()
	stuck := m.stuck[c.Job.ID]
	m.mu.Unlock()
	if stuck {
		<-ctx.Done()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	renewed, err := m.renew(ctx, c, progress)
	m.renewals = append(m.renewals, renewal{c.Job.ID, time.Now(), string(progress), err})
	return renewed, err
}

func (m *memory) renew(ctx context.Context, c job.Claim, progress json.RawMessage) (job.Claim, error) {
	if ctx.Err() != nil {
		return c, ctx.Err()
	}
	if m.down {
		return c, errDown
	}
	held := m.jobs[c.Job.ID]
	j, token, err := held.Renew(c.Token, "rn_test", time.Now(), c.Lease)
	if err != nil {
		return job.Claim{Job: held}, fmt.Errorf("renew: %w", err)
	}
	if progress != nil {
		j.Progress = progress
	}
	m.jobs[j.ID] = j
	return job.Claim{Job: j, Token: token, Lease: c.Lease}, nil
}

// SettleThen is worker.Fabric's.
func (m *memory) SettleThen(ctx context.Context, c job.Claim, o job.Outcome, then func(error)) {
	go func() {
		ctx, cancel := context.WithTimeout(ctx, max(time.Until(c.Token.ExpiresAt), 10*time.Second))
		defer cancel()
		then(m.settle(ctx, c, o))
	}()
}

// settle tries on while the server is down, as the real one does.
func (m *memory) settle(ctx context.Context, c job.Claim, o job.Outcome) error {
	m.enter(c.Job.ID, "settlement")
	defer m.leave(c.Job.ID)
	m.mu.Lock()
	defer m.mu.Unlock()
	for m.down {
		changed := m.changed
		m.mu.Unlock()
		select {
		case <-ctx.Done():
			m.mu.Lock()
			return ctx.Err()
		case <-changed:
		}
		m.mu.Lock()
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	j, err := m.apply(c, o)
	if err == nil {
		m.jobs[c.Job.ID] = j
		m.note()
	}
	m.settled = append(m.settled, settlement{c.Job.ID, c.Job.Fence, o, time.Now(), err})
	return err
}

func (m *memory) apply(c job.Claim, o job.Outcome) (job.Job, error) {
	j, now := m.jobs[c.Job.ID], time.Now()
	delay, timed := o.Delay()
	if !timed {
		delay = job.DefaultBackoff().Delay(j.Attempt, 0.5)
	}
	switch o.Kind() {
	case job.KindCompleted:
		ref, err := outputRef(o)
		if err != nil {
			return job.Job{}, err
		}
		return j.Complete(c.Token, "rn_test", ref, now)
	case job.KindFailed:
		return j.Fail(c.Token, "rn_test", o.Reason(), now, delay)
	case job.KindDiscarded:
		return j.FailPermanently(c.Token, "rn_test", o.Reason(), now)
	case job.KindReturned:
		return j.Return(c.Token, "rn_test", o.Reason(), now, delay)
	case job.KindReleased:
		return j.Release(c.Token, "rn_test", now)
	}
	return job.Job{}, job.Invalid("no outcome")
}

func outputRef(o job.Outcome) (string, error) {
	if o.Open() == nil {
		return o.OutputRef(), nil
	}
	r, err := o.Open()()
	if err != nil {
		return "", err
	}
	defer r.Close()
	data, err := io.ReadAll(r)
	if len(data) > maxOutput {
		return "", job.Invalid("output is too large")
	}
	return "data:," + string(data), err
}

// outcomes gives what was recorded for a job, in order, as "outcome: reason".
func (m *memory) outcomes(id string) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var list []string
	for _, s := range m.settled {
		if s.id != id || s.err != nil {
			continue
		}
		text := s.outcome.String()
		if s.outcome.Reason() != "" {
			text += ": " + s.outcome.Reason()
		}
		list = append(list, text)
	}
	return list
}

// renewed gives a copy of the renewals of a job.
func (m *memory) renewed(id string) []renewal {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(m.renewals), func(r renewal) bool { return r.id != id })
}

// asked gives the sizes of all claims asked for.
func (m *memory) asked() []int {
	m.mu.Lock()
	defer m.mu.Unlock()
	var sizes []int
	for _, a := range m.asks {
		sizes = append(sizes, a.n)
	}
	return sizes
}

// states counts the jobs in each state.
func (m *memory) states() map[job.State]int {
	m.mu.Lock()
	defer m.mu.Unlock()
	counts := map[job.State]int{}
	for j := range maps.Values(m.jobs) {
		counts[j.State]++
	}
	return counts
}

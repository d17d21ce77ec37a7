package history

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/weft-fabric/weft/job"
)

// Kind is what a client asked for.
type Kind string

// The kinds of operation.
const (
	Enqueue  Kind = "enqueue"
	Conflict Kind = "enqueue-other" // an id that is taken, with another spec
	Claim    Kind = "claim"
	Renew    Kind = "renew"
	Complete Kind = "complete"
	Fail     Kind = "fail"
	Discard  Kind = "discard"
	Return   Kind = "return"
	Release  Kind = "release"
	Cancel   Kind = "cancel"
	Retry    Kind = "retry"
	Get      Kind = "get"
)

// Settles reports whether the operation ends a claim.
func (k Kind) Settles() bool {
	return k == Complete || k == Fail || k == Discard || k == Return || k == Release
}

// Results other than the code of a refusal.
const (
	OK      = "ok"
	Unknown = "unknown" // no answer came, or one that says nothing
	// Coalesced is the answer to an enqueue whose key has a live job: that one.
	Coalesced = "coalesced"
)

// Told is the part of a record that an answer showed.
type Told struct {
	State               job.State
	Fence, Attempt, Max int64
	Worker              string
	Until               time.Duration // leased: when the lease ends, on the run's clock
}

// told is what the record j shows; nil if there is none.
func (l *Log) told(j job.Job) *Told {
	if j.ID == "" {
		return nil
	}
	t := &Told{State: j.State, Fence: j.Fence, Attempt: j.Attempt, Max: j.MaxAttempts, Worker: j.WorkerID}
	if j.State == job.StateLeased {
		t.Until = j.LeaseExpiresAt.Sub(l.Start) // all clocks are this machine's, but for their skew
	}
	return t
}

// Op is one operation of one client on one job. Call and Return are on the run's
// clock.
type Op struct {
	Client       string
	Kind         Kind
	Job          string
	Call, Return time.Duration
	Worker       string // renew and settle: the claim's holder
	Fence        int64  // renew and settle: the claim's fence
	Mark         string // settle: what its outcome can be recognised by
	Result       string
	Told         *Told
}

// String is one line of a history.
func (o Op) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%9.3f-%9.3f  %-8s %-9s %s", o.Call.Seconds(), o.Return.Seconds(), o.Client, o.Kind, o.Job)
	if o.Fence != 0 {
		fmt.Fprintf(&b, " worker=%s fence=%d", o.Worker, o.Fence)
	}
	if o.Mark != "" {
		fmt.Fprintf(&b, " mark=%s", o.Mark)
	}
	fmt.Fprintf(&b, " -> %s", o.Result)
	if t := o.Told; t != nil {
		fmt.Fprintf(&b, " (%s fence=%d attempt=%d/%d", t.State, t.Fence, t.Attempt, t.Max)
		if t.Worker != "" {
			fmt.Fprintf(&b, " holder=%s", t.Worker)
		}
		b.WriteString(")")
	}
	return b.String()
}

// Log is where clients write down what they did. It is safe for concurrent use.
type Log struct {
	clock

	mu   sync.Mutex
	ops  []Op            // guarded by mu
	jobs map[string]Spec // guarded by mu: what was asked for, by id
	harm []harmed        // guarded by mu
}

// harmed is something that the chaos did: to one job, or to everybody.
type harmed struct {
	at   time.Duration
	job  string
	what string
}

// Spec is what the judge needs to know of what was asked for.
type Spec struct {
	Max int64
	// Loose jobs may be cancelled by others than the operators: they have a key
	// or dependencies.
	Loose    bool
	Bare     bool // it was published without the fabric
	Accepted bool // its enqueue was acknowledged
}

func newLog(c clock) *Log { return &Log{clock: c, jobs: map[string]Spec{}} }

func (l *Log) add(op Op) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ops = append(l.ops, op)
}

// asked notes a job before it is enqueued for the first time.
func (l *Log) asked(id string, s Spec) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.jobs[id] = s
}

// accepted notes that the job's enqueue was acknowledged.
func (l *Log) accepted(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.jobs[id]
	s.Accepted = true
	l.jobs[id] = s
}

// harmed notes what the chaos does; an empty id is everybody's.
func (l *Log) harmed(id, format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.harm = append(l.harm, harmed{l.now(), id, fmt.Sprintf(format, args...)})
}

// harms gives what the chaos did to a job, and to everybody.
func (l *Log) harms(id string) []harmed {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []harmed
	for _, h := range l.harm {
		if h.job == "" || h.job == id {
			all = append(all, h)
		}
	}
	return all
}

// byJob gives the operations of each job.
func (l *Log) byJob() map[string][]Op {
	l.mu.Lock()
	defer l.mu.Unlock()
	byJob := map[string][]Op{}
	for _, op := range l.ops {
		byJob[op.Job] = append(byJob[op.Job], op)
	}
	return byJob
}

func (l *Log) specs() map[string]Spec {
	l.mu.Lock()
	defer l.mu.Unlock()
	specs := make(map[string]Spec, len(l.jobs))
	for id, s := range l.jobs {
		specs[id] = s
	}
	return specs
}

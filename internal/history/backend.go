package history

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weft-fabric/weft/fabric"
	"github.com/weft-fabric/weft/job"
)

// enqueueTries is how often a backend repeats an enqueue that was not answered.
const enqueueTries = 5

// backend enqueues jobs of every sort until ctx ends.
type backend struct {
	w    *world
	name string
	r    *rand.Rand
	m    *member
	mine []job.Spec // accepted
	next int
}

func (w *world) backend(ctx context.Context, n int) {
	b := &backend{w: w, name: fmt.Sprintf("backend%d", n), r: w.cfg.random("backend", int64(n))}
	m, err := w.join(ctx, skew(b.r))
	if err != nil {
		return
	}
	defer m.leave()
	b.m = m
	for pause(ctx, about(b.r, enqueues)) == nil {
		b.enqueue(ctx, n)
	}
}

func (b *backend) enqueue(ctx context.Context, n int) {
	b.next++
	spec := job.Spec{
		ID: fmt.Sprintf("j%d-%d", n, b.next), Stage: stageNames[b.r.IntN(len(stageNames))],
		InputRef: "data:,x", MaxAttempts: 1 + b.r.Int64N(3),
	}
	sort := b.r.Float64()
	if !b.w.cfg.WorkersOnly && sort < 0.04 {
		b.bare(spec)
		return
	}
	var opts []fabric.EnqueueOption
	switch {
	case sort < 0.25:
		spec.Key = fmt.Sprintf("key %d", b.r.IntN(6))
		policies := []fabric.Conflict{fabric.Supersede, fabric.Supersede, fabric.Reject, fabric.Coalesce}
		opts = append(opts, fabric.OnConflict(policies[b.r.IntN(len(policies))]))
	case sort < 0.35 && !b.w.cfg.WorkersOnly: // only a keeper lets them go on
		b.depend(&spec)
	case sort < 0.45:
		spec.AvailableAt = b.m.f.Now().Add(between(b.r, 100*time.Millisecond, 2*time.Second))
	case sort < 0.55:
		spec.Priority = 1 + b.r.IntN(2)
	}
	b.w.log.asked(spec.ID, Spec{Max: spec.MaxAttempts, Loose: spec.Key != "" || spec.Dependencies != nil})
	again, other := b.r.Float64() < 0.1, b.r.Float64() < 0.05
	if !b.ask(ctx, Enqueue, spec, opts) {
		return
	}
	b.mine = append(b.mine, spec)
	b.w.learn(spec)
	if again && spec.Key == "" {
		b.ask(ctx, Enqueue, spec, opts)
	}
	if other && spec.Key == "" {
		spec.InputRef = "data:,other"
		b.ask(ctx, Conflict, spec, opts)
	}
}

// depend lets the job wait for one or two earlier ones.
func (b *backend) depend(spec *job.Spec) {
	for range 1 + b.r.IntN(2) {
		if len(b.mine) > 0 {
			dep := b.mine[len(b.mine)-1-b.r.IntN(min(5, len(b.mine)))].ID
			if len(spec.Dependencies) == 0 || spec.Dependencies[0] != dep {
				spec.Dependencies = append(spec.Dependencies, dep)
			}
		}
	}
	if b.r.Float64() < 0.7 {
		spec.OnDependencyFailure = job.CancelOnFailure
	}
}

// ask enqueues once, and again while no answer comes: all tries are one
// operation. It reports whether the job was accepted.
func (b *backend) ask(ctx context.Context, kind Kind, spec job.Spec, opts []fabric.EnqueueOption) bool {
	op := Op{Client: b.name, Kind: kind, Job: spec.ID, Call: b.w.log.now()}
	for try := range enqueueTries {
		j, err := b.once(spec, opts)
		op.Result = resultOf(err)
		switch {
		case err == nil && j.ID != spec.ID:
			op.Result = Coalesced
		case err == nil:
			op.Told = b.w.log.told(j)
		}
		if try > 0 && op.Result != OK {
			op.Result = Unknown // an earlier try may have made the job
		}
		if op.Result != Unknown || pause(ctx, about(b.r, enqueues)) != nil {
			break
		}
	}
	b.w.note(op)
	return op.Result == OK
}

func (b *backend) once(spec job.Spec, opts []fabric.EnqueueOption) (job.Job, error) {
	ctx, cancel := call()
	defer cancel()
	return b.m.f.Enqueue(ctx, spec, opts...)
}

// bare publishes a spec to the work queue as any NATS client can. When the job
// comes to be is up to who takes it, so as an operation it stays unanswered.
func (b *backend) bare(spec job.Spec) {
	spec.ID = strings.Replace(spec.ID, "j", "bare", 1)
	b.w.log.asked(spec.ID, Spec{Max: spec.MaxAttempts, Bare: true})
	op := Op{Client: b.name, Kind: Enqueue, Job: spec.ID, Call: b.w.log.now(), Result: Unknown}
	ctx, cancel := call()
	defer cancel()
	js, err := jetstream.New(b.m.nc)
	if err == nil {
		if _, err = b.m.f.Stage(ctx, spec.Stage); err == nil {
			_, err = js.PublishMsg(ctx, &nats.Msg{Subject: b.w.itemSubject(spec), Data: spec.AppendJSON(nil)})
		}
	}
	b.w.note(op)
	if err == nil {
		b.w.log.accepted(spec.ID)
	}
}

// itemSubject is where the item of a job is.
func (w *world) itemSubject(spec job.Spec) string {
	if spec.Lane() == job.DefaultPriority {
		return fmt.Sprintf("%s.work.%s.%s", w.namespace, spec.Stage, spec.ID)
	}
	return fmt.Sprintf("%s.lane.%s.%d.%s", w.namespace, spec.Stage, spec.Lane(), spec.ID)
}

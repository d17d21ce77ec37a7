package history

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/weft-fabric/weft/fabric"
	"github.com/weft-fabric/weft/job"
)

// drainLook is how often the end of all jobs is looked for.
const drainLook = 250 * time.Millisecond

// drain waits until every job has ended, and names one that has not when the time
// is up.
func (w *world) drain(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, w.cfg.Drain)
	defer cancel()
	m, err := w.joinAt(ctx, w.servers.direct(), 0)
	if err != nil {
		return err
	}
	defer m.leave()
	began := w.log.now()
	var open error
	for {
		jobs, err := list(ctx, m.f)
		if err != nil {
			w.figures.add("lists broken off", 1)
		}
		if err == nil {
			if open = w.open(jobs); open == nil {
				w.figures.add("drain ms", int((w.log.now() - began).Milliseconds()))
				w.finished(jobs)
				return nil
			}
			if pause(ctx, drainLook) != nil {
				w.finished(jobs)
				return open
			}
			w.unblock(m, jobs)
			continue
		}
		if pause(ctx, drainLook) != nil {
			return cmp.Or(open, fmt.Errorf("the jobs could not be listed: %w", err))
		}
	}
}

// list reads every job. It is given up when it takes too long: after a change of
// leader the client's watch may wait for what will not come.
func list(ctx context.Context, f *fabric.Fabric) (map[string]job.Job, error) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	jobs := map[string]job.Job{}
	for j, err := range f.List(ctx, fabric.Filter{}) {
		if err != nil {
			return nil, err
		}
		jobs[j.ID] = j
	}
	return jobs, nil
}

// open is an *Illegal about a job that was accepted and has no record, or that
// has not ended; nil if there is none.
func (w *world) open(jobs map[string]job.Job) error {
	for id, spec := range w.log.specs() {
		if _, ok := jobs[id]; !ok && spec.Accepted {
			return &Illegal{Job: id, Why: "the job was accepted, and has no record", Rule: "end"}
		}
	}
	for id, j := range jobs {
		if !j.State.Terminal() {
			return &Illegal{Job: id, Rule: "end", Why: fmt.Sprintf("the job has not ended %s after the chaos: %s", w.cfg.Drain, sketch(j))}
		}
	}
	return nil
}

// unblock cancels jobs that would wait for ever, because what they wait for has
// ended without success: that is an operator's to decide.
func (w *world) unblock(m *member, jobs map[string]job.Job) {
	for id, j := range jobs {
		if j.State.Terminal() || j.OnDependencyFailure == job.CancelOnFailure {
			continue
		}
		for _, dep := range j.WaitingOn {
			if d := jobs[dep]; d.State == job.StateFailed || d.State == job.StateCancelled {
				w.operate("drain", Cancel, id, m.f.Cancel)
				break
			}
		}
	}
}

// finished notes how the jobs ended.
func (w *world) finished(jobs map[string]job.Job) {
	w.final = map[string]string{}
	for id, j := range jobs {
		w.final[id] = sketch(j)
		w.figures.add("jobs "+string(j.State), 1)
	}
}

// whereabouts tells what the work queue knows of a job that does not end.
func (w *world) whereabouts(ctx context.Context, id string) []string {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	m, err := w.joinAt(ctx, w.servers.direct(), 0)
	if err != nil {
		return []string{err.Error()}
	}
	defer m.leave()
	js, err := jetstream.New(m.nc)
	if err != nil {
		return []string{err.Error()}
	}
	var lines []string
	for _, stage := range stageNames {
		st, err := js.Stream(ctx, w.workStream(stage))
		if err != nil {
			return append(lines, err.Error())
		}
		info, err := st.Info(ctx, jetstream.WithSubjectFilter(w.namespace+".>"))
		if err != nil {
			return append(lines, err.Error())
		}
		for subject := range info.State.Subjects {
			if strings.HasSuffix(subject, "."+id) {
				if msg, err := st.GetLastMsgForSubject(ctx, subject); err == nil {
					lines = append(lines, fmt.Sprintf("there is a message at %s, sequence %d of %s", subject, msg.Sequence, msg.Time.Sub(w.log.Start)))
				}
			}
		}
		for c := range st.ListConsumers(ctx).Info() {
			lines = append(lines, fmt.Sprintf("consumer %s of %s: %d pending, %d not acknowledged, delivered up to %d, acknowledged up to %d",
				c.Name, c.Stream, c.NumPending, c.NumAckPending, c.Delivered.Stream, c.AckFloor.Stream))
		}
	}
	return lines
}

// quiet waits for the servers to be reachable, so that a round does not begin
// before the last one's damage is mended.
func (w *world) quiet(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	m, err := w.joinAt(ctx, w.servers.direct(), 0)
	if err != nil {
		return err
	}
	defer m.leave()
	for _, stage := range stageNames {
		if _, err := m.f.Stage(ctx, stage); err != nil {
			return err
		}
	}
	return nil
}

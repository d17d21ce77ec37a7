package fabric

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/weft-fabric/weft/internal/topology"
	"github.com/weft-fabric/weft/job"
	"github.com/weft-fabric/weft/kv"
	"github.com/weft-fabric/weft/stream"
)

// Finding is one thing that is not as it should be.
type Finding struct {
	Subject string `json:"subject"` // what it is about: a stream, a consumer, a job
	Problem string `json:"problem"`
	Repair  string `json:"repair"` // what repairing does, or what a person has to do
	// Repaired is true once that was done.
	Repaired bool `json:"repaired"`
}

// Doctor compares what the fabric has on the server with what it needs, settings
// first and then records against items, and gives each finding as it is made. With
// repair it sets right what a program can: settings, missing items, leases past
// their end. A record that cannot be read is left for a person. It works on a
// fabric that Open refuses because a setting has drifted.
func Doctor(ctx context.Context, nc *nats.Conn, opts Options, repair bool, give func(Finding)) error {
	opts = opts.withDefaults()
	if err := opts.Validate(); err != nil {
		return err
	}
	if err := checkServer(nc); err != nil {
		return err
	}
	js, _, err := jetStream(nc, opts.Domain)
	if err != nil {
		return err
	}
	d := &doctor{repair: repair, give: give}
	config := kv.StreamConfig(kv.Config{Namespace: opts.Namespace, Replicas: opts.Replicas})
	_, err = topology.EnsureStream(ctx, js, config)
	healthy, err := d.settings(err, func() error { return topology.RepairStream(ctx, js, config) })
	if err != nil || !healthy {
		return explain(nc, err)
	}
	f, err := Open(ctx, nc, opts)
	if err != nil {
		return err
	}
	defer f.Close()
	d.keeper = newKeeper(f)
	if err := d.stages(ctx); err != nil {
		return explain(nc, err)
	}
	if err := d.crons(ctx); err != nil {
		return explain(nc, err)
	}
	if err := d.feeds(ctx); err != nil {
		return explain(nc, err)
	}
	return explain(nc, d.records(ctx))
}

// doctor is one examination.
type doctor struct {
	keeper *keeper
	repair bool
	give   func(Finding)
}

// settings reports each setting that err says has drifted. It tells whether the
// settings are right in the end; any other error is passed on.
func (d *doctor) settings(err error, mend func() error) (healthy bool, _ error) {
	drift, ok := errors.AsType[*topology.DriftError](err)
	if !ok {
		return err == nil, err
	}
	if d.repair {
		if err := mend(); err != nil {
			return false, err
		}
	}
	for _, s := range drift.Drifts {
		d.give(Finding{
			Subject: s.Asset, Problem: fmt.Sprintf("%s is %s and must be %s", s.Setting, s.Have, s.Want),
			Repair: "set it to " + s.Want, Repaired: d.repair,
		})
	}
	return d.repair, nil
}

// stages looks at the work stream and the consumers of every stage.
func (d *doctor) stages(ctx context.Context) error {
	f := d.keeper.f
	for e, err := range f.bucket.List(ctx, kv.AllStages) {
		if err != nil {
			return err
		}
		name, _ := kv.StageOf(e.Key)
		st, _, err := f.stages.read(ctx, name)
		if err != nil {
			d.give(Finding{Subject: "key " + e.Key, Problem: err.Error(), Repair: "put a readable value there, or delete the key so that the stage gets the default settings"})
			continue
		}
		_, err = d.settings(f.queue.Ensure(ctx, name, st.settings()), func() error { return f.queue.Repair(ctx, name, st.settings()) })
		if err != nil {
			return err
		}
		if err := d.pauses(ctx, st); err != nil {
			return err
		}
	}
	return nil
}

// pauses looks whether a stage's consumers are paused as the stage is.
func (d *doctor) pauses(ctx context.Context, st Stage) error {
	queue := d.keeper.f.queue
	depth, err := queue.Depth(ctx, st.Name, st.settings())
	if err != nil {
		return err
	}
	drift := pauseDrift(st, depth)
	if len(drift) > 0 && d.repair {
		if err := queue.SetPaused(ctx, st.Name, st.Paused); err != nil {
			return err
		}
	}
	for _, problem := range drift {
		how := "resume it; to keep it, use weft stage pause " + st.Name
		if st.Paused {
			how = "pause it"
		}
		d.give(Finding{Subject: "stage " + st.Name, Problem: problem, Repair: how, Repaired: d.repair})
	}
	return nil
}

// crons looks at the stream of cron entries, if there ever was one, and at their
// schedules.
func (d *doctor) crons(ctx context.Context) error {
	f := d.keeper.f
	entries, err := f.bucket.Few(ctx, kv.AllCrons)
	if err != nil {
		return err
	}
	_, err = f.queue.CronNames(ctx)
	if used := len(entries) > 0 || err == nil; !used {
		if errors.Is(err, stream.ErrNoStream) {
			return nil
		}
		return err
	}
	if _, err := d.settings(f.queue.EnsureCron(ctx), func() error { return f.queue.RepairCron(ctx) }); err != nil {
		return err
	}
	return f.eachCronDrift(ctx, func(name, problem string) error {
		finding := Finding{Subject: "cron entry " + name, Problem: problem, Repair: "have the server's schedule follow the entry", Repaired: d.repair}
		if d.repair {
			if err := f.followCron(ctx, name); err != nil {
				finding.Problem, finding.Repaired = err.Error(), false
				finding.Repair = "weft cron add or weft cron rm " + name
			}
		}
		d.give(finding)
		return nil
	})
}

// feeds looks at the consumer of every feed of outcomes.
func (d *doctor) feeds(ctx context.Context) error {
	bucket := d.keeper.f.bucket
	stored, err := bucket.Few(ctx, kv.AllFeeds)
	if err != nil {
		return err
	}
	for _, e := range stored {
		s, err := decodeFeed(e)
		if err != nil {
			d.give(Finding{Subject: "key " + e.Key, Problem: err.Error(), Repair: "weft job outcomes rm " + s.Name + ", or put a readable value there"})
			continue
		}
		_, err = d.settings(bucket.CheckFeed(ctx, s.config()), func() error { return bucket.RepairFeed(ctx, s.config()) })
		if err != nil {
			return err
		}
	}
	return nil
}

// records reads through all records.
func (d *doctor) records(ctx context.Context) error {
	offered, err := d.keeper.offered(ctx)
	if err != nil {
		return err
	}
	for e, err := range d.keeper.f.bucket.List(ctx, kv.AllJobs) {
		if err != nil {
			return err
		}
		j, err := decode(e)
		if err != nil {
			d.give(Finding{Subject: "key " + e.Key, Problem: err.Error(), Repair: "put the repaired record there; until then nothing touches it"})
			continue
		}
		if err := d.record(ctx, j, offered.has(j.ID), e.Created); err != nil {
			return err
		}
	}
	return nil
}

// record looks at one job. What changed within the grace may be on its way.
func (d *doctor) record(ctx context.Context, j job.Job, offered bool, changed time.Time) error {
	now := d.keeper.f.Now()
	switch {
	case ready(j) && !offered && now.Sub(changed) > keeperGrace:
		return d.mend(ctx, j.ID, "it waits to run and has no item", "publish its item", d.keeper.complete)
	case j.State == job.StateLeased && now.Sub(j.LeaseExpiresAt) > keeperGrace:
		return d.mend(ctx, j.ID, "its lease ended at "+j.LeaseExpiresAt.Format(time.RFC3339)+" and nobody has ended the attempt; is a keeper running (weft work, weft serve or weft keep)?", "end the attempt", d.keeper.expire)
	}
	return nil
}

func (d *doctor) mend(ctx context.Context, id, problem, how string, act func(context.Context, string) error) error {
	if d.repair {
		if err := act(ctx, id); err != nil && !harmless(err) {
			return err
		}
	}
	d.give(Finding{Subject: "job " + id, Problem: problem, Repair: how, Repaired: d.repair})
	return nil
}

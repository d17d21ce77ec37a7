package metrics

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weft-fabric/weft/fabric"
)

const (
	// loadsWait bounds what a scrape waits for the server; Prometheus gives up after
	// 10 s by default, and what the process itself has counted is worth having.
	loadsWait = 3 * time.Second
	// loadsFresh is how long an answer serves: two scrapers cost no more than one.
	loadsFresh = 5 * time.Second
)

// loads asks the fabric when it is scraped.
type loads struct {
	ask func(context.Context) (fabric.Loads, error)
	now func() time.Time

	jobs, oldest, workers, paused, stale, readable, elected, up *prometheus.Desc

	mu    sync.Mutex
	last  fabric.Loads // guarded by mu
	err   error        // guarded by mu
	asked time.Time    // guarded by mu
}

// Loads adds what the fabric knows of its stages to what is scraped. now is the
// server's clock. A process that only works should ask for its own stage, so that a
// thousand of them do not each ask for all.
func (m *Metrics) Loads(ask func(context.Context) (fabric.Loads, error), now func() time.Time) {
	m.registry.MustRegister(newLoads(ask, now))
}

func newLoads(ask func(context.Context) (fabric.Loads, error), now func() time.Time) *loads {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(prometheus.BuildFQName(namespace, "", name), help, labels, nil)
	}
	return &loads{
		ask: ask, now: now,
		jobs:     desc("jobs", "Jobs of a stage by state: waiting to be taken, running, delayed, blocked by others, and what is kept of those that ended. The same in every process that says it.", stageLabel, stateLabel),
		oldest:   desc("stage_oldest_waiting_seconds", "How long ago the item that waits longest was stored; 0 if none waits.", stageLabel),
		workers:  desc("stage_workers", "Workers that make themselves known for a stage.", stageLabel),
		paused:   desc("stage_paused", "1 while the stage is paused.", stageLabel),
		stale:    desc("stage_counts_stale", "1 while no keeper keeps the counts of blocked and ended jobs.", stageLabel),
		readable: desc("stage_up", "1 if the last scrape could read the stage.", stageLabel),
		elected:  desc("keeper_elected", "1 while some process leads as the keeper."),
		up:       desc("fabric_up", "1 if the last scrape was answered by the server."),
	}
}

// Describe says that the metrics are known beforehand.
func (l *loads) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{l.jobs, l.oldest, l.workers, l.paused, l.stale, l.readable, l.elected, l.up} {
		to <- d
	}
}

// Collect asks, or repeats what was answered a moment ago. Without an answer it says
// so, and nothing of what it does not know.
func (l *loads) Collect(to chan<- prometheus.Metric) {
	all, err := l.fresh()
	to <- gauge(l.up, truth(err == nil))
	if err != nil {
		return
	}
	to <- gauge(l.elected, truth(all.Keeper))
	for _, s := range all.Stages {
		l.stage(to, s)
	}
}

func (l *loads) stage(to chan<- prometheus.Metric, s fabric.StageLoad) {
	to <- gauge(l.readable, truth(s.Err == nil), s.Name)
	to <- gauge(l.workers, float64(s.Workers), s.Name)
	if s.Err != nil {
		return
	}
	for state, n := range map[string]int{
		"waiting": s.Waiting, "running": s.Running, "delayed": s.Delayed,
		"blocked": s.Blocked, "succeeded": s.Succeeded, "failed": s.Failed, "cancelled": s.Cancelled,
	} {
		to <- gauge(l.jobs, float64(n), s.Name, state)
	}
	waited := 0.0
	if !s.Oldest.IsZero() {
		waited = max(0, l.now().Sub(s.Oldest).Seconds())
	}
	to <- gauge(l.oldest, waited, s.Name)
	to <- gauge(l.paused, truth(s.Paused), s.Name)
	to <- gauge(l.stale, truth(s.Stale), s.Name)
}

func (l *loads) fresh() (fabric.Loads, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.asked.IsZero() && time.Since(l.asked) < loadsFresh {
		return l.last, l.err
	}
	ctx, cancel := context.WithTimeout(context.Background(), loadsWait)
	defer cancel()
	l.last, l.err = l.ask(ctx)
	l.asked = time.Now()
	return l.last, l.err
}

func gauge(d *prometheus.Desc, value float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
}

func truth(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

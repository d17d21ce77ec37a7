package metrics

import (
	"runtime"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/weft-fabric/weft/fabric"
)

// namespace begins the name of every metric.
const namespace = "weft"

// labels
const (
	stageLabel   = "stage"
	stateLabel   = "state"
	outcomeLabel = "outcome"
	codeLabel    = "code"
	actionLabel  = "action"
	findingLabel = "finding"
	causeLabel   = "cause"
	resultLabel  = "result"
)

// durations suits both a job of milliseconds and one of an hour, in seconds.
var durations = []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600}

// Metrics are the metrics of one process, on a registry of their own.
type Metrics struct {
	registry *prometheus.Registry

	jobsFinished     *prometheus.CounterVec
	attemptDuration  *prometheus.HistogramVec
	waitDuration     *prometheus.HistogramVec
	claims           *prometheus.CounterVec
	claimsRefused    *prometheus.CounterVec
	renewals         *prometheus.CounterVec
	renewalsFailed   *prometheus.CounterVec
	leasesLost       *prometheus.CounterVec
	released         *prometheus.CounterVec
	unreadable       prometheus.Counter
	leading          prometheus.Gauge
	keeperActions    *prometheus.CounterVec
	audits           *prometheus.CounterVec
	auditDuration    prometheus.Histogram
	auditFindings    *prometheus.CounterVec
	recordsAudited   prometheus.Gauge
	unreadableNow    prometheus.Gauge
	running          *prometheus.GaugeVec
	slots            *prometheus.GaugeVec
	outcomesUnstored *prometheus.CounterVec
}

// New makes the metrics of a process of this version.
func New(version string) *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(),

		jobsFinished:     counters("jobs_finished_total", "Jobs whose end this process has written, by the state they ended in.", stageLabel, outcomeLabel),
		attemptDuration:  histograms("attempt_duration_seconds", "Attempts that this process has ended, from claim to end, on the server's clock.", stageLabel, outcomeLabel),
		waitDuration:     histograms("job_wait_seconds", "Time from when a job could be claimed until this process claimed it.", stageLabel),
		claims:           counters("claims_total", "Jobs leased to this process.", stageLabel),
		claimsRefused:    counters("claims_refused_total", "Items that turned out to be none to claim, by the code of the rule.", stageLabel, codeLabel),
		renewals:         counters("lease_renewals_total", "Leases renewed.", stageLabel),
		renewalsFailed:   counters("lease_renewals_failed_total", "Renewals of a lease that failed, by code; error is a server that did not answer.", stageLabel, codeLabel),
		leasesLost:       counters("leases_lost_total", "Claims that turned out to be somebody else's to end; cause cancelled is an operator's or a newer job's doing.", stageLabel, causeLabel),
		released:         counters("jobs_released_total", "Jobs given back at no charge, by a worker that stops (released) or by a handler (returned).", stageLabel, outcomeLabel),
		unreadable:       prometheus.NewCounter(opts("records_unreadable_total", "Sights of a record that cannot be read.")),
		leading:          prometheus.NewGauge(prometheus.GaugeOpts(opts("keeper_leading", "1 while this process is the keeper that leads."))),
		keeperActions:    counters("keeper_actions_total", "What the keeper of this process has done for whoever could not.", actionLabel),
		audits:           counters("keeper_audits_total", "Audits by this process, done or broken off.", resultLabel),
		auditDuration:    prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: namespace, Name: "keeper_audit_duration_seconds", Help: "How long audits took.", Buckets: durations}),
		auditFindings:    counters("keeper_audit_findings_total", "What audits found: jobs without item, schedules that did not fire.", findingLabel),
		recordsAudited:   prometheus.NewGauge(prometheus.GaugeOpts(opts("keeper_records", "Records that the last audit of this process read."))),
		unreadableNow:    prometheus.NewGauge(prometheus.GaugeOpts(opts("keeper_records_unreadable", "Records that the last audit of this process could not read; 0 in one that does not lead."))),
		running:          gauges("attempts_running", "Attempts that this process's worker has under way.", stageLabel),
		slots:            gauges("worker_slots", "Attempts that this process's worker may have under way.", stageLabel),
		outcomesUnstored: counters("outcomes_unrecorded_total", "Outcomes that could not be written; their jobs run again.", stageLabel),
	}
	m.registry.MustRegister(
		m.jobsFinished, m.attemptDuration, m.waitDuration, m.claims, m.claimsRefused, m.renewals, m.renewalsFailed,
		m.leasesLost, m.released, m.unreadable, m.leading, m.keeperActions, m.audits, m.auditDuration, m.auditFindings,
		m.recordsAudited, m.unreadableNow, m.running, m.slots, m.outcomesUnstored,
		buildInfo(version), collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	for _, action := range fabric.KeeperActions() {
		m.keeperActions.WithLabelValues(string(action))
	}
	m.audits.WithLabelValues(auditDone)
	m.audits.WithLabelValues(auditBrokenOff)
	return m
}

// Results of an audit.
const (
	auditDone      = "done"
	auditBrokenOff = "broken_off"
)

// Registry is what a scrape gathers.
func (m *Metrics) Registry() *prometheus.Registry { return m.registry }

func opts(name, help string) prometheus.CounterOpts {
	return prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}
}

func counters(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(opts(name, help), labels)
}

func gauges(name, help string, labels ...string) *prometheus.GaugeVec {
	return prometheus.NewGaugeVec(prometheus.GaugeOpts(opts(name, help)), labels)
}

func histograms(name, help string, labels ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: namespace, Name: name, Help: help, Buckets: durations}, labels)
}

func buildInfo(version string) prometheus.Collector {
	o := prometheus.GaugeOpts(opts("build_info", "1, with what this process was built from."))
	o.ConstLabels = prometheus.Labels{"version": version, "goversion": runtime.Version()}
	info := prometheus.NewGauge(o)
	info.Set(1)
	return info
}

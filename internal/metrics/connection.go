package metrics

import "github.com/prometheus/client_golang/prometheus"

// Connection adds the state of the process's connection to what is scraped.
func (m *Metrics) Connection(connected func() bool, reconnects func() uint64) {
	m.registry.MustRegister(
		prometheus.NewGaugeFunc(prometheus.GaugeOpts(opts("connection_up", "1 while this process is connected to the server.")),
			func() float64 { return truth(connected()) }),
		prometheus.NewCounterFunc(opts("connection_reconnects_total", "How often the connection was taken up again."),
			func() float64 { return float64(reconnects()) }),
	)
}

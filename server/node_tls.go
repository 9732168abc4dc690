package server

import (
	"context"
	"net"

	"github.com/prometheus/client_golang/prometheus"

	"kaas.dev/kaas/server/tlsconf"
)

// secureToPeers is what makes a connection to another broker one of TLS; nil if they do
// without among themselves.
func (n *Node) secureToPeers() func(ctx context.Context, nc net.Conn, host string) (net.Conn, error) {
	if st := n.stores[n.cfg.InterBroker]; st != nil {
		return st.Client
	}
	return nil
}

// keyWatch takes key files that change, until it is stopped. Nil does nothing.
type keyWatch struct {
	end  context.CancelFunc
	done chan struct{}
}

func (n *Node) watchKeys() *keyWatch {
	var stores []*tlsconf.Store
	for _, ep := range n.cfg.Listeners {
		st := n.stores[ep.Name]
		if st == nil {
			continue
		}
		stores = append(stores, st)
		for _, note := range st.Settings().Notes {
			n.log.Warn(note, "listener", st.Settings().Listener)
		}
	}
	if len(stores) == 0 {
		return nil
	}
	n.metrics.registry.MustRegister(keyMetrics(stores))
	ctx, end := context.WithCancel(context.Background())
	w := &keyWatch{end, make(chan struct{})}
	go func() {
		defer close(w.done)
		tlsconf.Watch(ctx, stores, n.log)
	}()
	return w
}

// stop ends the watch; a file system that hangs keeps it no longer than ctx lasts.
func (w *keyWatch) stop(ctx context.Context) {
	if w == nil {
		return
	}
	w.end()
	select {
	case <-w.done:
	case <-ctx.Done():
	}
}

// keyMetrics tells of the listeners' certificates.
type keyMetrics []*tlsconf.Store

var (
	certEnds    = prometheus.NewDesc("kaas_tls_certificate_not_after_seconds", "When the first of the certificates expires that the listener shows, its own or one that it rests on, in Unix time.", []string{"listener"}, nil)
	keyReads    = prometheus.NewDesc("kaas_tls_reloads_total", "Changes of a listener's key files that were taken.", []string{"listener"}, nil)
	keyRefusals = prometheus.NewDesc("kaas_tls_reload_failures_total", "Changes of a listener's key files that were not taken.", []string{"listener"}, nil)
)

// Describe implements prometheus.Collector.
func (m keyMetrics) Describe(ch chan<- *prometheus.Desc) {
	ch <- certEnds
	ch <- keyReads
	ch <- keyRefusals
}

// Collect implements prometheus.Collector.
func (m keyMetrics) Collect(ch chan<- prometheus.Metric) {
	for _, st := range m {
		listener := st.Settings().Listener
		reads, refusals := st.Counts()
		ch <- prometheus.MustNewConstMetric(certEnds, prometheus.GaugeValue, float64(st.End().Unix()), listener)
		ch <- prometheus.MustNewConstMetric(keyReads, prometheus.CounterValue, float64(reads), listener)
		ch <- prometheus.MustNewConstMetric(keyRefusals, prometheus.CounterValue, float64(refusals), listener)
	}
}

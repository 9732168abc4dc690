package server

import (
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// metrics are the broker's figures. Those that Kafka has too are called as its JMX
// exporter calls them, so that dashboards made for Kafka show something.
type metrics struct {
	registry *prometheus.Registry

	conns    prometheus.Gauge
	panics   prometheus.Counter
	bytesIn  prometheus.Counter
	bytesOut prometheus.Counter
	requests *prometheus.CounterVec
	latency  *prometheus.HistogramVec
	errors   *prometheus.CounterVec
	checks   *prometheus.CounterVec
	// handshakes are those of TLS that failed.
	handshakes *prometheus.CounterVec
	logins     *prometheus.CounterVec
	refused    *prometheus.CounterVec
	// denied are decisions of the authorizer, unlogged those of them that the log has no line of.
	denied, unlogged prometheus.Counter

	// acceptWaits and addressWaits are for how long new connections have to wait, by listener.
	acceptWaits, addressWaits *prometheus.HistogramVec

	throttled [throttledBy]prometheus.Histogram // how long clients have to wait

	topicMessages *prometheus.CounterVec
	topicIn       *prometheus.CounterVec
	topicOut      *prometheus.CounterVec
	topicThere    atomic.Pointer[func(topic string) bool] // nil until there is a view
}

func newMetrics() *metrics {
	m := &metrics{
		registry:     prometheus.NewRegistry(),
		conns:        prometheus.NewGauge(prometheus.GaugeOpts{Name: "kafka_server_socket_server_metrics_connection_count", Help: "Open client connections."}),
		panics:       prometheus.NewCounter(prometheus.CounterOpts{Name: "kaas_request_panics_total", Help: "Requests that ended in a panic."}),
		bytesIn:      prometheus.NewCounter(prometheus.CounterOpts{Name: "kaas_network_bytes_in_total", Help: "Bytes of requests read."}),
		bytesOut:     prometheus.NewCounter(prometheus.CounterOpts{Name: "kaas_network_bytes_out_total", Help: "Bytes of answers written."}),
		requests:     counters("kafka_network_requestmetrics_requests_total", "Requests answered, by API and version.", "request", "version"),
		errors:       counters("kafka_network_requestmetrics_errors_total", "Error codes answered, by API.", "request", "error"),
		logins:       counters("kafka_server_socket_server_metrics_successful_authentication_total", "Authentications by SASL that succeeded, by listener and mechanism.", "listener", "mechanism"),
		refused:      counters("kafka_server_socket_server_metrics_failed_authentication_total", "Authentications by SASL that failed, by listener and mechanism.", "listener", "mechanism"),
		checks:       counters("kaas_fence_checks_total", "Checks of the data session asked for by requests, by outcome.", "outcome"),
		acceptWaits:  acceptWaits("connection_accept", "How long listeners waited, where connections came faster than max.connection.creation.rate."),
		addressWaits: acceptWaits("ip_connection_accept", "How long connections above the quota of their address had to wait, and were closed."),
		latency: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "kafka_network_requestmetrics_totaltime_seconds", Help: "From the last byte of a request to its answer, by API.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 2.5, 13),
		}, []string{"request"}),
		topicMessages: counters("kafka_server_brokertopicmetrics_messagesin_total", "Records acknowledged.", "topic"),
		topicIn:       counters("kafka_server_brokertopicmetrics_bytesin_total", "Bytes of batches acknowledged.", "topic"),
		topicOut:      counters("kafka_server_brokertopicmetrics_bytesout_total", "Bytes of batches sent to consumers.", "topic"),
	}
	m.handshakes = counters("kaas_tls_handshake_failures_total", "TLS handshakes that failed, by listener and reason.", "listener", "reason")
	m.denied = prometheus.NewCounter(prometheus.CounterOpts{Name: "kafka_server_authorizer_metrics_authorization_denied_total", Help: "Decisions of the authorizer that deny, also what is only left out of a list."})
	m.unlogged = prometheus.NewCounter(prometheus.CounterOpts{Name: "kaas_audit_denials_not_logged_total", Help: "Denials that the log has no line of their own for: of a request, or a client, with too many."})
	m.registry.MustRegister(m.handshakes, m.denied, m.unlogged)
	for why, name := range throttleNames {
		m.throttled[why] = prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "kafka_server_" + name + "_throttle_time_seconds", Help: "How long clients were made to wait by their quotas of that kind, where they were.",
			Buckets: prometheus.ExponentialBuckets(0.001, 4, 10),
		})
		m.registry.MustRegister(m.throttled[why])
	}
	m.registry.MustRegister(m.conns, m.panics, m.bytesIn, m.bytesOut, m.requests, m.errors, m.checks, m.logins, m.refused, m.latency, m.acceptWaits, m.addressWaits,
		m.topicMessages, m.topicIn, m.topicOut,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

func counters(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

// answered counts a request whose answer is about to be written.
func (m *metrics) answered(r *request) {
	name := kmsg.NameForKey(r.key)
	version := strconv.Itoa(int(r.version))
	if r.unknown {
		version = "unknown"
	}
	m.requests.WithLabelValues(name, version).Inc()
	m.latency.WithLabelValues(name).Observe(time.Since(r.arrived).Seconds())
}

// failed counts an error code of an answer.
func (m *metrics) failed(key kmsg.Key, code int16) {
	name := "UNKNOWN"
	if e := kerr.TypedErrorForCode(code); e != nil {
		name = e.Message
	}
	m.errors.WithLabelValues(kmsg.NameForKey(int16(key)), name).Inc()
}

func (m *metrics) checked(err error) error {
	outcome := "passed"
	if err != nil {
		outcome = "failed"
	}
	m.checks.WithLabelValues(outcome).Inc()
	return err
}

func (m *metrics) produced(topic string, records int32, bytes int) {
	m.topicMessages.WithLabelValues(topic).Add(float64(records))
	m.topicIn.WithLabelValues(topic).Add(float64(bytes))
}

func (m *metrics) fetched(topic string, bytes int) {
	m.topicOut.WithLabelValues(topic).Add(float64(bytes))
}

// forget drops the series of a deleted topic.
func (m *metrics) forget(topic string) {
	for _, v := range []*prometheus.CounterVec{m.topicMessages, m.topicIn, m.topicOut} {
		v.DeleteLabelValues(topic)
	}
}

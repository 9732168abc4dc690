package server

import (
	"net"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// maxRefused is how many connections that come too often may be open until they are closed.
// Of further ones nobody waits.
const maxRefused = 1000

// admit has a new connection wait where there were too many, with all that come by the same
// listener after it (KIP-612), and reports whether it may be served. One of an address that
// makes too many is closed, after a while, so that whoever tries again at once gains nothing.
func (s *Server) admit(at int, nc net.Conn) bool {
	view := s.backend.View()
	cfg := s.cfg.in(view)
	l := &cfg.Listeners[at]
	itself := len(s.cfg.Listeners) > 1 && l.Name == s.cfg.InterBroker
	if wait := s.quota.Accept(l.Name, l.rate, cfg.MaxConnectionRate, itself); wait > 0 {
		s.metrics.acceptWaits.WithLabelValues(l.Name).Observe(wait.Seconds())
		if !s.pause(wait) {
			nc.Close()
			return false
		}
	}
	wait := s.quota.Connect(view.Quotas(), addressOf(nc))
	if wait <= 0 {
		return true
	}
	s.metrics.addressWaits.WithLabelValues(l.Name).Observe(wait.Seconds())
	if s.refused.Add(1) > maxRefused {
		s.refused.Add(-1)
		nc.Close()
		return false
	}
	s.wg.Go(func() {
		defer s.refused.Add(-1)
		s.pause(wait)
		nc.Close()
	})
	return false
}

// pause reports whether the time has passed, and not the server's.
func (s *Server) pause(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-s.stop:
		return false
	}
}

func acceptWaits(name, help string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "kafka_server_socket_server_metrics_" + name + "_throttle_time_seconds", Help: help,
		Buckets: prometheus.ExponentialBuckets(0.001, 4, 6)}, []string{"listener"})
}

package server

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// watchTopics has the series of topics that are gone be dropped when figures are next
// asked for: a topic may be deleted through any broker, and is served by several.
func (m *metrics) watchTopics(there func(topic string) bool) { m.topicThere.Store(&there) }

// Gather implements [prometheus.Gatherer].
func (m *metrics) Gather() ([]*dto.MetricFamily, error) {
	fs, err := m.registry.Gather()
	there := m.topicThere.Load()
	if there == nil {
		return fs, err
	}
	for _, f := range fs {
		f.Metric = slices.DeleteFunc(f.Metric, func(series *dto.Metric) bool {
			topic, ok := topicOfSeries(series)
			if !ok || (*there)(topic) {
				return false
			}
			m.forget(topic)
			return true
		})
	}
	return slices.DeleteFunc(fs, func(f *dto.MetricFamily) bool { return len(f.Metric) == 0 }), err
}

func topicOfSeries(series *dto.Metric) (string, bool) {
	for _, l := range series.GetLabel() {
		if l.GetName() == "topic" {
			return l.GetValue(), true
		}
	}
	return "", false
}

var _ prometheus.Gatherer = (*metrics)(nil)

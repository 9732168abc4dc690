package server

import (
	"github.com/prometheus/client_golang/prometheus"

	"kaas.dev/kaas/partition"
)

// watchCleaner shows the cleaner's figures.
func (m *metrics) watchCleaner(stats func() partition.CleanerStats) {
	counter := func(name, help string, value func(partition.CleanerStats) int64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, func() float64 { return float64(value(stats())) })
	}
	m.registry.MustRegister(
		counter("kaas_cleaner_retentions_total", "Partitions that retention went through.", func(s partition.CleanerStats) int64 { return s.Retentions }),
		counter("kaas_cleaner_compactions_total", "Compactions of a partition.", func(s partition.CleanerStats) int64 { return s.Compactions }),
		counter("kaas_cleaner_failures_total", "Attempts at a partition that failed.", func(s partition.CleanerStats) int64 { return s.Failures }),
		counter("kaas_cleaner_bytes_total", "Bytes that compaction has read and written.", func(s partition.CleanerStats) int64 { return s.Bytes }),
		counter("kaas_cleaner_records_removed_total", "Records that compaction has removed.", func(s partition.CleanerStats) int64 { return s.Removed }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "kafka_log_logcleanermanager_uncleanable_partitions_count",
			Help: "Partitions whose last attempt failed; they are tried again."}, func() float64 { return float64(stats().Failing) }),
	)
}

package server

import (
	"time"

	"kaas.dev/kaas/partition"
	"kaas.dev/kaas/projections"
)

// cleanerKeys are rows of TestConfigEveryKeyReachesSomething; partition's tests and
// TestCleanerRuns see them acting.
func cleanerKeys(topic *projections.Topic) map[string]struct {
	value string
	ok    func(*Config) bool
} {
	type row = struct {
		value string
		ok    func(*Config) bool
	}
	broker := func(ok func(partition.CleanerOptions) bool) func(*Config) bool {
		return func(c *Config) bool { return ok(*(&Node{cfg: c}).options().Cleaner) }
	}
	cleanup := func(ok func(partition.Cleanup) bool) func(*Config) bool {
		return func(c *Config) bool { return ok(c.partitionConfig(topic).Cleanup) }
	}
	codec := func(ok func(partition.Compression) bool) func(*Config) bool {
		return func(c *Config) bool { return ok(c.partitionConfig(topic).Compression) }
	}
	const ms = time.Millisecond
	return map[string]row{
		"log.retention.check.interval.ms":     {"21", broker(func(o partition.CleanerOptions) bool { return o.RetentionInterval == 21*ms })},
		"log.cleaner.enable":                  {"false", broker(func(o partition.CleanerOptions) bool { return o.NoCompaction })},
		"log.cleaner.threads":                 {"22", broker(func(o partition.CleanerOptions) bool { return o.Threads == 22 })},
		"log.cleaner.dedupe.buffer.size":      {"2097152", broker(func(o partition.CleanerOptions) bool { return o.Memory == 2<<20 })},
		"log.cleaner.io.max.bytes.per.second": {"23.5", broker(func(o partition.CleanerOptions) bool { return o.BytesPerSecond == 23.5 })},
		"log.cleaner.backoff.ms":              {"24", broker(func(o partition.CleanerOptions) bool { return o.Backoff == 24*ms })},
		"log.cleanup.policy":                  {"compact, delete", cleanup(func(c partition.Cleanup) bool { return c.Compact && c.Delete })},
		"log.retention.ms":                    {"25", cleanup(func(c partition.Cleanup) bool { return c.RetentionAge == 25*ms })},
		"log.retention.bytes":                 {"26", cleanup(func(c partition.Cleanup) bool { return c.RetentionBytes == 26 })},
		"log.segment.delete.delay.ms":         {"27", cleanup(func(c partition.Cleanup) bool { return c.DeleteDelay == 27*ms })},
		"log.cleaner.min.cleanable.ratio":     {"0.25", cleanup(func(c partition.Cleanup) bool { return c.MinDirtyRatio == 0.25 })},
		"log.cleaner.min.compaction.lag.ms":   {"28", cleanup(func(c partition.Cleanup) bool { return c.MinCompactionLag == 28*ms })},
		"log.cleaner.max.compaction.lag.ms":   {"29", cleanup(func(c partition.Cleanup) bool { return c.MaxCompactionLag == 29*ms })},
		"log.cleaner.delete.retention.ms":     {"30", cleanup(func(c partition.Cleanup) bool { return c.DeleteRetention == 30*ms })},
		"compression.type":                    {"lz4", codec(func(c partition.Compression) bool { return c.Type == "lz4" })},
		"compression.gzip.level":              {"2", codec(func(c partition.Compression) bool { return c.GzipLevel == 2 })},
		"compression.lz4.level":               {"3", codec(func(c partition.Compression) bool { return c.LZ4Level == 3 })},
		"compression.zstd.level":              {"4", codec(func(c partition.Compression) bool { return c.ZstdLevel == 4 })},
	}
}

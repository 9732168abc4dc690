package server

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"kaas.dev/kaas/partition"
)

// cleanup is what a topic's configuration says of removing records.
func cleanup(value func(string) string, number func(string) int64) partition.Cleanup {
	var policy []string
	for _, s := range strings.Split(value("cleanup.policy"), ",") {
		policy = append(policy, strings.TrimSpace(s))
	}
	ratio, _ := strconv.ParseFloat(strings.TrimSpace(value("min.cleanable.dirty.ratio")), 64) // checked when it was set
	c := partition.Cleanup{
		Delete:           slices.Contains(policy, "delete"),
		Compact:          slices.Contains(policy, "compact"),
		RetentionAge:     durationMs(number("retention.ms")),
		RetentionBytes:   number("retention.bytes"),
		DeleteDelay:      durationMs(number("file.delete.delay.ms")),
		MinDirtyRatio:    ratio,
		MinCompactionLag: durationMs(number("min.compaction.lag.ms")),
		DeleteRetention:  durationMs(number("delete.retention.ms")),
	}
	if lag := number("max.compaction.lag.ms"); lag <= math.MaxInt64/int64(time.Millisecond) {
		c.MaxCompactionLag = durationMs(lag)
	}
	return c
}

// compression is what a topic's configuration says of the codec of stored batches.
func compression(value func(string) string, number func(string) int64) partition.Compression {
	return partition.Compression{
		Type:      strings.TrimSpace(value("compression.type")),
		GzipLevel: int(number("compression.gzip.level")),
		LZ4Level:  int(number("compression.lz4.level")),
		ZstdLevel: int(number("compression.zstd.level")),
	}
}

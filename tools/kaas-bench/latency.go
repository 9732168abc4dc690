package main

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Latencies are kept in microseconds from 1 µs to 10 minutes, to three digits. A
// value outside is kept as the nearest that fits: a stall must not vanish.
const (
	leastLatency = int64(1)
	mostLatency  = int64(10 * time.Minute / time.Microsecond)
)

// latencies is a histogram. It has no lock of its own.
type latencies struct{ hist *hdrhistogram.Histogram }

func newLatencies() latencies {
	return latencies{hist: hdrhistogram.New(leastLatency, mostLatency, 3)}
}

func (l latencies) add(d time.Duration) {
	us := min(max(int64(d/time.Microsecond), leastLatency), mostLatency)
	_ = l.hist.RecordValue(us) // it is within the bounds
}

func (l latencies) merge(from latencies) { l.hist.Merge(from.hist) }

// quantiles are in milliseconds.
type quantiles struct {
	P50  float64 `json:"p50"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p99_9"`
	Max  float64 `json:"max"`
	Mean float64 `json:"mean"`
}

// quantiles is nil when there was nothing.
func (l latencies) quantiles() *quantiles {
	if l.hist.TotalCount() == 0 {
		return nil
	}
	at := func(q float64) float64 { return float64(l.hist.ValueAtQuantile(q)) / 1000 }
	return &quantiles{P50: at(50), P99: at(99), P999: at(99.9), Max: float64(l.hist.Max()) / 1000, Mean: l.hist.Mean() / 1000}
}

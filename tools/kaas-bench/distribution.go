package main

import (
	"math"
	"slices"
	"time"
)

// distribution is told of few figures, which are all kept: quantiles are figures that
// were really taken.
type distribution struct {
	Count int     `json:"count"`
	P50   float64 `json:"p50"`
	P90   float64 `json:"p90"`
	P99   float64 `json:"p99"`
	Worst float64 `json:"worst"`
}

// distributionOf is nil when there was nothing. It is in milliseconds.
func distributionOf(times []time.Duration) *distribution {
	if len(times) == 0 {
		return nil
	}
	times = slices.Sorted(slices.Values(times))
	at := func(q float64) float64 { // the least figure that so many do not exceed
		return millis(times[max(int(math.Ceil(q*float64(len(times)))), 1)-1])
	}
	return &distribution{Count: len(times), P50: at(0.5), P90: at(0.9), P99: at(0.99), Worst: at(1)}
}

package main

import "slices"

// measurement is one cell on one server in one round.
type measurement struct {
	Server string  `json:"server"`
	Round  int     `json:"round"`
	Cell   cell    `json:"cell"`
	Result *result `json:"result"`
}

// life is what is told of one process of a server.
type life struct {
	Server      string  `json:"server"`
	Mode        mode    `json:"mode"`
	FirstAnswer float64 `json:"first_answer_ms"`
	Idle        int64   `json:"idle_rss_bytes"`
	Peak        int64   `json:"peak_rss_bytes"`
}

// findings are all measurements of a comparison.
type findings struct {
	all   []measurement
	lives []life
}

func (f *findings) add(server string, round int, c cell, r *result) {
	f.all = append(f.all, measurement{Server: server, Round: round, Cell: c, Result: r})
}

// figure picks a number out of a result; false means that it has none.
type figure func(*result) (float64, bool)

// of is the median over the rounds.
func (f *findings) of(server string, c cell, pick figure) (float64, bool) {
	var values []float64
	for _, m := range f.all {
		if m.Server != server || m.Cell != c {
			continue
		}
		if v, ok := pick(m.Result); ok {
			values = append(values, v)
		}
	}
	return median(values)
}

// ofLives is the median over all processes of a server.
func (f *findings) ofLives(server string, pick func(life) float64) (float64, bool) {
	var values []float64
	for _, l := range f.lives {
		if l.Server == server {
			values = append(values, pick(l))
		}
	}
	return median(values)
}

func median(values []float64) (float64, bool) {
	n := len(values)
	if n == 0 {
		return 0, false
	}
	values = slices.Sorted(slices.Values(values))
	if n%2 == 1 {
		return values[n/2], true
	}
	return (values[n/2-1] + values[n/2]) / 2, true
}

func perSecond(r *result) (float64, bool) { return r.RecordsPerSecond, true }

func throughput(r *result) (float64, bool) { return r.MBPerSecond, true }

func quantile(of func(*result) *quantiles, pick func(*quantiles) float64) figure {
	return func(r *result) (float64, bool) {
		q := of(r)
		if q == nil {
			return 0, false
		}
		return pick(q), true
	}
}

var (
	recordLatency  = func(r *result) *quantiles { return r.Latency }
	ackLatency     = func(r *result) *quantiles { return r.AckLatency }
	requestLatency = func(r *result) *quantiles { return r.RequestLatency }

	p50 = func(q *quantiles) float64 { return q.P50 }
	p99 = func(q *quantiles) float64 { return q.P99 }
	p3  = func(q *quantiles) float64 { return q.P999 }
)

func cpuPerMillion(r *result) (float64, bool) {
	if r.Server == nil {
		return 0, false
	}
	return r.Server.CPUPerMillion, true
}

func fsyncsPerSecond(r *result) (float64, bool) {
	if r.Server == nil || r.Server.Fsyncs == nil {
		return 0, false
	}
	return float64(*r.Server.Fsyncs) / r.Seconds, true
}

func (r *result) brief() string {
	q := r.Latency
	if q == nil {
		q = r.RequestLatency
	}
	if q == nil {
		return "no latency"
	}
	return "p50 " + short(q.P50) + " ms, p99 " + short(q.P99) + " ms"
}

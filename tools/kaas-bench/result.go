package main

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
)

// result are the figures of one load.
type result struct {
	Load             string       `json:"load"`
	Seconds          float64      `json:"seconds"`
	Records          int64        `json:"records"`
	Bytes            int64        `json:"bytes"`
	RecordsPerSecond float64      `json:"records_per_second"`
	MBPerSecond      float64      `json:"mb_per_second"`
	Latency          *quantiles   `json:"latency_ms,omitempty"`         // of records
	AckLatency       *quantiles   `json:"ack_latency_ms,omitempty"`     // of records of e2e, to their acknowledgement
	RequestLatency   *quantiles   `json:"request_latency_ms,omitempty"` // of produce or fetch requests
	Server           *serverCosts `json:"server,omitempty"`
}

// serverCosts is what the load cost the server within the measured time.
type serverCosts struct {
	PID           int     `json:"pid"`
	CPUSeconds    float64 `json:"cpu_seconds"`
	CPUPerMillion float64 `json:"cpu_seconds_per_million_records"`
	PeakRSS       int64   `json:"peak_rss_bytes"`
	ReadBytes     int64   `json:"disk_read_bytes"`
	WriteBytes    int64   `json:"disk_write_bytes"`
	Fsyncs        *int64  `json:"fsyncs"` // fsync and fdatasync; null where they cannot be counted
}

func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

func (r *result) table(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	row := func(name, format string, a ...any) { fmt.Fprintf(w, "%s\t"+format+"\n", append([]any{name}, a...)...) }
	row("load", "%s", r.Load)
	row("measured", "%.2f s", r.Seconds)
	row("records", "%s", count(float64(r.Records)))
	row("throughput", "%s records/s, %s MB/s", count(r.RecordsPerSecond), short(r.MBPerSecond))
	for _, q := range []struct {
		name string
		q    *quantiles
	}{{"record latency", r.Latency}, {"acknowledgement", r.AckLatency}, {"request latency", r.RequestLatency}} {
		if q.q != nil {
			row(q.name, "p50 %s, p99 %s, p99.9 %s, max %s ms", short(q.q.P50), short(q.q.P99), short(q.q.P999), short(q.q.Max))
		}
	}
	if s := r.Server; s != nil {
		row("server CPU", "%.2f s, %s s a million records", s.CPUSeconds, short(s.CPUPerMillion))
		row("server memory", "%s MB at its peak", short(mega(float64(s.PeakRSS))))
		row("server disk", "%s MB written, %s MB read", short(mega(float64(s.WriteBytes))), short(mega(float64(s.ReadBytes))))
		row("server fsyncs", "%s", fsyncText(s.Fsyncs))
	}
	return w.Flush()
}

func fsyncText(n *int64) string {
	if n == nil {
		return "not counted: perf is missing or may not use tracepoints"
	}
	return count(float64(*n))
}

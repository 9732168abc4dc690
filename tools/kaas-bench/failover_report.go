package main

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

func failoverReport(about *machine, p *failoverPlan, results []*failoverResult) string {
	var b strings.Builder
	fmt.Fprintf(&b, "## Failover\n\n%s\n%s\n\n", about.clusterText("bench:failover"), p.text(results))
	b.WriteString("| event | milliseconds |")
	for _, r := range results {
		fmt.Fprintf(&b, " %s median | p90 | p99 | worst |", r.Server)
	}
	b.WriteString("\n| --- | --- |" + strings.Repeat(" ---: | ---: | ---: | ---: |", len(results)) + "\n")
	for _, kind := range faultKinds {
		for _, row := range kind.rows() {
			fmt.Fprintf(&b, "| %s | %s |", kind, row.title)
			for _, r := range results {
				b.WriteString(r.pooled(kind, row.of).cells())
			}
			b.WriteString("\n")
		}
	}
	b.WriteString("\n| figure |")
	for _, r := range results {
		fmt.Fprintf(&b, " %s |", r.Server)
	}
	b.WriteString("\n| --- |" + strings.Repeat(" ---: |", len(results)) + "\n")
	for _, row := range failoverRows(p) {
		fmt.Fprintf(&b, "| %s |", row.title)
		for _, r := range results {
			fmt.Fprintf(&b, " %s |", row.of(r))
		}
		b.WriteString("\n")
	}
	return b.String()
}

func (p *failoverPlan) text(results []*failoverResult) string {
	text := fmt.Sprintf(`%d brokers as processes on this machine, one cluster after the other; %s partitions in %d topics; %d idempotent
acks=all producers (franz-go), which share the machine with the brokers. They write a record of %s to each partition
every %v, or as soon as fewer than two wait for their acknowledgement, and one behind each signal at once. On all
servers they send again after %v and ask for metadata every %v at most. Done %d times: %s,
%s, %s; after each the broker is started again, and the next waits until leaders
are spread evenly and all replicas are in sync. The figures are of the partitions that the broker led, of all times.
*write* is from the signal to the first acknowledgement of a record that was sent after it; *silence* is the longest
time without an acknowledgement of a partition.`,
		p.Brokers, count(float64(p.Partitions)), p.Topics, p.Producers, &p.Size, p.Every, keepRetry, keepMetadata, p.Rounds,
		faultKinds[0], faultKinds[1], faultKinds[2])
	if slices.ContainsFunc(results, func(r *failoverResult) bool { return r.Server == "Kafka" }) {
		text += `
Kafka has replication factor 3, min.insync.replicas=2, combined brokers and controllers, and all else at its default:
it acknowledges from memory, where kaas acknowledges from the disk.`
	}
	return text
}

// distributionRow is a line of the table of distributions.
type distributionRow struct {
	title string
	of    func(*fault) []time.Duration
}

func (k faultKind) rows() []distributionRow {
	write := distributionRow{"write", func(f *fault) []time.Duration { return f.backs }}
	silence := distributionRow{"silence", func(f *fault) []time.Duration { return f.silences }}
	rest := []distributionRow{
		{"silence of the other partitions", func(f *fault) []time.Duration { return f.others }},
		{"silence of all as the broker comes back", func(f *fault) []time.Duration { return f.returns }},
	}
	if k == stopBroker { // it goes on to serve: the first write says nothing
		return append([]distributionRow{silence}, rest...)
	}
	return append([]distributionRow{write}, rest...)
}

// pooled is the distribution over all faults of a kind.
func (r *failoverResult) pooled(kind faultKind, of func(*fault) []time.Duration) *distribution {
	var times []time.Duration
	for i := range r.Faults {
		if r.Faults[i].Kind == kind {
			times = append(times, of(&r.Faults[i])...)
		}
	}
	return distributionOf(times)
}

func (d *distribution) cells() string {
	if d == nil {
		return " – | – | – | – |"
	}
	return fmt.Sprintf(" %s | %s | %s | %s |", short(d.P50), short(d.P90), short(d.P99), short(d.Worst))
}

// figureRow is a line of a table with one figure of each cluster.
type figureRow struct {
	title string
	of    func(*failoverResult) string
}

func failoverRows(p *failoverPlan) []figureRow {
	rows := []figureRow{
		{"start of the cluster until every broker names all, empty directories, ms", func(r *failoverResult) string { return short(r.Start) }},
		{fmt.Sprintf("topics made until all %s partitions are led, ms", count(float64(p.Partitions))), func(r *failoverResult) string { return short(r.Create) }},
		{"records acknowledged a second, in peace", func(r *failoverResult) string { return count(r.Calm.RecordsPerSecond) }},
		{"between two records of a partition on average, in peace, ms", func(r *failoverResult) string {
			return short(1000 * float64(p.Partitions) / r.Calm.RecordsPerSecond)
		}},
		{"time to an acknowledgement in peace, median / p99 ms", func(r *failoverResult) string {
			return short(r.Calm.Ack.P50) + " / " + short(r.Calm.Ack.P99)
		}},
		{"longest silence of a partition in peace, ms", func(r *failoverResult) string { return short(r.Calm.Silence.Worst) }},
	}
	for _, kind := range faultKinds {
		rows = append(rows,
			kind.figure("until all partitions are led by others, median ms", func(f *fault) float64 { return f.LedAgain }),
			kind.figure("until the broker has its share again, from its start, median ms", func(f *fault) float64 { return f.Settled }))
	}
	return append(rows,
		figureRow{fmt.Sprintf("partitions without a write after %v", p.Most), func(r *failoverResult) string {
			missing := 0
			for _, f := range r.Faults {
				missing += f.Missing
			}
			return count(float64(missing))
		}},
		figureRow{"records acknowledged, failed, of unknown end", func(r *failoverResult) string {
			return count(float64(r.Records.Acked)) + ", " + count(float64(r.Records.Failed)) + ", " + count(float64(r.Records.Unknown))
		}})
}

// figure is a median over the faults of a kind.
func (k faultKind) figure(title string, of func(*fault) float64) figureRow {
	return figureRow{string(k) + ": " + title, func(r *failoverResult) string {
		var values []float64
		for i := range r.Faults {
			if r.Faults[i].Kind == k {
				values = append(values, of(&r.Faults[i]))
			}
		}
		m, ok := median(values)
		if !ok {
			return "–"
		}
		return short(m)
	}}
}

// clusterText says when and on what a run was made.
func (m *machine) clusterText(task string) string {
	text := fmt.Sprintf("Written by `task %s` on %s at commit %s. %s, %d cores, %.0f GB, %s, %s; %s", task,
		m.Date, m.Commit, m.CPU, m.Cores, m.MemoryGB, m.Kernel, m.Filesystem, m.Go)
	if m.Kafka != "" {
		text += fmt.Sprintf("; Apache Kafka %s, Java %s with the heap of its start script", m.Kafka, m.Java)
	}
	return text + fmt.Sprintf(".\nThe load average was %.2f before, and everything took %.0f minutes.\n", m.LoadBefore, m.Seconds/60)
}

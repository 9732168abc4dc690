package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"kaas.dev/kaas/internal/substrate"
)

// marks are the lines of a document between which a command has its part.
func marks(command string) (begin, end string) {
	return "<!-- kaas-bench " + command + ": begin -->", "<!-- kaas-bench " + command + ": end -->"
}

// replacePart puts text between a command's marks of a document, or at its end with
// the marks if it has none.
func replacePart(file, command, text string) error {
	d, err := substrate.OpenDir(filepath.Dir(file))
	if err != nil {
		return err
	}
	old, err := read(d, filepath.Base(file))
	if err != nil {
		return err
	}
	return replace(file, []byte(withPart(string(old), command, text)))
}

func withPart(doc, command, text string) string {
	beginMark, endMark := marks(command)
	part := beginMark + "\n\n" + strings.TrimSpace(text) + "\n\n" + endMark
	before, rest, found := strings.Cut(doc, beginMark)
	_, after, closed := strings.Cut(rest, endMark)
	if !found || !closed {
		return strings.TrimRight(doc, "\n") + "\n\n" + part + "\n"
	}
	return before + part + after
}

// column is a pair of figures, one of each server, and their ratio.
type column struct {
	title string
	of    figure
	write func(float64) string
}

func report(about *machine, c *comparison) string {
	var b strings.Builder
	fmt.Fprintf(&b, "## Beside Apache Kafka\n\n%s\n", about.text(c))
	lives(&b, &c.found)
	latency := quantile(recordLatency, p99)
	for _, m := range c.Modes {
		cells := c.cells(m)
		fmt.Fprintf(&b, "### Produce, %s\n\n%s\n\n", m, modeText[m])
		c.found.table(&b, only(cells, produceKind), "producers", []column{
			{"MB/s", throughput, short}, {"p99 ms", latency, short},
			{"CPU s a million", cpuPerMillion, short}, {"fsyncs/s", fsyncsPerSecond, short},
		})
	}
	fmt.Fprint(&b, "### At a fixed rate\n\nFrom when a record was due, without linger: to its acknowledgement, and end to end until a consumer has it.\n\n")
	for _, m := range c.Modes {
		cells := only(c.cells(m), rateKind)
		fmt.Fprintf(&b, "%s, %s records/s:\n\n", upper(string(m)), count(cells[0].Rate))
		c.found.table(&b, cells, "producers", []column{
			{"ack p50 ms", quantile(ackLatency, p50), short}, {"ack p99 ms", quantile(ackLatency, p99), short},
			{"e2e p50 ms", quantile(recordLatency, p50), short}, {"e2e p99 ms", quantile(recordLatency, p99), short},
			{"e2e p99.9 ms", quantile(recordLatency, p3), short},
		})
	}
	if slices.Contains(c.Modes, pageCache) {
		fmt.Fprint(&b, "### Consume from the start\n\nA topic of 256 MiB, read again and again, from the page cache.\n\n")
		c.found.table(&b, only(c.cells(pageCache), consumeKind), "consumers", []column{
			{"MB/s", throughput, short}, {"fetch p99 ms", quantile(requestLatency, p99), short}, {"CPU s a million", cpuPerMillion, short},
		})
	}
	return b.String()
}

// reportTransactions is the part of a comparison of transactions.
func reportTransactions(about *machine, c *comparison) string {
	var b strings.Builder
	fmt.Fprintf(&b, "## Transactions beside Apache Kafka\n\n%s\n", about.text(c))
	fmt.Fprintf(&b, "A transaction is %d records by turns over the partitions, and its commit; a producer begins the next when the one before is\n"+
		"answered. Latency is from the begin to the answer of EndTxn. Kafka's topic of transactions is synced like the others where\n"+
		"the mode is durable; kaas syncs its own in both.\n\n", txnRecords)
	for _, m := range c.Modes {
		fmt.Fprintf(&b, "### Transactions, %s\n\n%s\n\n", m, modeText[m])
		c.found.table(&b, c.cells(m), "producers", []column{
			{"transactions/s", perSecond, short},
			{"p50 ms", quantile(recordLatency, p50), short}, {"p99 ms", quantile(recordLatency, p99), short},
			{"EndTxn p99 ms", quantile(requestLatency, p99), short}, {"fsyncs/s", fsyncsPerSecond, short},
		})
	}
	return b.String()
}

var modeText = map[mode]string{
	durable:   "An acknowledged record is on the disk: `flush.messages=1` on Kafka's topics, the default of kaas.",
	pageCache: "An acknowledged record is in the page cache: Kafka's default, `log.flush.interval.messages=9223372036854775807` on kaas.",
}

func only(cells []cell, kind cellKind) []cell {
	return slices.DeleteFunc(slices.Clone(cells), func(c cell) bool { return c.Kind != kind })
}

func upper(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

// table writes a row for each cell. Each figure has Kafka's, ours, and ours
// divided by Kafka's.
func (f *findings) table(b *strings.Builder, cells []cell, clients string, columns []column) {
	fmt.Fprintf(b, "| size | partitions | %s |", clients)
	for _, c := range columns {
		fmt.Fprintf(b, " %s: Kafka | kaas | ratio |", c.title)
	}
	b.WriteString("\n| ---: | ---: | ---: |" + strings.Repeat(" ---: | ---: | ---: |", len(columns)) + "\n")
	for _, cl := range cells {
		fmt.Fprintf(b, "| %s | %d | %d |", &cl.Size, cl.Partitions, cl.Clients)
		for _, c := range columns {
			theirs, okT := f.of("Kafka", cl, c.of)
			ours, okO := f.of("kaas", cl, c.of)
			b.WriteString(trio(theirs, okT, ours, okO, c.write))
		}
		b.WriteString("\n")
	}
	b.WriteString("\n")
}

func trio(theirs float64, okT bool, ours float64, okO bool, write func(float64) string) string {
	text := func(v float64, ok bool) string {
		if !ok {
			return "–"
		}
		return write(v)
	}
	ratio := "–"
	if okT && okO && theirs > 0 {
		ratio = "**" + short(ours/theirs) + "**"
	}
	return fmt.Sprintf(" %s | %s | %s |", text(theirs, okT), text(ours, okO), ratio)
}

func lives(b *strings.Builder, f *findings) {
	fmt.Fprint(b, "### Start and memory\n\n| figure | Kafka | kaas | ratio |\n| --- | ---: | ---: | ---: |\n")
	for _, row := range []struct {
		title string
		of    func(life) float64
	}{
		{"start to the first Metadata answer, empty directory, ms", func(l life) float64 { return l.FirstAnswer }},
		{"memory (RSS) idle, MB", func(l life) float64 { return mega(float64(l.Idle)) }},
		{"memory (RSS) at its peak under all loads, MB", func(l life) float64 { return mega(float64(l.Peak)) }},
	} {
		theirs, okT := f.ofLives("Kafka", row.of)
		ours, okO := f.ofLives("kaas", row.of)
		fmt.Fprintf(b, "| %s |%s\n", row.title, trio(theirs, okT, ours, okO, short))
	}
	b.WriteString("\n")
}

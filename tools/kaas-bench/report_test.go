package main

import (
	"strings"
	"testing"
)

func TestWithPart(t *testing.T) {
	beginMark, endMark := marks("compare")
	once := withPart("# Benchmarks\n", "compare", "first")
	if want := "# Benchmarks\n\n" + beginMark + "\n\nfirst\n\n" + endMark + "\n"; once != want {
		t.Fatalf("the part is added as %q", once)
	}
	twice := withPart(once+"\n## More\n", "compare", "second\n")
	if want := "# Benchmarks\n\n" + beginMark + "\n\nsecond\n\n" + endMark + "\n\n## More\n"; twice != want {
		t.Fatalf("the part is replaced as %q", twice)
	}
	if other := withPart(twice, "many", "third"); !strings.HasPrefix(other, strings.TrimSpace(twice)) || !strings.Contains(other, "kaas-bench many: begin") {
		t.Fatalf("the part of another command is put as %q", other)
	}
}

func TestReportHasEveryFigure(t *testing.T) {
	c := &comparison{plan: plan{Modes: []mode{durable, pageCache}, Sizes: []byteSize{100}, Partitions: []int32{6}, Producers: []int{1}, Rounds: 3}}
	n := int64(10)
	for round := range 3 {
		for _, m := range c.Modes {
			for _, cl := range c.cells(m) {
				q := &quantiles{P50: 1, P99: 2, P999: 3}
				r := &result{Seconds: 1, MBPerSecond: float64(10 * (round + 1)), Latency: q, AckLatency: q, RequestLatency: q,
					Server: &serverCosts{CPUPerMillion: 4, Fsyncs: &n}}
				c.found.add("Kafka", round, cl, r)
				faster := *r
				faster.MBPerSecond *= 2
				c.found.add("kaas", round, cl, &faster)
			}
		}
		c.found.lives = append(c.found.lives, life{Server: "Kafka", FirstAnswer: 2000, Idle: 300e6, Peak: 500e6})
	}
	text := report(&machine{}, c)
	for _, want := range []string{
		"| 100 B | 6 | 1 | 20.0 | 40.0 | **2.00** | 2.00 | 2.00 | **1.00** | 4.00 | 4.00 | **1.00** | 10.0 | 10.0 | **1.00** |",
		"| memory (RSS) idle, MB | 300 | – | – |",
		"### Consume from the start",
		"Durable, 500 records/s:",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the report lacks %q:\n%s", want, text)
		}
	}
}

func TestTurn(t *testing.T) {
	list := []int{1, 2}
	if a, b := turn(list, 0), turn(list, 1); a[0] != 1 || b[0] != 2 || b[1] != 1 || list[0] != 1 {
		t.Errorf("turns are %v and %v of %v", a, b, list)
	}
}

package server

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/projections"
)

const compatPage = "../docs/compatibility.md"

var update = flag.Bool("update", false, "write the tables into docs/compatibility.md instead of comparing them")

var tableRE = regexp.MustCompile(`(?s)(<!-- table: ([a-z-]+) -->\n)(.*?)(<!-- end -->)`)

// The tables of the page are what the code serves.
func TestCompatibilityPage(t *testing.T) {
	tables := map[string]func() []string{
		"apis": apiTable, "left-out": leftOutTable, "inner": innerTable, "features": featureTable,
		"topic-configs": topicConfigTable, "broker-configs": liveTable, "group-configs": groupConfigTable, "tls-configs": tlsTable, "kips": kipTable,
	}
	b, err := os.ReadFile(compatPage)
	if err != nil {
		t.Fatal(err)
	}
	page := tableRE.ReplaceAllStringFunc(string(b), func(block string) string {
		m := tableRE.FindStringSubmatch(block)
		make := tables[m[2]]
		if make == nil {
			t.Fatalf("nothing makes the table %s", m[2])
		}
		delete(tables, m[2])
		want := strings.Join(make(), "\n") + "\n"
		if !*update && m[3] != want {
			t.Errorf("the table %s has drifted: run go test ./server -run CompatibilityPage -update, and read what it changes", m[2])
		}
		return m[1] + want + m[4]
	})
	for name := range tables {
		t.Errorf("the page has no table %s", name)
	}
	if *update {
		if err := os.WriteFile(compatPage, []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// row is one line of a table; cells cannot end it.
func row(cells ...any) string {
	out := make([]string, len(cells))
	for i, c := range cells {
		out[i] = strings.ReplaceAll(fmt.Sprint(c), "|", `\|`)
	}
	return strings.TrimRight("| "+strings.Join(out, " | "), " ") + " |"
}

func span[N int16 | int](from, to N) string {
	if from == to {
		return fmt.Sprint(from)
	}
	return fmt.Sprintf("%d–%d", from, to)
}

func apiTable() []string {
	out := []string{"| key | API | kaas | Kafka 4.4 | notes |", "| --: | --- | --- | --- | --- |"}
	for _, k := range kafkaAPIs {
		if a := apiFor(k.key); a != nil {
			out = append(out, row(k.key, k.name, span(a.min, a.max), span(k.min, k.max), k.note))
		}
	}
	return out
}

func leftOutTable() []string {
	out := []string{"| key | API | Kafka 4.4 | why |", "| --: | --- | --- | --- |"}
	for _, k := range kafkaAPIs {
		if apiFor(k.key) == nil {
			out = append(out, row(k.key, k.name, span(k.min, k.max), k.note))
		}
	}
	return out
}

func innerTable() []string {
	out := []string{"| key | API | kaas | Kafka 4.4 | notes |", "| --: | --- | --- | --- | --- |"}
	for _, k := range kafkaInner {
		a := apiFor(k.key)
		out = append(out, row(k.key, k.name, span(a.min, a.max), span(k.min, k.max), k.note))
	}
	return out
}

func featureTable() []string {
	out := []string{"| feature | supported | level |", "| --- | --- | --: |"}
	for _, f := range features {
		out = append(out, row(f.name, span(f.low, f.high), f.level))
	}
	return out
}

func topicConfigTable() []string {
	out := []string{"| name | default | acts | meaning |", "| --- | --- | --- | --- |"}
	for _, c := range projections.TopicConfigs() {
		out = append(out, row("`"+c.Name+"`", orNone(c.Default), yes(acted[c.Name]), c.Doc))
	}
	return out
}

func groupConfigTable() []string {
	out := []string{"| name | default | acts | meaning |", "| --- | --- | --- | --- |"}
	for _, c := range projections.GroupSettings() {
		out = append(out, row("`"+c.Name+"`", orNone(c.Default), yes(c.Honoured), c.Doc))
	}
	return out
}

// liveTable is what of a broker can be changed while it runs.
func liveTable() []string {
	out := []string{"| name | default | meaning |", "| --- | --- | --- |"}
	keys := alterableKeys()
	slices.SortFunc(keys, func(a, b configKey) int { return cmp.Compare(a.name, b.name) })
	for i := range keys {
		if k := &keys[i]; k.live() {
			out = append(out, row("`"+k.name+"`", orNone(k.def), k.doc))
		}
	}
	return out
}

// tlsTable is what a listener may be told about TLS.
func tlsTable() []string {
	out := []string{"| name | default | meaning |", "| --- | --- | --- |"}
	for _, k := range tlsKeys() {
		out = append(out, row("`"+k.name+"`", orNone(k.def), k.doc))
	}
	return out
}

func kipTable() []string {
	out := []string{"| KIP | about | state | notes |", "| --: | --- | --- | --- |"}
	for _, k := range kips {
		out = append(out, row(k.number, k.about, k.state, k.note))
	}
	return out
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return "`" + s + "`"
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// What is served is served in exactly Kafka's versions, and what is left out has a reason.
func TestVersionsAreKafkas(t *testing.T) {
	known := map[int16]bool{}
	for i, k := range append(slices.Clone(kafkaAPIs), kafkaInner...) {
		known[k.key] = true
		a := apiFor(k.key)
		switch {
		case a == nil && k.note == "":
			t.Errorf("%s is left out without a reason", k.name)
		case a != nil && (a.min != k.min || a.max != k.max):
			t.Errorf("%s: %s are served, and Kafka has %s", k.name, span(a.min, a.max), span(k.min, k.max))
		case a != nil && a.inner != (i >= len(kafkaAPIs)):
			t.Errorf("%s: between brokers %v", k.name, a.inner)
		}
	}
	for _, a := range apis {
		if !known[int16(a.key)] {
			t.Errorf("%s is not in the table of what Kafka has", kmsg.NameForKey(int16(a.key)))
		}
	}
}

// What is said to be done is served, and what is said not to be is not.
func TestProposalsAreAsTold(t *testing.T) {
	for i, k := range kips {
		if i > 0 && k.number <= kips[i-1].number {
			t.Errorf("KIP-%d is out of order", k.number)
		}
		if k.state != done && k.note == "" {
			t.Errorf("KIP-%d is %s without a reason", k.number, k.state)
		}
		for _, a := range k.asks {
			if served := apiFor(a.key).serves(a.version); served == (k.state == not) {
				t.Errorf("KIP-%d is %s, and version %d of key %d is served: %v", k.number, k.state, a.version, a.key, served)
			}
		}
	}
}

package main

import (
	"flag"
	"os"
	"regexp"
	"strings"
	"testing"
)

const page = "../../docs/compatibility.md"

var update = flag.Bool("update", false, "write the table into docs/compatibility.md instead of comparing it")

var tableRE = regexp.MustCompile(`(?s)(<!-- differences -->\n)(.*?)(<!-- end -->)`)

// The page tells the intended differences, each once and in their order.
func TestPageTellsDifferences(t *testing.T) {
	b, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	m := tableRE.FindStringSubmatch(string(b))
	if m == nil {
		t.Fatal("the page has no table of differences")
	}
	lines := []string{"| kaas | because |", "| --- | --- |"}
	told := map[string]string{}
	for _, in := range intended {
		if why, ok := told[in.what]; ok {
			if why != in.why {
				t.Errorf("%q has two reasons", in.what)
			}
			continue
		}
		told[in.what] = in.why
		lines = append(lines, "| "+strings.ReplaceAll(in.what, "|", `\|`)+" | "+strings.ReplaceAll(in.why, "|", `\|`)+" |")
	}
	want := strings.Join(lines, "\n") + "\n"
	switch {
	case m[2] == want:
	case *update:
		if err := os.WriteFile(page, []byte(tableRE.ReplaceAllLiteralString(string(b), m[1]+want+m[3])), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Error("the table of differences has drifted: run go test ./tools/kafka-diff -run PageTells -update, and read what it changes")
	}
}

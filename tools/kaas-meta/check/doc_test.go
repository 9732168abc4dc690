package check

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the kinds into docs/verify.md instead of comparing them")

// TestPage: docs/verify.md has the kinds as the program tells them.
func TestPage(t *testing.T) {
	const page, begin, end = "../../../docs/verify.md", "<!-- kinds: begin -->\n", "<!-- kinds: end -->"
	b, err := os.ReadFile(page)
	must(t, err)
	head, rest, ok := strings.Cut(string(b), begin)
	_, tail, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no place for the kinds", page)
	}
	notes := map[string]bool{}
	for _, d := range damages {
		notes[d.kind] = d.note
	}
	var table strings.Builder
	table.WriteString("| kind | | what it is | what to do |\n| --- | --- | --- | --- |\n")
	for _, name := range slices.Sorted(maps.Keys(Kinds)) {
		word := "fault"
		if notes[name] {
			word = "note"
		}
		fmt.Fprintf(&table, "| `%s` | %s | %s | %s |\n", name, word, Kinds[name].What, Kinds[name].Advice)
	}
	want := head + begin + table.String() + end + tail
	if want == string(b) {
		return
	}
	if !*update {
		t.Fatalf("%s has drifted: run go test ./tools/kaas-meta/check -run TestPage -update, and read what it changes", page)
	}
	must(t, os.WriteFile(page, []byte(want), 0o644))
}

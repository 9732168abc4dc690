package clients

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// shows compares the last standard output with a file, line by line and word by word: how
// wide a column is does not matter. In the file $NAME is the environment's, and {{…}} a
// pattern. With -any the lines may come in any order.
func shows(ts *testscript.TestScript, neg bool, args []string) {
	anyOrder := len(args) > 0 && args[0] == "-any"
	if anyOrder {
		args = args[1:]
	}
	if neg || len(args) != 1 {
		ts.Fatalf("usage: shows [-any] FILE")
	}
	got := ts.ReadFile("stdout")
	want := os.Expand(ts.ReadFile(args[0]), ts.Getenv)
	if why := compareLines(words(want), words(got), anyOrder); why != "" {
		ts.Fatalf("%s\nwanted:\n%s\nprinted:\n%s", why, want, got)
	}
}

// expand puts the environment's values into a file, where $NAME is.
func expand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: expand FILE")
	}
	text := os.Expand(ts.ReadFile(args[0]), ts.Getenv)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(text), 0o644))
}

// words are the lines that are not empty, with one blank between words.
func words(s string) (lines []string) {
	for line := range strings.Lines(s) {
		if fields := strings.Fields(line); len(fields) > 0 {
			lines = append(lines, strings.Join(fields, " "))
		}
	}
	return lines
}

// compareLines says what is different, or nothing.
func compareLines(want, got []string, anyOrder bool) string {
	for i, w := range want {
		re, err := regexp.Compile("^" + linePattern(w) + "$")
		if err != nil {
			return err.Error()
		}
		at := 0
		if anyOrder {
			at = slices.IndexFunc(got, re.MatchString)
		}
		if at < 0 || at >= len(got) || !re.MatchString(got[at]) {
			return fmt.Sprintf("line %d is not there: %s", i+1, w)
		}
		got = slices.Delete(got, at, at+1)
	}
	if len(got) > 0 {
		return "there is another line: " + got[0]
	}
	return ""
}

func linePattern(line string) string {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(line, "{{")
		b.WriteString(regexp.QuoteMeta(before))
		pattern, after, closed := strings.Cut(rest, "}}")
		if !found || !closed {
			return b.String()
		}
		b.WriteString("(?:" + pattern + ")")
		line = after
	}
}

func TestCompareLines(t *testing.T) {
	for _, c := range []struct {
		want, got string
		anyOrder  bool
		same      bool
	}{
		{want: "a b\n", got: "\n a \t b\n", same: true},
		{want: "a {{\\d+}}\n", got: "a 12\n", same: true},
		{want: "a {{\\d}}\n", got: "a 12\n"},
		{want: "a.\n", got: "ab\n"},
		{want: "a\nb\n", got: "b\na\n"},
		{want: "a\nb\n", got: "b\na\n", anyOrder: true, same: true},
		{want: "a\na\n", got: "a\n", anyOrder: true},
		{want: "a\n", got: "a\na\n"},
		{want: "a\n", got: ""},
		{want: "", got: "a\n", anyOrder: true},
		{want: "{{(}}\n", got: "(\n"},
	} {
		if why := compareLines(words(c.want), words(c.got), c.anyOrder); (why == "") != c.same {
			t.Errorf("%q and %q: %q", c.want, c.got, why)
		}
	}
}

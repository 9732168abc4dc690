package e2e

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
)

// words are what the text is made of: one to four bytes a letter, and what a
// terminal or a shell would trip over.
var words = []string{
	"partition", "offset", "naïve", "Straße", "журнал", "δίσκος", "日誌", "書き込み", "🦆", "👩‍🚀", "a\tb", "'\"\\", "$PATH", "%s%n", "-",
	"عربى", "e\u0301", "\u00a0", "the quick brown fox", "0000000000",
}

// text is the file that every test sends: lines of many lengths, each starting
// with its own number. It is the same in every run.
var text = sync.OnceValue(func() []byte {
	size := 50
	if n, err := strconv.Atoi(os.Getenv("KAAS_E2E_MB")); err == nil && n > 0 {
		size = n
	}
	size *= 1 << 20
	r := rand.New(rand.NewPCG(1, 2))
	b := make([]byte, 0, size+4096)
	for i := 0; len(b) < size; i++ {
		b = strconv.AppendInt(b, int64(i), 10)
		n := r.IntN(16)
		if i%1000 == 999 {
			n = r.IntN(400) // now and then a long one
		}
		for range n {
			b = append(b, ' ')
			b = append(b, words[r.IntN(len(words))]...)
		}
		b = append(b, '\n')
	}
	return b
})

func textFile(t *testing.T) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "lines.txt")
	if err := os.WriteFile(name, text(), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func split(b []byte) [][]byte {
	return bytes.Split(bytes.TrimSuffix(b, []byte("\n")), []byte("\n"))
}

// wantSame fails with the first line that differs.
func wantSame(t *testing.T, got, want []byte) {
	t.Helper()
	if bytes.Equal(got, want) {
		return
	}
	wantLines(t, split(got), split(want))
	t.Fatalf("the lines are the same, the bytes are not: got %d, want %d", len(got), len(want))
}

// wantFirstAppearances fails unless got is want, but for lines that stand again.
func wantFirstAppearances(t *testing.T, got [][]byte, want [][]byte) {
	t.Helper()
	seen := make(map[string]bool, len(want))
	first := make([][]byte, 0, len(want))
	for _, l := range got {
		if !seen[string(l)] {
			seen[string(l)] = true
			first = append(first, l)
		}
	}
	t.Logf("%d lines, %d of them again", len(got), len(got)-len(first))
	wantLines(t, first, want)
}

func wantLines(t *testing.T, got, want [][]byte) {
	t.Helper()
	for i := range min(len(got), len(want)) {
		if !bytes.Equal(got[i], want[i]) {
			t.Fatalf("line %d:\ngot  %.120q\nwant %.120q", i, got[i], want[i])
		}
	}
	if len(got) != len(want) {
		t.Fatalf("got %d lines, want %d; all that are there are right", len(got), len(want))
	}
}

func TestTextIsWhatTheTestsNeed(t *testing.T) {
	if testing.Short() {
		t.Skip("makes 50 MB of text")
	}
	b := text()
	if os.Getenv("KAAS_E2E_MB") == "" && len(b) < 50_000_000 {
		t.Errorf("only %d bytes", len(b))
	}
	if bytes.ContainsRune(b, '\r') {
		t.Error("a carriage return would end a line for some readers")
	}
	for i, l := range split(b)[:1000] {
		if n, _, _ := bytes.Cut(l, []byte(" ")); string(n) != strconv.Itoa(i) {
			t.Fatalf("line %d starts with %q", i, n)
		}
	}
}

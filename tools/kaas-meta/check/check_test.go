package check

import (
	"testing"
	"time"

	"kaas.dev/kaas/internal/substrate"
)

func run(t testing.TB, fs substrate.FS, deep bool) *Report {
	t.Helper()
	r, err := Run(t.Context(), &substrate.Volume{FS: fs}, Options{Deep: deep, Settle: time.Millisecond})
	must(t, err)
	return r
}

// TestSample: nothing is wrong with what brokers leave, and nothing of it is changed.
func TestSample(t *testing.T) {
	dir := sample(t)
	before := tree(t, dir)
	for _, deep := range []bool{false, true} {
		r := run(t, volume(t, dir).FS, deep)
		for _, f := range r.Findings {
			t.Logf("%+v", f)
		}
		if r.Faults > 0 || r.Topics != 3 || r.Partitions != 5 || r.Streams != 1+3+2+5 || r.Segments < 20 || r.Sealed == 0 || r.Sealed >= r.Sessions {
			t.Errorf("deep %v: %+v", deep, r)
		}
	}
	if after := tree(t, dir); after != before {
		t.Errorf("the volume was changed; it was\n%s\nand is\n%s", before, after)
	}
}

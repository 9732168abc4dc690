package main

import (
	"testing"
	"time"
)

func TestParseBytes(t *testing.T) {
	for _, tc := range []struct {
		in   string
		want byteSize
		text string
	}{
		{"0", 0, "0 B"}, {"100", 100, "100 B"}, {"16k", 16 << 10, "16 KiB"}, {"1KiB", 1024, "1 KiB"},
		{"1 kb", 1000, "1000 B"}, {"1.5KiB", 1536, "1536 B"}, {"2MiB", 2 << 20, "2 MiB"}, {"1GB", 1e9, "976562 KiB"},
	} {
		got, err := parseBytes(tc.in)
		if tc.in == "1GB" {
			tc.text = got.String() // whatever it is, it must be read back
		}
		if err != nil || got != tc.want || got.String() != tc.text {
			t.Errorf("%q is %d (%s), %v; want %d (%s)", tc.in, got, &got, err, tc.want, tc.text)
		}
		if again, err := parseBytes(got.String()); err != nil || again != got {
			t.Errorf("%q written as %q is read as %d, %v", tc.in, &got, again, err)
		}
	}
	for _, in := range []string{"", "k", "-1", "1 furlong", "3GiB", "1.2.3"} {
		if got, err := parseBytes(in); err == nil {
			t.Errorf("%q is taken for %d", in, got)
		}
	}
}

func TestFigures(t *testing.T) {
	for _, tc := range []struct {
		v            float64
		count, short string
	}{
		{0, "0", "0"}, {0.0321, "0", "0.032"}, {0.5, "1", "0.50"}, {12.34, "12", "12.3"},
		{999.6, "1,000", "1,000"}, {1234567, "1,234,567", "1,234,567"},
	} {
		if c, s := count(tc.v), short(tc.v); c != tc.count || s != tc.short {
			t.Errorf("%v is %q and %q, want %q and %q", tc.v, c, s, tc.count, tc.short)
		}
	}
	if got := count(-1234.4); got != "-1,234" {
		t.Errorf("-1234.4 is %q", got)
	}
}

func TestQuantiles(t *testing.T) {
	l := newLatencies()
	if q := l.quantiles(); q != nil {
		t.Errorf("nothing has quantiles %+v", q)
	}
	for i := range 1000 {
		l.add(time.Duration(i+1) * time.Millisecond)
	}
	other := newLatencies()
	other.add(time.Hour) // beyond the most: kept as the most
	other.add(0)
	l.merge(other)
	q := l.quantiles()
	near := func(name string, got, want float64) {
		if got < want*0.998 || got > want*1.002 {
			t.Errorf("%s is %v ms, want %v", name, got, want)
		}
	}
	near("p50", q.P50, 500)
	near("p99", q.P99, 991)
	near("p99.9", q.P999, 1000)
	near("max", q.Max, 600_000)
}

func TestMedian(t *testing.T) {
	for _, tc := range []struct {
		in   []float64
		want float64
		ok   bool
	}{{nil, 0, false}, {[]float64{3}, 3, true}, {[]float64{9, 1, 5}, 5, true}, {[]float64{4, 1, 2, 9}, 3, true}} {
		if got, ok := median(tc.in); got != tc.want || ok != tc.ok {
			t.Errorf("median of %v is %v, %v", tc.in, got, ok)
		}
	}
}

func TestShare(t *testing.T) {
	for _, tc := range []struct {
		total int64
		n     int
	}{{10, 3}, {16, 16}, {1000, 7}} {
		sum := int64(0)
		for i := range tc.n {
			sum += share(tc.total, tc.n, i)
		}
		if sum != tc.total {
			t.Errorf("%d in %d shares is %d", tc.total, tc.n, sum)
		}
	}
	if share(0, 4, 1) != 0 {
		t.Error("without an end, a share has one")
	}
}

func TestSplit(t *testing.T) {
	parts := split(map[int32]int64{0: 5, 1: 0, 2: 7, 3: 1}, 2)
	if len(parts) != 2 || len(parts[0])+len(parts[1]) != 3 || parts[0][0] != 5 || parts[1][2] != 7 || parts[0][3] != 1 {
		t.Errorf("dealt out as %v", parts)
	}
	if parts := split(map[int32]int64{0: 0}, 3); len(parts) != 0 {
		t.Errorf("an empty topic is dealt out as %v", parts)
	}
}

func TestSumCounts(t *testing.T) {
	const out = "# started\n\n12,,syscalls:sys_enter_fdatasync,100,100.00,,\n3,,syscalls:sys_enter_fsync,100,100.00,,\n"
	if got := sumCounts(out); got == nil || *got != 15 {
		t.Errorf("counted %v, want 15", got)
	}
	for _, out := range []string{"", "no permission\n", "<not counted>,,syscalls:sys_enter_fsync,0,100.00,,\n"} {
		if got := sumCounts(out); got != nil {
			t.Errorf("%q is counted as %d", out, *got)
		}
	}
}

func TestPacerNeverSkips(t *testing.T) {
	start := time.Now().Add(-time.Second) // as after a stall
	p := newPacer(start, 100)
	for i := range 100 {
		due, err := p.due(t.Context())
		if want := start.Add(time.Duration(i) * 10 * time.Millisecond); err != nil || !due.Equal(want) {
			t.Fatalf("record %d is due %v, %v; want %v", i, due, err, want)
		}
	}
}

func TestStampedRecords(t *testing.T) {
	g := newGenerator("topic", 16, 1, true)
	due := time.Now()
	a, b := g.next(due), g.next(due.Add(time.Millisecond))
	if got, ok := stampOf(a.Value); !ok || !got.Equal(due) {
		t.Errorf("the stamp is %v, want %v", got, due)
	}
	if got := dueOf(b).Sub(dueOf(a)); got != time.Millisecond {
		t.Errorf("due %v apart", got)
	}
	if _, ok := stampOf(a.Value[:stampBytes-1]); ok {
		t.Error("a short value has a stamp")
	}
}

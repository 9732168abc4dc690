package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// byteSize is a flag of bytes: 100, 16k, 1KiB, 2MB. Suffixes of one letter are
// powers of 1024, as Kafka's own tools have no others.
type byteSize int

var byteUnits = map[string]float64{
	"": 1, "b": 1, "k": 1 << 10, "kib": 1 << 10, "kb": 1e3,
	"m": 1 << 20, "mib": 1 << 20, "mb": 1e6, "g": 1 << 30, "gib": 1 << 30, "gb": 1e9,
}

func parseBytes(s string) (byteSize, error) {
	s = strings.TrimSpace(s)
	at := strings.LastIndexAny(s, "0123456789.") + 1
	unit, ok := byteUnits[strings.ToLower(strings.TrimSpace(s[at:]))]
	if !ok {
		return 0, fmt.Errorf("%q: the unit is B, KB, KiB, MB, MiB, GB or GiB", s)
	}
	n, err := strconv.ParseFloat(s[:at], 64)
	if err != nil || math.IsNaN(n) || n < 0 || n*unit > math.MaxInt32 {
		return 0, fmt.Errorf("%q is no number of bytes below 2 GiB", s)
	}
	return byteSize(n * unit), nil
}

// Set implements pflag.Value.
func (b *byteSize) Set(s string) (err error) { *b, err = parseBytes(s); return err }

// Type implements pflag.Value.
func (b *byteSize) Type() string { return "bytes" }

// String writes whole KiB and MiB as such and all else in bytes.
func (b *byteSize) String() string {
	switch n := int(*b); {
	case n >= 1<<20 && n%(1<<20) == 0:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 1<<10 && n%(1<<10) == 0:
		return fmt.Sprintf("%d KiB", n>>10)
	default:
		return fmt.Sprintf("%d B", n)
	}
}

// count writes a whole number with thousands set off: 1,234,567.
func count(v float64) string {
	s := strconv.FormatInt(int64(math.Round(math.Abs(v))), 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	if v <= -0.5 {
		return "-" + s
	}
	return s
}

// short writes a positive figure with about three digits that count.
func short(v float64) string {
	switch {
	case v == 0:
		return "0"
	case v >= 100:
		return count(v)
	case v >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	case v >= 0.1:
		return strconv.FormatFloat(v, 'f', 2, 64)
	default:
		return strconv.FormatFloat(v, 'f', 3, 64)
	}
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// mega is bytes in units of 10^6.
func mega(bytes float64) float64 { return bytes / 1e6 }

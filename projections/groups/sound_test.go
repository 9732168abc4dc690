package groups

import (
	"bytes"
	"encoding/hex"
	"testing"

	"github.com/vmihailenco/msgpack/v5"
	"pgregory.net/rapid"

	"kaas.dev/kaas/metalog"
)

// A damaged length is an error, and allocates nothing.
func TestDamagedLengths(t *testing.T) {
	for what, raw := range map[string]string{
		"array":     "81a16fdd7fffffff",
		"bytes":     "81a16fc67fffffff",
		"text":      "81a167db7fffffff",
		"map":       "df7fffffff",
		"extension": "c97fffffff01",
		"depth":     "9191919191919191919191919191919191919191c0",
		"behind":    "80c0",
		"nothing":   "",
		"c1":        "c1",
		"number":    "cf01",
		"length":    "c5ff",
	} {
		b, err := hex.DecodeString(raw)
		if err != nil {
			t.Fatal(err)
		}
		allocated := testing.AllocsPerRun(1, func() {
			if _, err := DecodeEvent(metalog.Event{Type: "OffsetsCommitted", Data: b}); err == nil {
				t.Errorf("%s: decoded", what)
			}
			if _, err := Decode(b); err == nil {
				t.Errorf("%s: decoded as a base", what)
			}
		})
		if allocated > 40 {
			t.Errorf("%s: %v allocations", what, allocated)
		}
	}
}

// skip agrees with the library on where a value ends.
func TestSkipEndsWhereTheValueDoes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := []any{int8(-100), int16(-1000), int32(-1 << 30), int64(-1 << 60), uint8(200), uint16(60000), uint32(1 << 31), uint64(1 << 63),
			float32(1), 1.5, true, nil, "", "text", string(make([]byte, 40)), string(make([]byte, 300)), string(make([]byte, 70000)), []byte{1}, make([]byte, 300),
			make([]byte, 70000), []int{1, 2}, make([]int, 20), make([]int, 70000), map[string]any{"a": []any{1, map[string]any{}}}}
		many := map[string]int{}
		for i := range rapid.IntRange(0, 40).Draw(t, "map") {
			many[string(rune('a'+i))] = i
		}
		values = append(values, many)
		var b bytes.Buffer
		e := msgpack.NewEncoder(&b)
		e.UseCompactInts(rapid.Bool().Draw(t, "compact"))
		if err := e.Encode(rapid.SampledFrom(values).Draw(t, "value")); err != nil {
			t.Fatal(err)
		}
		tail := []byte("tail")
		if rest, ok := skip(append(b.Bytes(), tail...), 0); !ok || !bytes.Equal(rest, tail) {
			t.Fatalf("%v, %d bytes are left", ok, len(rest))
		}
	})
}

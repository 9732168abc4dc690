package ordered

import (
	"cmp"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func content[K cmp.Ordered, V any](m Map[K, V]) map[K]V { return maps.Collect(m.All) }

// sound reports whether the map is as it may be.
func sound(t rapid.TB, m Map[int, int]) {
	t.Helper()
	n, last := 0, -1<<62
	for i, c := range m.chunks {
		if len(c) == 0 || len(c) > most {
			t.Fatalf("chunk %d of %d has %d entries", i, len(m.chunks), len(c))
		}
		for _, e := range c {
			if e.Key <= last {
				t.Fatalf("key %d stands after %d", e.Key, last)
			}
			last = e.Key
		}
		n += len(c)
	}
	if n != m.Len() {
		t.Fatalf("%d entries, Len is %d", n, m.Len())
	}
}

func TestMapIsAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var m Map[int, int]
		model := map[int]int{}
		if rapid.Bool().Draw(t, "full") {
			var es []Entry[int, int]
			for k := range rapid.IntRange(0, 1500).Draw(t, "n") {
				es = append(es, Entry[int, int]{k, k})
				model[k] = k
			}
			m = Of(es)
		}
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			before, old := m, maps.Clone(model)
			changes := map[int]Change[int]{}
			low, n := rapid.IntRange(-10, 1600).Draw(t, "low"), rapid.IntRange(0, 600).Draw(t, "n")
			gone := rapid.Bool().Draw(t, "gone")
			step := rapid.IntRange(1, 3).Draw(t, "step")
			for k := low; k < low+n; k += step {
				changes[k] = Change[int]{Value: k * 2, Gone: gone}
				if gone {
					delete(model, k)
				} else {
					model[k] = k * 2
				}
			}
			m = m.With(changes)
			sound(t, m)
			if !maps.Equal(content(m), model) {
				t.Fatal("the map is not what it was made")
			}
			if !maps.Equal(content(before), old) {
				t.Fatal("the map before has changed")
			}
			for range 20 {
				k := rapid.IntRange(-20, 2300).Draw(t, "key")
				v, ok := m.Get(k)
				if want, there := model[k]; ok != there || v != want {
					t.Fatalf("%d is %d, %v; want %d, %v", k, v, ok, want, there)
				}
			}
		}
	})
}

func TestAllEndsWhenAsked(t *testing.T) {
	m := Of([]Entry[int, int]{{1, 1}, {2, 2}, {3, 3}})
	var got []int
	for k := range m.All {
		if got = append(got, k); k == 2 {
			break
		}
	}
	if !slices.Equal(got, []int{1, 2}) {
		t.Fatal(got)
	}
}

func TestEmptiedChunksGo(t *testing.T) {
	var m Map[int, int]
	for k := range 10_000 {
		m = m.With(map[int]Change[int]{k: {Value: k}})
	}
	for k := range 10_000 {
		if k%500 != 0 {
			m = m.With(map[int]Change[int]{k: {Gone: true}})
		}
	}
	sound(t, m)
	if m.Len() != 20 || len(m.chunks) > 4 {
		t.Fatalf("%d entries in %d chunks", m.Len(), len(m.chunks))
	}
}

func BenchmarkWithOneOf100000(b *testing.B) {
	es := make([]Entry[int64, [2]int64], 100_000)
	for i := range es {
		es[i].Key = int64(i) * 3
	}
	m := Of(es)
	b.ReportAllocs()
	k := int64(0)
	for b.Loop() {
		m = m.With(map[int64]Change[[2]int64]{k % 300_000: {}})
		k += 70_001
	}
}

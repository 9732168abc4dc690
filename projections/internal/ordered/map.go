// Package ordered has a map in the order of its keys that is an immutable value: what views
// hold very many of.
//
// The entries stand in chunks, ascending. A change makes the chunks anew that it falls into,
// and the list of chunks: for n entries that costs about the square root of n, where cloning
// a map would cost n. No chunk is empty, and none is over a fixed size.
package ordered

import (
	"cmp"
	"slices"
	"sort"
)

// most is the most entries of a chunk.
const most = 256

// Map is an immutable map. The zero value is empty.
type Map[K cmp.Ordered, V any] struct {
	chunks [][]Entry[K, V]
	size   int
}

// Entry is a key with its value.
type Entry[K cmp.Ordered, V any] struct {
	Key   K
	Value V
}

// Change sets a key's value, or with Gone takes the key out.
type Change[V any] struct {
	Value V
	Gone  bool
}

// Of makes a map of entries that ascend by key, each key once. It keeps the slice.
func Of[K cmp.Ordered, V any](es []Entry[K, V]) Map[K, V] {
	return Map[K, V]{appendChunks(nil, es), len(es)}
}

// Len is the number of keys.
func (m Map[K, V]) Len() int { return m.size }

// Get returns a key's value.
func (m Map[K, V]) Get(k K) (v V, ok bool) {
	if m.size == 0 || cmp.Less(k, m.chunks[0][0].Key) {
		return v, false
	}
	c := m.chunks[m.chunkOf(k)]
	if i, ok := find(c, k); ok {
		return c[i].Value, true
	}
	return v, false
}

// All goes through the map by key.
func (m Map[K, V]) All(yield func(K, V) bool) {
	for _, c := range m.chunks {
		for _, e := range c {
			if !yield(e.Key, e.Value) {
				return
			}
		}
	}
}

// Equal reports whether two maps have the same keys with equal values.
func (m Map[K, V]) Equal(n Map[K, V], equal func(V, V) bool) bool {
	if m.size != n.size {
		return false
	}
	for k, v := range m.All {
		if w, ok := n.Get(k); !ok || !equal(v, w) {
			return false
		}
	}
	return true
}

// chunkOf is the chunk into which a key falls: the last that does not begin above it, or
// the first.
func (m Map[K, V]) chunkOf(k K) int {
	return max(0, sort.Search(len(m.chunks), func(i int) bool { return cmp.Less(k, m.chunks[i][0].Key) })-1)
}

func find[K cmp.Ordered, V any](c []Entry[K, V], k K) (int, bool) {
	return slices.BinarySearchFunc(c, k, func(e Entry[K, V], k K) int { return cmp.Compare(e.Key, k) })
}

// With returns the map after changes.
func (m Map[K, V]) With(changes map[K]Change[V]) Map[K, V] {
	if len(changes) == 0 {
		return m
	}
	keys := make([]K, 0, len(changes))
	for k := range changes {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	if len(m.chunks) == 0 {
		return Of(merged(nil, keys, changes))
	}
	out := Map[K, V]{chunks: make([][]Entry[K, V], 0, len(m.chunks)+1), size: m.size}
	done := 0 // chunks of m that are in out, changed or not
	for len(keys) > 0 {
		at := m.chunkOf(keys[0])
		n := len(keys)
		if at+1 < len(m.chunks) {
			above := m.chunks[at+1][0].Key
			n, _ = slices.BinarySearch(keys, above)
		}
		out.chunks = append(out.chunks, m.chunks[done:at]...)
		c := merged(m.chunks[at], keys[:n], changes)
		out.size += len(c) - len(m.chunks[at])
		out.chunks = appendChunks(out.chunks, c)
		done, keys = at+1, keys[n:]
	}
	out.chunks = append(out.chunks, m.chunks[done:]...)
	return out
}

// merged is a chunk after the changes of keys, which ascend: a new slice.
func merged[K cmp.Ordered, V any](c []Entry[K, V], keys []K, changes map[K]Change[V]) []Entry[K, V] {
	out := make([]Entry[K, V], 0, len(c)+len(keys))
	for _, k := range keys {
		i, there := find(c, k)
		out = append(out, c[:i]...)
		if there {
			i++
		}
		c = c[i:]
		if ch := changes[k]; !ch.Gone {
			out = append(out, Entry[K, V]{k, ch.Value})
		}
	}
	return append(out, c...)
}

// appendChunks appends entries as chunks of about one size. Where few are left of a chunk
// they join the one before, so that no trail of small chunks builds up.
func appendChunks[K cmp.Ordered, V any](chunks [][]Entry[K, V], es []Entry[K, V]) [][]Entry[K, V] {
	if len(es) == 0 {
		return chunks
	}
	if last := len(chunks) - 1; last >= 0 && len(chunks[last])+len(es) <= most/2 {
		chunks[last] = slices.Concat(chunks[last], es)
		return chunks
	}
	for n := (len(es) + most - 1) / most; n > 0; n-- {
		k := (len(es) + n - 1) / n
		chunks = append(chunks, es[:k:k])
		es = es[k:]
	}
	return chunks
}

package consumer

import (
	"maps"
	"slices"

	"kaas.dev/kaas/projections/groups"
)

// same reports whether two assignments hold the same partitions.
func same(a, b groups.Assignment) bool { return maps.EqualFunc(a, b, slices.Equal) }

// put sets a topic's partitions, and leaves an empty list out.
func put(a groups.Assignment, id topicID, ps []int32) {
	if len(ps) > 0 {
		a[id] = ps
	}
}

// both returns what is in a and b. The result may share a's array.
func both(a, b []int32) []int32 {
	return filter(a, func(p int32) bool { _, ok := slices.BinarySearch(b, p); return ok })
}

// without returns what is in a and not in b. The result may share a's array.
func without(a, b []int32) []int32 {
	return filter(a, func(p int32) bool { _, ok := slices.BinarySearch(b, p); return !ok })
}

// filter returns what of a passes; a itself if all of it does.
func filter(a []int32, passes func(int32) bool) []int32 {
	for i, p := range a {
		if passes(p) {
			continue
		}
		out := slices.Clone(a[:i])
		for _, p := range a[i+1:] {
			if passes(p) {
				out = append(out, p)
			}
		}
		return out
	}
	return a
}

// either returns what is in a or in b, ascending.
func either(a, b []int32) []int32 {
	if len(a) == 0 {
		return b
	}
	if len(b) == 0 {
		return a
	}
	out := slices.Concat(a, b)
	slices.Sort(out)
	return slices.Compact(out)
}

// owns reports whether any of the partitions that a member named is in a.
func owns(owned []groups.TopicPartitions, a groups.Assignment) bool {
	for _, tp := range owned {
		for _, p := range tp.Partitions {
			if _, ok := slices.BinarySearch(a[tp.Topic], p); ok {
				return true
			}
		}
	}
	return false
}

// within reports whether all the partitions that a member named are in a.
func within(owned []groups.TopicPartitions, a groups.Assignment) bool {
	for _, tp := range owned {
		for _, p := range tp.Partitions {
			if _, ok := slices.BinarySearch(a[tp.Topic], p); !ok {
				return false
			}
		}
	}
	return true
}

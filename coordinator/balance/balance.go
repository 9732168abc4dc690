package balance

import (
	"cmp"
	"slices"
)

// Place is a partition or a shard. Leader is any number that is not a live broker's
// where nobody leads it.
type Place struct {
	Group  int
	Leader int32
}

// Move gives the place with that index to a broker.
type Move struct {
	Place int
	To    int32
}

// Assign returns a leader for every place whose leader is not live, in order of the
// places. No other place moves. Without a live broker there is nothing to assign.
func Assign(places []Place, live []int32) []Move {
	t := newTable(places, live)
	if len(t.live) == 0 {
		return nil
	}
	var orphans []int
	for p, b := range t.leader {
		if b == nobody {
			orphans = append(orphans, p)
		}
	}
	return t.give(orphans)
}

// Even returns the fewest moves after which no live broker leads more than one place
// more than another, or the first `most` steps towards that, in order of the places.
// Places without a live leader are not counted and not moved: they are for Assign.
func Even(places []Place, live []int32, most int) []Move {
	t := newTable(places, live)
	if len(t.live) == 0 {
		return nil
	}
	k := min(t.distance(), most)
	if k <= 0 {
		return nil
	}
	return t.give(t.take(k))
}

// nobody is the index of a leader that is not live.
const nobody = -1

// table is the input with brokers as indices into live.
type table struct {
	live   []int32 // sorted, each once
	groups []int   // of places
	leader []int   // of places, or nobody
	load   []int   // of brokers
	order  []int   // the places by group, then by index
}

func newTable(places []Place, live []int32) *table {
	t := &table{live: slices.Clone(live), groups: make([]int, len(places)), leader: make([]int, len(places)), order: make([]int, len(places))}
	slices.Sort(t.live)
	t.live = slices.Compact(t.live)
	t.load = make([]int, len(t.live))
	for p, place := range places {
		b, ok := slices.BinarySearch(t.live, place.Leader)
		if ok {
			t.load[b]++
		} else {
			b = nobody
		}
		t.groups[p], t.leader[p], t.order[p] = place.Group, b, p
	}
	slices.SortFunc(t.order, func(p, q int) int {
		return cmp.Or(cmp.Compare(t.groups[p], t.groups[q]), cmp.Compare(p, q))
	})
	return t
}

// eachGroup calls f with the places of one group after the other.
func (t *table) eachGroup(f func(places []int)) {
	for from := 0; from < len(t.order); {
		to := from + 1
		for to < len(t.order) && t.groups[t.order[to]] == t.groups[t.order[from]] {
			to++
		}
		f(t.order[from:to])
		from = to
	}
}

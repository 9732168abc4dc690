package balance

import (
	"cmp"
	"slices"
)

// take returns k places that leave the brokers with the highest loads. Those that are
// one too many of their group on their broker go first. Who gives here gets nothing
// in give: k is never above distance, so the level that is shaved to stays above
// the one that is filled to, or nobody gives or gets an extra one.
func (t *table) take(k int) []int {
	level, extra := shave(t.load, k)
	q := newQuota(func(b int) int { return t.load[b] - level }, len(t.load), extra)
	rank := t.ranks()
	var from []int
	for p, b := range t.leader {
		if b != nobody && q.may[b] {
			from = append(from, p)
		}
	}
	slices.SortFunc(from, func(p, r int) int { return cmp.Or(cmp.Compare(rank[r], rank[p]), cmp.Compare(p, r)) })
	out := make([]int, 0, k)
	for _, p := range from {
		if b := t.leader[p]; q.open(b) {
			q.use(b)
			out = append(out, p)
		}
	}
	return out
}

// ranks numbers the places of each group on each broker, from 1.
func (t *table) ranks() []int {
	rank := make([]int, len(t.leader))
	n := make([]int, len(t.live))
	t.eachGroup(func(places []int) {
		for _, p := range places {
			if b := t.leader[p]; b != nobody {
				n[b]++
				rank[p] = n[b]
			}
		}
		for _, p := range places {
			if b := t.leader[p]; b != nobody {
				n[b] = 0
			}
		}
	})
	return rank
}

// give hands the places to the brokers with the lowest loads, a group at a time: each
// to who has least of the group, then to who has the lowest load.
func (t *table) give(places []int) []Move {
	if len(places) == 0 {
		return nil
	}
	level, extra := fill(t.load, len(places))
	q := newQuota(func(b int) int { return level - t.load[b] }, len(t.load), extra)
	given := make([]bool, len(t.leader))
	for _, p := range places {
		given[p] = true
	}
	load, out := slices.Clone(t.load), make([]Move, 0, len(places))
	ofGroup := make([]int, len(load)) // of who gives, it counts what leaves too: they get nothing
	t.eachGroup(func(group []int) {
		clear(ofGroup)
		for _, p := range group {
			if b := t.leader[p]; b != nobody {
				ofGroup[b]++
			}
		}
		for _, p := range group {
			if !given[p] {
				continue
			}
			b := q.best(ofGroup, load)
			q.use(b)
			ofGroup[b]++
			load[b]++
			out = append(out, Move{p, t.live[b]})
		}
	})
	slices.SortFunc(out, func(a, b Move) int { return cmp.Compare(a.Place, b.Place) })
	return out
}

// best is the broker with room that has least of the group and the lowest load.
func (q *quota) best(ofGroup, load []int) int {
	best := nobody
	for b := range load {
		if !q.open(b) {
			continue
		}
		if best == nobody || ofGroup[b] < ofGroup[best] || ofGroup[b] == ofGroup[best] && load[b] < load[best] {
			best = b
		}
	}
	return best
}

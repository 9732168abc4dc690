package assignor

import (
	"cmp"
	"slices"
)

// uneven solves the case that members differ in what they may have.
func (pl *plan) uneven() {
	subs := pl.subscribers()
	for p, m := range pl.had {
		if m != nobody {
			pl.give(int32(p), m)
		}
	}
	for _, t := range pl.narrowFirst(subs) {
		for p := pl.base[t]; p < pl.base[t+1]; p++ {
			if pl.owner[p] == nobody && len(subs[t]) > 0 {
				pl.give(p, pl.lightest(subs[t]))
			}
		}
	}
	newLeveller(pl).run()
}

// subscribers returns each topic's subscribers, ascending.
func (pl *plan) subscribers() [][]int32 {
	out := make([][]int32, len(pl.Topics))
	for m := range pl.Members {
		for _, t := range pl.Members[m].Topics {
			out[t] = append(out[t], int32(m))
		}
	}
	return out
}

// narrowFirst orders the topics so that those with the least choice come first.
func (pl *plan) narrowFirst(subs [][]int32) []int32 {
	order := make([]int32, len(pl.Topics))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortStableFunc(order, func(a, b int32) int { return cmp.Compare(len(subs[a]), len(subs[b])) })
	return order
}

// lightest returns the first of the members with the least load.
func (pl *plan) lightest(members []int32) int32 {
	return slices.MinFunc(members, func(a, b int32) int { return cmp.Compare(pl.load[a], pl.load[b]) })
}

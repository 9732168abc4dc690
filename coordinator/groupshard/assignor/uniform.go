package assignor

import "kaas.dev/kaas/projections/groups"

// uniform makes the loads of all members even.
func uniform(pr Problem) []groups.Assignment {
	pl := newPlan(pr)
	switch {
	case len(pr.Members) == 0:
	case pl.same:
		pl.even()
	default:
		pl.uneven()
	}
	return pl.answer()
}

// even solves the case that every member may have everything that anybody may.
func (pl *plan) even() {
	parts := pl.subscribed(pl.Members[0].Topics)
	have := make([]int32, len(pl.Members))
	for _, p := range parts {
		if m := pl.had[p]; m != nobody {
			have[m]++
		}
	}
	q := share(len(parts), len(pl.Members))
	for m := range have {
		have[m] = q.keep(have[m])
	}
	free := parts[:0]
	for _, p := range parts {
		if m := pl.had[p]; m != nobody && pl.load[m] < have[m] {
			pl.give(p, m)
		} else {
			free = append(free, p)
		}
	}
	pl.deal(free, q)
}

// deal hands out what is free in turns, so that a topic's partitions are spread.
func (pl *plan) deal(free []int32, q quota) {
	type hungry struct{ member, wants int32 }
	var table []hungry
	for m := range pl.Members {
		if n := q.fill(pl.load[m]); n > 0 {
			table = append(table, hungry{int32(m), n})
		}
	}
	for len(free) > 0 {
		left := table[:0]
		for _, h := range table {
			pl.give(free[0], h.member)
			free = free[1:]
			if h.wants--; h.wants > 0 {
				left = append(left, h)
			}
		}
		table = left
	}
}

// subscribed returns the partitions of some topics.
func (pl *plan) subscribed(topics []int32) []int32 {
	var out []int32
	for _, t := range topics {
		for p := pl.base[t]; p < pl.base[t+1]; p++ {
			out = append(out, p)
		}
	}
	return out
}

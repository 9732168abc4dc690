package assignor

// leveller evens the loads out by handing partitions on. A partition goes from a member to
// another that subscribes to its topic, and a hand-over may be a chain, in which each
// member between gives one and gets one.
//
// Whoever finds nobody to get one from is settled, and so are all whom it looked at: they
// have at most one more than it, and none of them can look further than it did.
type leveller struct {
	*plan
	settled []bool  // by member
	seen    []int32 // by member: the search that came by it last
	looked  []int32 // by topic, likewise
	search  int32
	to      []int32 // by member: whom it would give to
	part    []int32 // by member: the partition that it would give
	queue   []int32
}

// spent marks a topic whose partitions settled members have.
const spent = -1

func newLeveller(pl *plan) *leveller {
	n := len(pl.Members)
	return &leveller{
		plan: pl, settled: make([]bool, n), seen: make([]int32, n), looked: make([]int32, len(pl.Topics)),
		to: make([]int32, n), part: make([]int32, n), queue: make([]int32, 0, n),
	}
}

func (lv *leveller) run() {
	for {
		m := lv.hungriest()
		if m == nobody {
			return
		}
		if giver := lv.find(m); giver != nobody {
			lv.hand(giver, m)
		} else {
			lv.settle()
		}
	}
}

// hungriest returns the first of the members with the least load that are not settled.
func (lv *leveller) hungriest() int32 {
	best := int32(nobody)
	for m, done := range lv.settled {
		if !done && (best == nobody || lv.load[m] < lv.load[best]) {
			best = int32(m)
		}
	}
	return best
}

// find looks for the nearest member with at least two more than m that can hand one on to
// it, and of several as near for the one with the most.
func (lv *leveller) find(m int32) int32 {
	lv.search++
	lv.queue, lv.seen[m] = append(lv.queue[:0], m), lv.search
	for at := 0; at < len(lv.queue); {
		best := int32(nobody)
		for end := len(lv.queue); at < end; at++ {
			best = lv.look(lv.queue[at], best)
		}
		if best != nobody && lv.load[best] >= lv.load[m]+2 {
			return best
		}
	}
	return nobody
}

// look puts those who can give to x into the queue, and returns the heaviest of them and best.
func (lv *leveller) look(x, best int32) int32 {
	for _, t := range lv.Members[x].Topics {
		if lv.looked[t] == spent || lv.looked[t] == lv.search {
			continue
		}
		lv.looked[t] = lv.search
		for p := lv.base[t]; p < lv.base[t+1]; p++ {
			d := lv.owner[p]
			if lv.settled[d] || lv.seen[d] == lv.search {
				continue
			}
			lv.seen[d], lv.to[d], lv.part[d] = lv.search, x, p
			lv.queue = append(lv.queue, d)
			if best == nobody || lv.load[d] > lv.load[best] {
				best = d
			}
		}
	}
	return best
}

// hand moves a partition along each step of the chain.
func (lv *leveller) hand(from, to int32) {
	for x := from; x != to; x = lv.to[x] {
		lv.give(lv.part[x], lv.to[x])
	}
}

// settle marks what the last search came by.
func (lv *leveller) settle() {
	for _, m := range lv.queue {
		lv.settled[m] = true
		for _, t := range lv.Members[m].Topics {
			lv.looked[t] = spent
		}
	}
}

package assignor

import (
	"encoding/binary"

	"kaas.dev/kaas/projections/groups"
)

// ranges makes the loads even within each topic.
func ranges(pr Problem) []groups.Assignment {
	pl := newPlan(pr)
	for _, c := range pl.classes() {
		pl.split(c)
	}
	return pl.answer()
}

// class is some topics of one size with the same subscribers. Its partitions of one number
// go together: they are a row.
type class struct {
	topics  []int32
	members []int32
}

// classes returns the classes in the order of their first topics.
func (pl *plan) classes() []class {
	var out []class
	index := map[string]int{}
	for t, members := range pl.subscribers() {
		if len(members) == 0 {
			continue
		}
		key := pl.classKey(t, members)
		i, ok := index[key]
		if !ok {
			i, index[key] = len(out), len(out)
			out = append(out, class{members: members})
		}
		out[i].topics = append(out[i].topics, int32(t))
	}
	return out
}

func (pl *plan) classKey(t int, members []int32) string {
	key := binary.LittleEndian.AppendUint32(nil, uint32(pl.Topics[t].Partitions))
	if !pl.same {
		for _, m := range members {
			key = binary.LittleEndian.AppendUint32(key, uint32(m))
		}
	}
	return string(key)
}

// split shares the rows of a class out among its members.
func (pl *plan) split(c class) {
	rows := make([]int32, pl.Topics[c.topics[0]].Partitions) // who gets each
	kept := map[int32]int32{}                                // rows by member
	for i := range rows {
		rows[i] = pl.holder(c, int32(i))
		kept[rows[i]]++
	}
	q := share(len(rows), len(c.members))
	for _, m := range c.members {
		kept[m] = q.keep(kept[m])
	}
	stay := map[int32]int32{}
	for i, m := range rows {
		if m == nobody || stay[m] == kept[m] {
			rows[i] = nobody
			continue
		}
		stay[m]++
	}
	next := 0
	for _, m := range c.members {
		for n := q.fill(kept[m]); n > 0; next++ {
			if rows[next] == nobody {
				rows[next] = m
				n--
			}
		}
	}
	for i, m := range rows {
		for _, t := range c.topics {
			pl.give(pl.base[t]+int32(i), m)
		}
	}
}

// holder returns the member that has most of a row, and of several the first.
func (pl *plan) holder(c class, row int32) int32 {
	best, most := int32(nobody), 0
	count := map[int32]int{}
	for _, t := range c.topics {
		m := pl.had[pl.base[t]+row]
		if m == nobody {
			continue
		}
		count[m]++
		if n := count[m]; n > most || n == most && m < best {
			best, most = m, n
		}
	}
	return best
}

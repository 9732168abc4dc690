package history

import "kaas.dev/kaas/projections/groups"

// narrowed leaves out what two values of a part have in common, where that is many objects:
// a group may have offsets of thousands of partitions, of which a commit changes one. What
// is different between the two stays so.
func narrowed(old, now any) (any, any) {
	a, ok1 := old.(*groups.Group)
	b, ok2 := now.(*groups.Group)
	if !ok1 || !ok2 {
		return old, now
	}
	x, y := *a, *b
	x.Offsets, y.Offsets = different(a.Offsets, b.Offsets), different(b.Offsets, a.Offsets)
	x.Pending, y.Pending = differentPending(a.Pending, b.Pending), differentPending(b.Pending, a.Pending)
	return &x, &y
}

// different are the offsets of a that b has not, or has otherwise.
func different(a, b groups.Offsets) groups.Offsets {
	out := groups.Offsets{}
	for topic, ps := range a {
		other := b[topic]
		for p, o := range ps {
			if was, ok := other[p]; ok && was == o {
				continue
			}
			if out[topic] == nil {
				out[topic] = map[int32]groups.Offset{}
			}
			out[topic][p] = o
		}
	}
	return out
}

func differentPending(a, b map[int64]groups.Pending) map[int64]groups.Pending {
	out := make(map[int64]groups.Pending, len(a))
	for producer, p := range a {
		if other, ok := b[producer]; ok && other.Epoch == p.Epoch {
			p.Offsets = different(p.Offsets, other.Offsets)
		}
		out[producer] = p
	}
	return out
}

package checker

import (
	"cmp"
	"slices"

	"kaas.dev/kaas/tools/kaas-check/history"
)

// once is whether a producer's records are never twice in the log, and in order.
func once(r history.Role) bool { return r == history.Idempotent || r == history.Transactional }

// checkProducers wants the records of an idempotent producer in the order they were sent.
func (p *partition) checkProducers() {
	type sent struct {
		count, offset int64
		op            int
	}
	of := map[int32][]sent{}
	for offset, pl := range p.at {
		if pl.op < 0 || !p.known(pl.value) {
			continue
		}
		if proc := history.ProcOf(pl.value); once(p.h.Procs[proc].Role) {
			of[proc] = append(of[proc], sent{history.Count(pl.value), int64(offset), pl.op})
		}
	}
	procs := make([]int32, 0, len(of))
	for proc := range of {
		procs = append(procs, proc)
	}
	slices.Sort(procs)
	for _, proc := range procs { // each in the order of offsets
		last := sent{}
		for _, s := range of[proc] {
			if s.count < last.count {
				p.violate("reordered", s.offset, []int{last.op, s.op}, "%s sent its record %d after %d, which is at offset %d, and that is at %d", p.h.Name(proc), last.count, s.count, s.offset, last.offset)
				continue
			}
			last = s
		}
	}
}

// checkRealTime wants what was sent after an acknowledgement to be behind it in the log.
func (p *partition) checkRealTime() {
	byEnd, byStart := slices.Clone(p.acked), slices.Clone(p.acked)
	slices.SortStableFunc(byEnd, func(a, b int) int { return cmp.Compare(p.h.Ops[a].Complete, p.h.Ops[b].Complete) })
	slices.SortStableFunc(byStart, func(a, b int) int { return cmp.Compare(p.h.Ops[a].Invoke, p.h.Ops[b].Invoke) })
	most, next := -1, 0
	for _, i := range byStart {
		op := &p.h.Ops[i]
		for ; next < len(byEnd) && p.h.Ops[byEnd[next]].Complete < op.Invoke; next++ {
			if most < 0 || p.h.Ops[byEnd[next]].Offset > p.h.Ops[most].Offset {
				most = byEnd[next]
			}
		}
		if most >= 0 && op.Offset < p.h.Ops[most].Offset {
			p.violate("reordered", op.Offset, []int{most, i}, "what was sent after offset %d had been acknowledged is at offset %d", p.h.Ops[most].Offset, op.Offset)
		}
	}
}

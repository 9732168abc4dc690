package checker

import (
	"slices"

	"kaas.dev/kaas/tools/kaas-check/history"
)

// checkFinal wants the final reading to come to the end, and to have every record that was
// acknowledged or read and has not been deleted. Of what lies between the place where it
// stands and the end nothing is known.
func (p *partition) checkFinal() {
	if !p.readFinally() {
		return
	}
	next := p.logStart
	for _, i := range p.reads {
		if op := &p.h.Ops[i]; op.Proc == p.final {
			next = max(next, p.h.ReadTo(op))
		}
	}
	if next < p.lastEnd {
		p.violate("stuck", next, p.finalOps(p.lastEnd), "the final reading stands at %d and does not come to the end, %d", next, p.lastEnd)
	}
	gone := func(offset int64) bool {
		return offset >= p.logStart && (offset < next || offset >= p.lastEnd)
	}
	for _, i := range p.acked {
		op := &p.h.Ops[i]
		if pl := p.place(op.Offset); gone(op.Offset) && (!pl.inFinal || pl.final != op.Value) {
			p.violate("lost", op.Offset, append([]int{i}, p.finalOps(op.Offset)...), "%s was acknowledged at offset %d, and in the end it is not there", history.TellValue(op.Value), op.Offset)
		}
	}
	for offset, pl := range p.at {
		if i := p.readOp(int64(offset)); i >= 0 && gone(int64(offset)) && (!pl.inFinal || pl.final != pl.value) {
			p.violate("vanished", int64(offset), append([]int{i}, p.finalOps(int64(offset))...), "%s was read at offset %d, and in the end it is not there", history.TellValue(pl.value), offset)
		}
	}
}

// readFinally is whether a final reading was told the end, and so was begun.
func (p *partition) readFinally() bool { return p.final >= 0 && p.lastEnd >= 0 }

// finalOps is what the final reading did at an offset: the read that has it or, where it
// passed over it or ended before, the one before and the one after, and what it was told of the end.
func (p *partition) finalOps(offset int64) []int {
	before, after, told := -1, -1, -1
	for _, i := range p.reads {
		op := &p.h.Ops[i]
		switch {
		case op.Proc != p.final:
		case op.Offset <= offset:
			before = i
		case after < 0:
			after = i
		}
	}
	for _, i := range p.seen {
		if op := &p.h.Ops[i]; op.Proc == p.final && op.Field == history.End {
			told = i
		}
	}
	var out []int
	for _, i := range []int{before, after} {
		if i >= 0 {
			out = append(out, i)
		}
	}
	if told >= 0 && after < 0 && (before < 0 || p.h.ReadTo(&p.h.Ops[before]) <= offset) {
		out = append(out, told)
	}
	return out
}

// checkReaders wants each reader to go through the log without a gap and without
// going back, and those at the tail to have come to the end.
func (p *partition) checkReaders() {
	type reader struct {
		next int64
		op   int // its last Read
	}
	readers := map[int32]*reader{}
	for _, i := range p.reads {
		op := &p.h.Ops[i]
		r := readers[op.Proc]
		if r == nil {
			r = &reader{op: -1}
			readers[op.Proc] = r
		}
		p.h.Each(op, func(rec history.Record) {
			ops := []int{i}
			if r.op >= 0 && r.op != i {
				ops = []int{r.op, i}
			}
			switch {
			case rec.Offset < r.next:
				p.violate("read-back", rec.Offset, ops, "%s got offset %d where %d is next", p.h.Name(op.Proc), rec.Offset, r.next)
			case rec.Offset > r.next && rec.Offset > p.logStart && !p.passes(op, i, max(r.next, p.logStart), rec.Offset):
				p.violate("gap", max(r.next, p.logStart), ops, "%s got offset %d where %d is next, and the log starts at %d", p.h.Name(op.Proc), rec.Offset, r.next, p.logStart)
			}
			if p.h.Procs[op.Proc].Committed {
				p.txns.look(p, rec.Offset, rec.Value, i, false)
			}
			r.next, r.op = rec.Offset+1, i
		})
	}
	for proc := range p.h.Procs {
		r := readers[int32(proc)]
		if p.h.Procs[proc].Committed {
			if r == nil {
				r = &reader{op: -1}
			}
			p.checkStandsAtStable(int32(proc), r.next, r.op)
			continue
		}
		if p.h.Procs[proc].Role != history.Tail || p.lastEnd < 0 {
			continue
		}
		if r != nil && r.next < p.lastEnd && p.logStart < p.lastEnd {
			p.violate("stuck", r.next, append(p.finalOps(p.lastEnd), r.op), "%s stands at %d and did not come to the end, %d", p.h.Name(int32(proc)), r.next, p.lastEnd)
		}
	}
}

// passes is whether a reader may pass over offsets, which only one of committed records may:
// over markers, and over what is in a transaction. Whether that is right the transaction tells.
func (p *partition) passes(op *history.Op, read int, from, to int64) bool {
	if !p.h.Procs[op.Proc].Committed {
		return false
	}
	all := true
	for ; from < to; from++ {
		if pl := p.place(from); pl.op >= 0 {
			all = p.txns.look(p, from, pl.value, read, true) && all
		}
	}
	return all
}

// checkStandsAtStable wants a reader of committed records, if it is there at the end of the run,
// to have come to the last stable offset.
func (p *partition) checkStandsAtStable(proc int32, next int64, last int) {
	if role := p.h.Procs[proc].Role; p.lastStable < 0 || role != history.Tail && role != history.Final {
		return
	}
	if to := p.h.Ops[p.lastStable].Offset; next < to && p.logStart < to {
		p.violate("stuck", next, witnesses(p.lastStable, last), "%s stands at %d and did not come to the last stable offset, %d", p.h.Name(proc), next, to)
	}
}

// checkObservers wants a number that one process is told never to fall.
func (p *partition) checkObservers() {
	type key struct {
		proc  int32
		field history.Field
	}
	rules := map[history.Field]string{history.End: "end-back", history.HighWatermark: "watermark-back", history.LogStart: "start-back", history.LeaderEpoch: "epoch-back", history.Stable: "stable-back"}
	highest := map[key]int{}
	for _, i := range p.seen {
		op := &p.h.Ops[i]
		k := key{op.Proc, op.Field}
		before, ok := highest[k]
		if ok && op.Offset < p.h.Ops[before].Offset {
			p.violate(rules[op.Field], op.Offset, []int{before, i}, "%s was told %d as %v after %d", p.h.Name(op.Proc), op.Offset, op.Field, p.h.Ops[before].Offset)
			continue
		}
		highest[k] = i
	}
}

// fact is that the end is at least so high, from a time on.
type fact struct {
	at   int64
	end  int64
	op   int
	asks bool // an answer, to be held against the facts before it
}

// checkEnds wants an end that is asked for to cover what was known before.
func (p *partition) checkEnds() {
	var facts []fact
	for _, i := range p.acked {
		facts = append(facts, fact{at: p.h.Ops[i].Complete, end: p.h.Ops[i].Offset + 1, op: i})
	}
	for _, i := range p.reads {
		facts = append(facts, fact{at: p.h.Ops[i].Complete, end: p.h.ReadTo(&p.h.Ops[i]), op: i})
	}
	for _, i := range p.seen {
		op := &p.h.Ops[i]
		if op.Field == history.End || op.Field == history.HighWatermark || op.Field == history.Stable {
			facts = append(facts, fact{at: op.Complete, end: op.Offset, op: i})
		}
	}
	p.checkNewest(history.End, "stale-end", facts)
}

// checkNewest wants each answer about a field to be no less than the facts before it was
// asked for.
func (p *partition) checkNewest(field history.Field, rule string, facts []fact) {
	for _, i := range p.seen {
		if op := &p.h.Ops[i]; op.Field == field { // of equal answers, the last must cover most
			facts = append(facts, fact{at: op.Last[0], end: op.Offset, op: i, asks: true})
		}
	}
	slices.SortStableFunc(facts, func(a, b fact) int {
		switch {
		case a.at != b.at:
			return int(min(1, max(-1, a.at-b.at)))
		case a.asks && !b.asks:
			return -1 // what is known at the same instant was not known before
		case b.asks && !a.asks:
			return 1
		}
		return 0
	})
	most := fact{op: -1}
	for _, f := range facts {
		switch {
		case !f.asks && f.end > most.end:
			most = f
		case f.asks && f.end < most.end && f.op != most.op:
			p.violate(rule, f.end, []int{most.op, f.op}, "%s was told that %v is %d, and it was %d before that was asked for", p.h.Name(p.h.Ops[f.op].Proc), field, f.end, most.end)
		}
	}
}

// checkStable wants the last stable offset to cover what readers of committed records had got
// and what was told of it, and to be the end when everything has ended.
func (p *partition) checkStable() {
	var facts []fact
	for _, i := range p.reads {
		if op := &p.h.Ops[i]; p.h.Procs[op.Proc].Committed {
			facts = append(facts, fact{at: op.Complete, end: p.h.ReadTo(op), op: i})
		}
	}
	for _, i := range p.seen {
		if op := &p.h.Ops[i]; op.Field == history.Stable {
			facts = append(facts, fact{at: op.Complete, end: op.Offset, op: i})
		}
	}
	p.checkNewest(history.Stable, "stale-stable", facts)
	if p.lastStable < 0 {
		return
	}
	if at := p.h.Ops[p.lastStable].Offset; at < p.lastEnd {
		p.violate("open", at, append(p.finalOps(p.lastEnd), p.lastStable), "in the end the last stable offset is %d and the end %d: a transaction never ended", at, p.lastEnd)
	}
}

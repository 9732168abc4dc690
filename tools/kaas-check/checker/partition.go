package checker

import (
	"fmt"
	"slices"

	"kaas.dev/kaas/tools/kaas-check/history"
)

// partition gathers what belongs to one partition.
type partition struct {
	h     *history.History
	id    int32
	txns  *transactions
	sent  map[uint64]int // the Produce of each value
	acked []int          // Produces that were acknowledged
	reads []int
	seen  []int // Observes
	final int32 // the process of the final reading, or -1

	logStart   int64   // the highest log start that was told
	lastEnd    int64   // the end that the final reading was told, or -1
	lastStable int     // what the final reading of committed records was told of the last stable offset, or -1
	at         []place // by offset, what was first seen there
	found      []Violation
	kept       map[string]int
}

// place is an offset of the log. op is -1 where nothing was seen.
type place struct {
	op      int
	value   uint64
	epoch   int32  // -1 where not told
	inFinal bool   // in the final reading
	final   uint64 // its value there
}

func (p *partition) add(i int, op *history.Op) {
	final := finally(p.h, op)
	if final && op.Outcome == history.OK {
		p.final = op.Proc
	}
	switch op.Kind {
	case history.Produce:
		p.sent[op.Value] = i
		if op.Outcome == history.OK {
			p.acked = append(p.acked, i)
		}
	case history.Read:
		p.reads = append(p.reads, i)
	case history.Observe:
		p.seen = append(p.seen, i)
		switch {
		case op.Field == history.LogStart:
			p.logStart = max(p.logStart, op.Offset)
		case op.Field == history.End && final:
			p.lastEnd = max(p.lastEnd, op.Offset)
		case op.Field == history.Stable && p.h.Procs[op.Proc].Role == history.Final:
			p.lastStable = i
		}
	}
}

// comeLate has what was sent to a topic, without an answer, be sent to every later one of the same
// name: a Produce names it, and one that is held up on its way is for whichever there is then.
func comeLate(h *history.History, parts []*partition) {
	for later, to := range h.Parts {
		for before, from := range h.Parts {
			if from.Topic != to.Topic || from.Index != to.Index || from.Made >= to.Made {
				continue
			}
			for value, i := range parts[before].sent {
				if h.Ops[i].Part == int32(before) && h.Ops[i].Outcome == history.Unknown {
					parts[later].sent[value] = i
				}
			}
		}
	}
}

// finally is whether an operation is of the final reading of everything.
func finally(h *history.History, op *history.Op) bool {
	proc := &h.Procs[op.Proc]
	return proc.Role == history.Final && !proc.Committed
}

// violate keeps a violation, unless there are many of its rule.
func (p *partition) violate(rule string, offset int64, ops []int, format string, a ...any) {
	p.kept[rule]++
	if p.kept[rule] > mostOfRule {
		return
	}
	slices.SortFunc(ops, func(a, b int) int { return int(min(1, max(-1, p.h.Ops[a].Complete-p.h.Ops[b].Complete))) })
	text := fmt.Sprintf("%v: ", p.h.Parts[p.id]) + fmt.Sprintf(format, a...)
	p.found = append(p.found, Violation{Rule: rule, Part: p.id, Offset: offset, Text: text, Ops: slices.Compact(ops)})
}

// check runs the rules. The first fills at, which the others use.
func (p *partition) check() {
	p.checkContent()
	p.checkOffsets()
	p.checkSent()
	p.checkFinal()
	p.checkReaders()
	p.checkProducers()
	p.checkRealTime()
	p.checkEpochs()
	p.checkObservers()
	p.checkEnds()
	p.checkStable()
}

// place is what is known of an offset.
func (p *partition) place(offset int64) place {
	if offset >= 0 && offset < int64(len(p.at)) {
		return p.at[offset]
	}
	return place{op: -1}
}

func (p *partition) grow(offset int64) *place {
	for int64(len(p.at)) <= offset {
		p.at = append(p.at, place{op: -1, epoch: -1})
	}
	return &p.at[offset]
}

// read is where a value was read first, or -1.
func (p *partition) readOp(offset int64) int {
	if pl := p.place(offset); pl.op >= 0 && p.h.Ops[pl.op].Kind == history.Read {
		return pl.op
	}
	return -1
}

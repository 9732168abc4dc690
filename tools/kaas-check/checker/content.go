package checker

import (
	"kaas.dev/kaas/tools/kaas-check/history"
)

const mostOffset = 1 << 26

// checkContent puts what was read, and then what was acknowledged, at its offset: an
// offset has one record, with one leader epoch.
func (p *partition) checkContent() {
	for _, i := range p.reads {
		op := &p.h.Ops[i]
		final := finally(p.h, op)
		p.h.Each(op, func(r history.Record) {
			if r.Offset < 0 || r.Offset >= mostOffset {
				p.violate("unsent", r.Offset, []int{i}, "offset %d was read", r.Offset)
				return
			}
			pl := p.grow(r.Offset)
			if final {
				pl.inFinal, pl.final = true, r.Value
			}
			switch {
			case pl.op < 0:
				pl.op, pl.value, pl.epoch = i, r.Value, r.Epoch
			case pl.value != r.Value:
				p.violate("two-values", r.Offset, []int{pl.op, i}, "offset %d was read as %s and as %s", r.Offset, history.TellValue(pl.value), history.TellValue(r.Value))
			case pl.epoch != r.Epoch && pl.epoch >= 0 && r.Epoch >= 0:
				p.violate("two-epochs", r.Offset, []int{pl.op, i}, "offset %d was read with leader epoch %d and with %d", r.Offset, pl.epoch, r.Epoch)
			}
		})
	}
	for _, i := range p.acked {
		op := &p.h.Ops[i]
		if op.Offset < 0 || op.Offset >= mostOffset {
			p.violate("two-offsets", op.Offset, []int{i}, "a record was acknowledged at offset %d", op.Offset)
			continue
		}
		pl := p.grow(op.Offset)
		switch {
		case pl.op < 0:
			pl.op, pl.value = i, op.Value
		case pl.value != op.Value:
			p.violate("two-values", op.Offset, []int{pl.op, i}, "offset %d is that of %s and of %s, which was acknowledged there", op.Offset, history.TellValue(pl.value), history.TellValue(op.Value))
		}
	}
}

// checkOffsets wants a value to be at one offset, be it read or acknowledged.
func (p *partition) checkOffsets() {
	first := make(map[uint64]sight, len(p.at))
	meet := func(value uint64, offset int64, op int) {
		have, ok := first[value]
		if !ok {
			first[value] = sight{offset, op}
			return
		}
		if have.offset == offset || value == 0 {
			return
		}
		rule := "two-offsets"
		if once(p.h.Procs[history.ProcOf(value)].Role) {
			rule = "duplicate"
		}
		p.violate(rule, offset, []int{have.op, op}, "%s is at offset %d and at %d", history.TellValue(value), have.offset, offset)
	}
	for offset, pl := range p.at {
		if pl.op >= 0 && p.known(pl.value) {
			meet(pl.value, int64(offset), pl.op)
		}
	}
	for _, i := range p.reads { // what differs from what was first seen
		for _, r := range p.h.Ops[i].Records {
			if p.place(r.Offset).value != r.Value && p.known(r.Value) {
				meet(r.Value, r.Offset, i)
			}
		}
	}
	for _, i := range p.acked {
		meet(p.h.Ops[i].Value, p.h.Ops[i].Offset, i)
	}
}

type sight struct {
	offset int64
	op     int
}

func (p *partition) known(value uint64) bool {
	_, ok := p.sent[value]
	return ok
}

// checkSent wants what was read to have been sent to this partition, and not refused.
func (p *partition) checkSent() {
	check := func(r history.Record, op int) {
		i, ok := p.sent[r.Value]
		switch {
		case history.IsMarker(r.Value):
		case !ok:
			p.violate("unsent", r.Offset, []int{op}, "offset %d was read as %s, which nobody sent there", r.Offset, history.TellValue(r.Value))
		case p.h.Ops[i].Outcome == history.Failed:
			p.violate("refused-read", r.Offset, []int{i, op}, "offset %d was read as %s, which was refused", r.Offset, history.TellValue(r.Value))
		}
	}
	for offset := range p.at {
		if i := p.readOp(int64(offset)); i >= 0 {
			check(history.Record{Offset: int64(offset), Value: p.at[offset].value}, i)
		}
	}
	for _, i := range p.reads {
		for _, r := range p.h.Ops[i].Records {
			if p.place(r.Offset).value != r.Value {
				check(r, i)
			}
		}
	}
}

// checkEpochs wants leader epochs to rise along the log.
func (p *partition) checkEpochs() {
	last := -1
	for offset, pl := range p.at {
		if pl.op < 0 || pl.epoch < 0 {
			continue
		}
		if last >= 0 && pl.epoch < p.at[last].epoch {
			p.violate("epoch-order", int64(offset), []int{p.at[last].op, pl.op}, "offset %d has leader epoch %d, and %d before it has %d", offset, pl.epoch, last, p.at[last].epoch)
			continue
		}
		last = offset
	}
}

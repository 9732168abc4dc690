package checker

import (
	"cmp"
	"slices"

	"kaas.dev/kaas/tools/kaas-check/history"
)

// share is one partition as one consumer group had it.
type share struct {
	p         *partition
	group     int32
	commits   []int
	of        map[int64][]int // commits by offset
	told      []int           // Observes of what is committed
	processed []int           // not in a transaction that was not committed
	owned     []int
}

type shareKey struct{ group, part int32 }

// sharesOf are the shares of all groups, in order: every partition of the topics that a
// group reads is one, whether it was heard of or not.
func sharesOf(h *history.History, parts []*partition) (all []*share) {
	by := map[shareKey]*share{}
	get := func(key shareKey) *share {
		if by[key] == nil {
			by[key] = &share{p: parts[key.part], group: key.group, of: map[int64][]int{}}
			all = append(all, by[key])
		}
		return by[key]
	}
	for g := range h.Groups {
		for i, part := range h.Parts {
			if part.Made == 0 && slices.Contains(h.Groups[g].Topics, part.Topic) {
				get(shareKey{int32(g), int32(i)})
			}
		}
	}
	for i := range h.Ops {
		if op := &h.Ops[i]; op.Part >= 0 && ofGroup(op) {
			get(shareKey{h.Procs[op.Proc].Group, op.Part}).add(i, op)
		}
	}
	return all
}

// ofGroup is whether an operation says something of a group's share and not of the partition.
func ofGroup(op *history.Op) bool {
	switch op.Kind {
	case history.Process, history.Commit, history.Own:
		return true
	}
	return op.Kind == history.Observe && op.Field == history.Committed
}

func (s *share) add(i int, op *history.Op) {
	switch op.Kind {
	case history.Process:
		if s.p.txns.outcomeOf(op.Txn) != history.Failed {
			s.processed = append(s.processed, i)
		}
	case history.Commit:
		s.commits = append(s.commits, i)
		s.of[op.Offset] = append(s.of[op.Offset], i)
	case history.Own:
		s.owned = append(s.owned, i)
	default:
		s.told = append(s.told, i)
	}
}

func (s *share) check() {
	s.checkCommitted()
	s.checkStarts()
	s.checkGenerations()
	s.checkProcessed()
	s.checkOwners()
}

func (s *share) op(i int) *history.Op { return &s.p.h.Ops[i] }

func (s *share) violate(rule string, offset int64, ops []int, format string, a ...any) {
	s.p.violate(rule, offset, ops, "group %s: "+format, append([]any{s.p.h.Groups[s.group].Name}, a...)...)
}

// known is that an offset is committed, from a time on.
type known struct {
	at     int64
	offset int64
	epoch  int32 // the lowest generation that may have committed it, -1 where not known
	op     int
	asks   bool // an answer or a beginning, to be held against what was known before it
}

func sortKnown(facts []known) {
	slices.SortStableFunc(facts, func(a, b known) int {
		if c := cmp.Compare(a.at, b.at); c != 0 || a.asks == b.asks {
			return c
		}
		if a.asks { // what is known at the same instant was not known before
			return -1
		}
		return 1
	})
}

// acknowledged are the commits that were, each known from its acknowledgement on.
func (s *share) acknowledged() (out []known) {
	for _, i := range s.commits {
		if op := s.op(i); op.Outcome == history.OK {
			out = append(out, known{at: op.Complete, offset: op.Offset, epoch: op.Epoch, op: i})
		}
	}
	return out
}

// checkCommitted wants an answer about what is committed to be no less than what was
// acknowledged or told before it was asked for, and to be something that was committed.
func (s *share) checkCommitted() {
	facts := s.acknowledged()
	for _, i := range s.told {
		op := s.op(i)
		by, made := s.committedBy(op)
		if !made && op.Offset >= 0 && len(s.commits) > 0 {
			s.violate("commit-unmade", op.Offset, []int{i}, "%s was told that %d is committed, and nobody had committed that", s.p.h.Name(op.Proc), op.Offset)
		}
		facts = append(facts, known{at: op.Complete, offset: op.Offset, epoch: by, op: i},
			known{at: op.Last[0], offset: op.Offset, op: i, asks: true}) // of equal answers, the last must cover most
	}
	sortKnown(facts)
	most := known{offset: -1, op: -1}
	for _, f := range facts {
		switch {
		case !f.asks && f.offset > most.offset:
			most = f
		case !f.asks || f.offset >= most.offset || f.op == most.op:
		case s.late(f.offset, s.op(f.op).Last[1], most):
			most = f
		case f.offset < 0:
			s.violate("commit-gone", most.offset, []int{most.op, f.op}, "%s was told that nothing is committed, and %d was before that was asked for", s.p.h.Name(s.op(f.op).Proc), most.offset)
		default:
			s.violate("commit-back", f.offset, []int{most.op, f.op}, "%s was told that %d is committed, and %d was before that was asked for", s.p.h.Name(s.op(f.op).Proc), f.offset, most.offset)
		}
	}
}

// committedBy is the lowest generation that may have committed what was told.
func (s *share) committedBy(told *history.Op) (epoch int32, made bool) {
	epoch = -1
	for _, i := range s.of[told.Offset] {
		op := s.op(i)
		if s.outcome(op) == history.Failed || op.Invoke > told.Last[1] {
			continue
		}
		if !made || op.Epoch < epoch {
			epoch = op.Epoch
		}
		made = true
	}
	return epoch, made
}

// outcome is that of a commit. One in a transaction whose outcome readers have shown has that,
// but nobody knows from when on.
func (s *share) outcome(op *history.Op) history.Outcome {
	if op.Outcome == history.Unknown && op.Txn != 0 && s.p.txns.outcomeOf(op.Txn) == history.Failed {
		return history.Failed
	}
	return op.Outcome
}

// late is whether an offset may be a commit of unknown outcome that took effect after
// another. One of an earlier generation must not.
func (s *share) late(offset, until int64, after known) bool {
	return slices.ContainsFunc(s.of[offset], func(i int) bool {
		op := s.op(i)
		return s.outcome(op) == history.Unknown && op.Invoke <= until && op.Epoch >= after.epoch
	})
}

// checkStarts wants a member to begin no earlier than what was committed when it was given
// the partition.
func (s *share) checkStarts() {
	facts := s.acknowledged()
	for _, i := range s.owned {
		facts = append(facts, known{at: s.op(i).Invoke, op: i, asks: true})
	}
	sortKnown(facts)
	most := known{offset: -1, op: -1}
	for _, f := range facts {
		if !f.asks {
			if f.offset > most.offset {
				most = f
			}
			continue
		}
		own := s.op(f.op)
		first := s.firstIn(own)
		if first < 0 || s.op(first).Offset >= most.offset {
			continue
		}
		if at := s.op(first); s.late(at.Offset, at.Invoke, most) {
			most = known{offset: at.Offset, epoch: most.epoch, op: most.op}
		} else {
			s.violate("read-again", at.Offset, []int{most.op, f.op, first}, "%s began at %d, and %d was committed before it was given the partition", s.p.h.Name(own.Proc), at.Offset, most.offset)
		}
	}
}

// firstIn is what a member processed first while it had the partition, or -1.
func (s *share) firstIn(own *history.Op) int {
	for _, i := range s.processed {
		if op := s.op(i); op.Proc == own.Proc && op.Complete >= own.Invoke && op.Complete <= own.Complete {
			return i
		}
	}
	return -1
}

// checkGenerations wants no commit to be taken of a generation, or an epoch, that is older
// than one of which a commit had been acknowledged before.
func (s *share) checkGenerations() {
	var facts []known
	for _, f := range s.acknowledged() {
		if f.epoch >= 0 {
			facts = append(facts, f, known{at: s.op(f.op).Invoke, epoch: f.epoch, op: f.op, asks: true})
		}
	}
	sortKnown(facts)
	most := known{epoch: -1, op: -1}
	for _, f := range facts {
		switch {
		case !f.asks && f.epoch > most.epoch:
			most = f
		case f.asks && f.epoch < most.epoch:
			s.violate("old-generation", s.op(f.op).Offset, []int{most.op, f.op}, "a commit of generation %d was taken after one of generation %d", f.epoch, most.epoch)
		}
	}
}

// checkProcessed wants the group to have processed every record that has not been deleted.
func (s *share) checkProcessed() {
	if s.p.lastEnd < 0 {
		return
	}
	begun, last := s.p.logStart, -1
	most := known{op: -1}
	for _, f := range s.acknowledged() {
		if f.offset > most.offset {
			most = f
		}
	}
	order := slices.Clone(s.processed)
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(s.op(a).Offset, s.op(b).Offset) })
	for _, i := range order {
		op := s.op(i)
		if op.Offset < begun && last >= 0 && s.sure(i) && s.sure(last) {
			s.violate("copied-twice", op.Offset, []int{last, i}, "offset %d was processed in two committed transactions, %d and %d", op.Offset, s.op(last).Txn, op.Txn)
		}
		begun = s.passed(begun, op.Offset)
		if op.Offset > begun {
			s.violate("skipped", begun, witnesses(last, i), "offset %d to %d were never processed, and %s processed %d", begun, op.Offset-1, s.p.h.Name(op.Proc), op.Offset)
		}
		if to := s.p.h.ReadTo(op); to > begun {
			begun, last = to, i
		}
	}
	switch begun = s.passed(begun, s.p.lastEnd); {
	case begun >= s.p.lastEnd:
	case most.offset > begun:
		s.violate("skipped", begun, witnesses(last, most.op), "offset %d to %d were never processed, and %d is committed", begun, min(most.offset, s.p.lastEnd)-1, most.offset)
	default:
		s.violate("group-stuck", begun, append(witnesses(last, -1), s.p.finalOps(s.p.lastEnd)...), "the group stands at %d and did not come to the end, %d", begun, s.p.lastEnd)
	}
}

// sure is whether what was processed counts for certain, and once: it is in a transaction that
// was committed.
func (s *share) sure(i int) bool {
	txn := s.op(i).Txn
	return txn != 0 && s.p.txns.outcomeOf(txn) == history.OK
}

// passed is the first offset from one on, to at most another, that a group has to process: one
// that reads what is committed does not get the rest.
func (s *share) passed(from, to int64) int64 {
	if !s.p.h.Groups[s.group].Committed {
		return from
	}
	for ; from < to; from++ {
		sent, ok := s.p.sent[s.p.place(from).value]
		if !ok {
			break
		}
		if txn := s.op(sent).Txn; txn == 0 || s.p.txns.outcomeOf(txn) == history.OK {
			break
		}
	}
	return from
}

func witnesses(ops ...int) []int {
	return slices.DeleteFunc(ops, func(i int) bool { return i < 0 })
}

// checkOwners wants a partition to have one owner at a time, as members are told. Where
// one is told that it has lost the partition, another may have had it already, but not
// before the first one's session had ended.
func (s *share) checkOwners() {
	session := s.p.h.Groups[s.group].Session
	if session == 0 {
		return
	}
	order := slices.Clone(s.owned)
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(s.op(a).Invoke, s.op(b).Invoke) })
	for n, i := range order {
		a := s.op(i)
		for _, j := range order[n+1:] {
			b := s.op(j)
			if b.Invoke >= a.Complete {
				break
			}
			dead := a.Outcome == history.Unknown && b.Invoke >= a.Last[0]+session
			if a.Proc != b.Proc && !dead {
				s.violate("two-owners", -1, []int{i, j}, "%s was given the partition while %s had it", s.p.h.Name(b.Proc), s.p.h.Name(a.Proc))
			}
		}
	}
}

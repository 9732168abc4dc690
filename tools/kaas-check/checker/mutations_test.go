package checker

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"kaas.dev/kaas/tools/kaas-check/history"
)

// A correct history has no violation.
func TestCorrectHistoriesPass(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := correct(t)
		if rep := Check(h); rep.Total() > 0 || len(rep.NotFinal) > 0 {
			tell(t, h, rep)
			t.Fatal("a correct history does not pass")
		}
	})
}

func tell(t *rapid.T, h *history.History, rep *Report) {
	for _, v := range rep.Violations {
		t.Logf("%s: %s", v.Rule, v.Text)
		for _, i := range v.Ops {
			t.Log("   ", h.Tell(&h.Ops[i], v.Offset))
		}
	}
}

// mutation makes a correct history wrong. It reports false where the history has nothing that it
// could do it with.
type mutation struct {
	rule string
	do   func(t *rapid.T, h *history.History) bool
}

// Every mutation of a correct history is found, under its name, and its story names
// operations that are there.
func TestMutationsAreCaught(t *testing.T) {
	areCaught(t, mutations, func(t *rapid.T) *history.History {
		h := correct(t)
		spread(h)
		return h
	})
}

// areCaught has each mutation tried on histories that are correct.
func areCaught(t *testing.T, all []mutation, correct func(*rapid.T) *history.History) {
	for _, m := range all {
		t.Run(m.rule, func(t *testing.T) {
			done := 0
			rapid.Check(t, func(t *rapid.T) {
				h := correct(t)
				if !m.do(t, h) {
					return
				}
				done++
				rep := Check(h)
				if rep.Count[m.rule] == 0 {
					tell(t, h, rep)
					t.Fatalf("not found; found were %v", rep.Count)
				}
				for _, v := range rep.Violations {
					if len(v.Ops) == 0 || len(v.Ops) > 4 {
						t.Errorf("%s is told with %d operations", v.Rule, len(v.Ops))
					}
				}
			})
			if done == 0 && !testing.Short() { // which has a fifth of the histories
				t.Error("no history could be made wrong")
			}
		})
	}
}

// spread gives every Read its own records, so that one can be changed alone.
func spread(h *history.History) {
	for i := range h.Ops {
		if op := &h.Ops[i]; op.Kind == history.Read {
			var recs []history.Record
			h.Each(op, func(r history.Record) { recs = append(recs, r) })
			op.Records = recs
		}
	}
}

// pick chooses one of the operations that are wanted.
func pick(t *rapid.T, h *history.History, want func(*history.Op) bool) *history.Op {
	var which []int
	for i := range h.Ops {
		if want(&h.Ops[i]) {
			which = append(which, i)
		}
	}
	if len(which) == 0 {
		return nil
	}
	return &h.Ops[rapid.SampledFrom(which).Draw(t, "operation")]
}

func isRead(h *history.History, role history.Role) func(*history.Op) bool {
	return func(op *history.Op) bool { return op.Kind == history.Read && h.Procs[op.Proc].Role == role }
}

func start(h *history.History, part int32) (most int64) {
	for _, op := range h.Ops {
		if op.Kind == history.Observe && op.Field == history.LogStart && op.Part == part {
			most = max(most, op.Offset)
		}
	}
	return most
}

func end(h *history.History, part int32) (last int64) {
	for _, op := range h.Ops {
		if op.Kind == history.Observe && op.Field == history.End && op.Part == part && h.Procs[op.Proc].Role == history.Final {
			last = op.Offset
		}
	}
	return last
}

// strike takes an offset out of what the readers of some roles read.
func strike(h *history.History, part int32, offset int64, roles ...history.Role) {
	h.Ops = slices.DeleteFunc(h.Ops, func(op history.Op) bool {
		return op.Kind == history.Read && op.Part == part && len(op.Records) == 1 && op.Records[0].Offset == offset && slices.Contains(roles, h.Procs[op.Proc].Role)
	})
	for i := range h.Ops {
		op := &h.Ops[i]
		if op.Kind != history.Read || op.Part != part || !slices.Contains(roles, h.Procs[op.Proc].Role) {
			continue
		}
		op.Records = slices.DeleteFunc(op.Records, func(r history.Record) bool { return r.Offset == offset })
		op.Offset, op.Count = op.Records[0].Offset, int32(len(op.Records))
	}
}

var everybody = []history.Role{history.Tail, history.Reread, history.Final}

var mutations = []mutation{
	{"lost", func(t *rapid.T, h *history.History) bool { // the last records, and the end is told as if they had never been
		op := pick(t, h, func(op *history.Op) bool {
			return op.Kind == history.Produce && op.Outcome == history.OK && op.Offset >= start(h, op.Part) && op.Offset == end(h, op.Part)-1
		})
		if op == nil {
			return false
		}
		part, offset := op.Part, op.Offset
		strike(h, part, offset, everybody...)
		for i := range h.Ops {
			if op := &h.Ops[i]; op.Kind == history.Observe && op.Field == history.End && op.Part == part && h.Procs[op.Proc].Role == history.Final {
				op.Offset--
			}
		}
		return true
	}},
	{"lost", func(t *rapid.T, h *history.History) bool {
		op := pick(t, h, func(op *history.Op) bool {
			return op.Kind == history.Produce && op.Outcome == history.OK && op.Offset >= start(h, op.Part) && op.Offset < end(h, op.Part)-1
		})
		if op == nil {
			return false
		}
		strike(h, op.Part, op.Offset, everybody...)
		return true
	}},
	{"vanished", func(t *rapid.T, h *history.History) bool {
		op := pick(t, h, func(op *history.Op) bool {
			return isRead(h, history.Tail)(op) && op.Records[0].Offset >= start(h, op.Part) && op.Records[0].Offset < end(h, op.Part)-1
		})
		if op == nil {
			return false
		}
		strike(h, op.Part, op.Records[0].Offset, history.Final)
		return true
	}},
	{"two-values", func(t *rapid.T, h *history.History) bool {
		op := pick(t, h, func(op *history.Op) bool { return isRead(h, history.Tail)(op) || isRead(h, history.Final)(op) })
		if op == nil || op.Records[0].Offset < start(h, op.Part) {
			return false
		}
		op.Records[0].Value = history.Value(plainA, 1<<30)
		return true
	}},
	{"two-offsets", func(t *rapid.T, h *history.History) bool { return copied(t, h, history.Plain) }},
	{"duplicate", func(t *rapid.T, h *history.History) bool { return copied(t, h, history.Idempotent) }},
	{"reordered", swapped},
	{"refused-read", func(t *rapid.T, h *history.History) bool {
		op := pick(t, h, func(op *history.Op) bool {
			return op.Kind == history.Produce && op.Outcome == history.Unknown && wasRead(h, op)
		})
		if op == nil {
			return false
		}
		op.Outcome = history.Failed
		return true
	}},
	{"unsent", func(t *rapid.T, h *history.History) bool {
		op := pick(t, h, func(op *history.Op) bool { return op.Kind == history.Read })
		if op == nil {
			return false
		}
		op.Records[len(op.Records)-1].Value = 0
		return true
	}},
	{"gap", func(t *rapid.T, h *history.History) bool {
		op := pick(t, h, func(op *history.Op) bool {
			return isRead(h, history.Tail)(op) && len(op.Records) > 1 && op.Records[0].Offset >= start(h, op.Part)
		})
		if op == nil {
			return false
		}
		op.Records = op.Records[1:]
		op.Offset, op.Count = op.Records[0].Offset, int32(len(op.Records))
		return true
	}},
	{"read-back", func(t *rapid.T, h *history.History) bool {
		op := pick(t, h, func(op *history.Op) bool { return op.Kind == history.Read })
		if op == nil {
			return false
		}
		op.Records = append(op.Records, op.Records[0])
		return true
	}},
	{"stuck", func(t *rapid.T, h *history.History) bool {
		op := pick(t, h, func(op *history.Op) bool {
			return op.Kind == history.Observe && op.Field == history.End && h.Procs[op.Proc].Role == history.Final
		})
		op.Offset += 3
		return true
	}},
	{"end-back", func(t *rapid.T, h *history.History) bool { return back(t, h, history.End) }},
	{"watermark-back", func(t *rapid.T, h *history.History) bool { return back(t, h, history.HighWatermark) }},
	{"start-back", func(t *rapid.T, h *history.History) bool { return back(t, h, history.LogStart) }},
	{"epoch-back", func(t *rapid.T, h *history.History) bool { return back(t, h, history.LeaderEpoch) }},
	{"stale-end", func(t *rapid.T, h *history.History) bool {
		acked := pick(t, h, func(op *history.Op) bool { return op.Kind == history.Produce && op.Outcome == history.OK })
		if acked == nil {
			return false
		}
		h.Procs = append(h.Procs, history.Proc{Name: "asks late", Role: history.Observer})
		from, to := acked.Complete+1, acked.Complete+2
		h.Ops = append(h.Ops, history.Op{
			Kind: history.Observe, Outcome: history.OK, Field: history.End, Proc: int32(len(h.Procs) - 1), Part: acked.Part,
			Offset: acked.Offset, Count: 1, Invoke: from, Complete: to, Last: [2]int64{from, to},
		})
		return true
	}},
	{"epoch-order", func(t *rapid.T, h *history.History) bool {
		op := pick(t, h, func(op *history.Op) bool { return isRead(h, history.Final)(op) && len(op.Records) > 1 })
		if op == nil {
			return false
		}
		last := op.Records[len(op.Records)-1]
		for i := range h.Ops {
			for j := range h.Ops[i].Records {
				if r := &h.Ops[i].Records[j]; h.Ops[i].Part == op.Part && r.Offset < last.Offset {
					r.Epoch += 100
				}
			}
		}
		return true
	}},
	{"two-epochs", func(t *rapid.T, h *history.History) bool {
		op := pick(t, h, func(op *history.Op) bool {
			return isRead(h, history.Tail)(op) && op.Records[0].Offset >= start(h, op.Part)
		})
		if op == nil {
			return false
		}
		op.Records[0].Epoch++
		return true
	}},
	{"told", func(_ *rapid.T, h *history.History) bool {
		h.Ops = append(h.Ops, history.Op{Kind: history.Note, Outcome: history.Failed, Part: -1, Text: "broker 1 ended by itself"})
		return true
	}},
}

// copied has the record of one offset also at the end of the final reading.
func copied(t *rapid.T, h *history.History, role history.Role) bool {
	from := pick(t, h, func(op *history.Op) bool {
		return op.Kind == history.Read && h.Procs[history.ProcOf(op.Records[0].Value)].Role == role
	})
	if from == nil {
		return false
	}
	for i := len(h.Ops) - 1; i >= 0; i-- {
		if op := &h.Ops[i]; isRead(h, history.Final)(op) && op.Part == from.Part {
			r := from.Records[0]
			r.Offset, r.Epoch = op.Records[len(op.Records)-1].Offset+1, 1<<20
			op.Records = append(op.Records, r)
			return true
		}
	}
	return false
}

// swapped exchanges, wherever they are read or acknowledged, two records of one
// idempotent producer.
func swapped(t *rapid.T, h *history.History) bool {
	of := func(op *history.Op) bool {
		return op.Kind == history.Produce && op.Outcome == history.OK && op.Proc == idempotentA
	}
	a := pick(t, h, of)
	b := pick(t, h, func(op *history.Op) bool { return of(op) && op.Part == a.Part && op.Value != a.Value })
	if a == nil || b == nil {
		return false
	}
	a.Offset, b.Offset = b.Offset, a.Offset
	swap := map[uint64]uint64{a.Value: b.Value, b.Value: a.Value}
	for i := range h.Ops {
		for j := range h.Ops[i].Records {
			if r := &h.Ops[i].Records[j]; swap[r.Value] != 0 {
				r.Value = swap[r.Value]
			}
		}
	}
	return true
}

func wasRead(h *history.History, sent *history.Op) bool {
	return slices.ContainsFunc(h.Ops, func(op history.Op) bool {
		return op.Part == sent.Part && slices.ContainsFunc(op.Records, func(r history.Record) bool { return r.Value == sent.Value })
	})
}

// back adds an observation below one that its process had made.
func back(t *rapid.T, h *history.History, field history.Field) bool {
	seen := pick(t, h, func(op *history.Op) bool { return op.Kind == history.Observe && op.Field == field && op.Offset > 0 })
	if seen == nil {
		return false
	}
	last := h.Ops[len(h.Ops)-1].Complete
	lower := *seen
	lower.Offset, lower.Invoke, lower.Complete, lower.Last = seen.Offset-1, last+1, last+2, [2]int64{last + 1, last + 2}
	h.Ops = append(h.Ops, lower)
	return true
}

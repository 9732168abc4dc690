package checker

import (
	"slices"

	"pgregory.net/rapid"

	"kaas.dev/kaas/tools/kaas-check/history"
)

// model makes histories that are correct by construction: one log for each partition, and
// processes that act on it one step at a time. An operation takes effect at an
// instant between its beginning and its end; one of unknown outcome at any time, or never.
type model struct {
	t     *rapid.T
	h     *history.History
	now   int64
	epoch int32
	logs  [][]history.Record
	start []int64
	count map[int32]int64
	next  map[[2]int32]int64 // by reader and partition
	late  []late
}

// late is a record of unknown outcome that may still come into the log.
type late struct {
	part  int32
	value uint64
}

const (
	nemesisProc = iota
	idempotentA
	idempotentB
	plainA
	plainB
	tailProc
	observerA
	observerB
	firstReread
)

const modelParts = 2

func newModel(t *rapid.T) *model {
	m := &model{t: t, count: map[int32]int64{}, next: map[[2]int32]int64{}, logs: make([][]history.Record, modelParts), start: make([]int64, modelParts)}
	m.h = &history.History{Procs: []history.Proc{
		{Name: "nemesis"}, {Name: "idempotent A", Role: history.Idempotent}, {Name: "idempotent B", Role: history.Idempotent},
		{Name: "plain A", Role: history.Plain}, {Name: "plain B", Role: history.Plain}, {Name: "tail", Role: history.Tail},
		{Name: "observer A", Role: history.Observer}, {Name: "observer B", Role: history.Observer},
	}, Logs: make([][]history.Record, modelParts)}
	for i := range modelParts {
		m.h.Parts = append(m.h.Parts, history.Part{Topic: "t", Index: int32(i)})
	}
	return m
}

func (m *model) tick() int64 { m.now += int64(rapid.IntRange(1, 5).Draw(m.t, "time")); return m.now }

func (m *model) add(op history.Op) { m.h.Ops = append(m.h.Ops, op) }

func (m *model) append(part int32, value uint64) int64 {
	offset := int64(len(m.logs[part]))
	m.logs[part] = append(m.logs[part], history.Record{Offset: offset, Value: value, Epoch: m.epoch})
	return offset
}

// produce is one record of a producer.
func (m *model) produce(proc, part int32) {
	m.count[proc]++
	op := history.Op{Kind: history.Produce, Proc: proc, Part: part, Value: history.Value(proc, m.count[proc]), Epoch: -1, Offset: -1, Invoke: m.tick()}
	what := rapid.IntRange(0, 9).Draw(m.t, "outcome")
	if proc <= idempotentB {
		what = min(what, 6)
	}
	switch {
	case what <= 6:
		op.Outcome, op.Offset = history.OK, m.append(part, op.Value)
	case what == 7:
		op.Outcome = history.Failed
	case what == 8:
		op.Outcome = history.Unknown
		m.late = append(m.late, late{part, op.Value})
	default:
		op.Outcome = history.Unknown
		m.append(part, op.Value)
	}
	op.Complete = m.tick()
	m.add(op)
}

// read has a reader take some records from where it is.
func (m *model) read(proc, part int32, most int) {
	key := [2]int32{proc, part}
	from := max(m.next[key], m.start[part])
	to := min(int64(len(m.logs[part])), from+int64(most))
	if from >= to {
		return
	}
	m.next[key] = to
	recs := slices.Clone(m.logs[part][from:to])
	op := history.Op{Kind: history.Read, Outcome: history.OK, Proc: proc, Part: part, Epoch: -1, Count: int32(len(recs)), Offset: from, Invoke: m.tick(), Complete: m.tick(), Records: recs}
	l := &m.h.Logs[part]
	for int64(len(*l)) < to {
		*l = append(*l, history.Record{Offset: int64(len(*l)), Epoch: -2})
	}
	for _, r := range recs {
		(*l)[r.Offset] = r
	}
	if rapid.Bool().Draw(m.t, "as a range") {
		op.Records = nil
	}
	m.add(op)
}

func (m *model) observe(proc, part int32, field history.Field) {
	op := history.Op{Kind: history.Observe, Outcome: history.OK, Field: field, Proc: proc, Part: part, Epoch: m.epoch, Count: 1, Invoke: m.tick()}
	switch field {
	case history.End, history.HighWatermark:
		op.Offset = int64(len(m.logs[part]))
	case history.LogStart:
		op.Offset = m.start[part]
	case history.LeaderEpoch:
		op.Offset = int64(m.epoch)
	}
	op.Complete = m.tick()
	op.Last = [2]int64{op.Invoke, op.Complete}
	m.add(op)
}

// step does one thing.
func (m *model) step() {
	part := int32(rapid.IntRange(0, modelParts-1).Draw(m.t, "partition"))
	switch rapid.IntRange(0, 9).Draw(m.t, "step") {
	case 0, 1, 2, 3:
		m.produce(int32(rapid.IntRange(idempotentA, plainB).Draw(m.t, "producer")), part)
	case 4, 5:
		m.read(tailProc, part, rapid.IntRange(1, 4).Draw(m.t, "records"))
	case 6:
		m.observe(int32(rapid.IntRange(observerA, observerB).Draw(m.t, "observer")), part, history.Field(rapid.IntRange(1, 4).Draw(m.t, "field")))
	case 7:
		m.h.Procs = append(m.h.Procs, history.Proc{Name: "re-reader", Role: history.Reread})
		m.read(int32(len(m.h.Procs)-1), part, rapid.IntRange(1, 10).Draw(m.t, "records"))
	case 8:
		m.epoch++
		if len(m.late) > 0 && rapid.Bool().Draw(m.t, "late") {
			m.append(m.late[0].part, m.late[0].value)
			m.late = m.late[1:]
		}
	case 9:
		if n := int64(len(m.logs[part])); rapid.IntRange(0, 3).Draw(m.t, "trim") == 0 {
			m.start[part] = max(m.start[part], rapid.Int64Range(0, n).Draw(m.t, "to"))
			m.observe(observerA, part, history.LogStart)
		}
	}
}

// finish reads all to the end.
func (m *model) finish() {
	m.h.Procs = append(m.h.Procs, history.Proc{Name: "final", Role: history.Final})
	final := int32(len(m.h.Procs) - 1)
	for part := range int32(modelParts) {
		m.observe(final, part, history.LogStart)
		m.observe(final, part, history.End)
		for range 1000 {
			m.read(final, part, 3)
			m.read(tailProc, part, 5)
		}
	}
}

// correct makes a whole history.
func correct(t *rapid.T) *history.History {
	m := newModel(t)
	for range rapid.IntRange(5, 60).Draw(t, "steps") {
		m.step()
	}
	m.finish()
	return m.h
}

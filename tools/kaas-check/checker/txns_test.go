package checker

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"kaas.dev/kaas/tools/kaas-check/history"
)

// The processes of histories of transactions. a1 and a2 have one transactional ID.
const (
	txnNobody = iota
	txnFinal
	txnFinalCommitted
	txnTail // of committed records
	txnObserver
	txnA1
	txnA2
	txnB
	txnPlain
	txnCopier
	txnCopierAfter
	txnGroupObserver
)

const txnParts = 2

// txnHistory is one of two partitions.
func txnHistory(ops ...history.Op) *history.History {
	h := &history.History{
		Procs: []history.Proc{
			{Name: "nobody"}, {Name: "final", Role: history.Final}, {Name: "final of committed", Role: history.Final, Committed: true},
			{Name: "tail", Role: history.Tail, Committed: true}, {Name: "observer", Role: history.Observer},
			{Name: "a, client 1", Role: history.Transactional, TxnID: "a"}, {Name: "a, client 2", Role: history.Transactional, TxnID: "a"},
			{Name: "b, client 1", Role: history.Transactional, TxnID: "b"}, {Name: "plain", Role: history.Plain},
			{Name: "copier", Role: history.Transactional, TxnID: "c", Group: 1}, {Name: "copier again", Role: history.Transactional, TxnID: "c", Group: 1},
			{Name: "observer of the group", Role: history.Observer, Group: 1},
		},
		Groups: []history.Group{{}, {Name: "g", Committed: true}},
		Parts:  []history.Part{{Topic: "t"}, {Topic: "t", Index: 1}}, Logs: make([][]history.Record, txnParts), Ops: ops,
	}
	return h
}

// entry is a place of the log: a record of a transaction, or of none, or a marker.
type entry struct {
	value uint64
	txn   int32
}

// txnModel has everything right by construction: logs, transactions that go on and end, a
// producer that is fenced, readers of both kinds.
type txnModel struct {
	t      *rapid.T
	now    int64
	ops    []history.Op
	logs   [txnParts][]entry
	open   map[int32]*openTxn // by producer
	ended  map[int32]bool     // committed or not, by transaction
	txns   int32
	sent   map[int32]int64
	epoch  map[int32]int32 // of each producer; what has none is not there
	next   map[[2]int32]int64
	fenced bool // a1
}

type openTxn struct {
	number int32
	parts  [txnParts]int64 // where it begins, or -1
}

func newTxnModel(t *rapid.T) *txnModel {
	m := &txnModel{t: t, open: map[int32]*openTxn{}, ended: map[int32]bool{}, sent: map[int32]int64{}, epoch: map[int32]int32{}, next: map[[2]int32]int64{}}
	m.init(txnA1, 7, 0)
	m.init(txnB, 8, 0)
	return m
}

func (m *txnModel) tick() int64 {
	m.now += int64(rapid.IntRange(1, 5).Draw(m.t, "time"))
	return m.now
}

func (m *txnModel) add(op history.Op) { m.ops = append(m.ops, op) }

func (m *txnModel) init(proc int32, id uint64, epoch int32) {
	m.epoch[proc] = epoch
	m.add(history.Op{Kind: history.Init, Outcome: ok, Proc: proc, Part: -1, Epoch: epoch, Offset: -1, Value: id, Invoke: m.tick(), Complete: m.tick()})
}

func (m *txnModel) append(part int32, e entry) int64 {
	m.logs[part] = append(m.logs[part], e)
	return int64(len(m.logs[part]) - 1)
}

// write is a record, in a transaction or not.
func (m *txnModel) write(proc, part int32) {
	m.sent[proc]++
	op := history.Op{Kind: history.Produce, Outcome: ok, Proc: proc, Part: part, Value: history.Value(proc, m.sent[proc]), Epoch: -1, Invoke: m.tick()}
	if proc != txnPlain {
		x := m.open[proc]
		if x == nil {
			m.txns++
			x = &openTxn{m.txns, [txnParts]int64{-1, -1}}
			m.open[proc] = x
		}
		op.Txn = x.number
		if x.parts[part] < 0 {
			x.parts[part] = int64(len(m.logs[part]))
		}
	}
	if proc == txnA1 && m.fenced {
		op.Outcome, op.Offset = failed, -1
	} else {
		op.Offset = m.append(part, entry{op.Value, op.Txn})
	}
	op.Complete = m.tick()
	m.add(op)
}

// end is the end of a producer's transaction, if it has one.
func (m *txnModel) end(proc int32) {
	x := m.open[proc]
	if x == nil {
		return
	}
	outcome := rapid.SampledFrom([]history.Outcome{ok, ok, failed, unknown}).Draw(m.t, "outcome")
	commit := outcome == ok || outcome == unknown && rapid.Bool().Draw(m.t, "committed")
	if proc == txnA1 && m.fenced {
		outcome, commit = rapid.SampledFrom([]history.Outcome{failed, unknown}).Draw(m.t, "outcome of a zombie"), false
	}
	invoke := m.tick()
	m.over(proc, commit)
	m.add(history.Op{Kind: history.TxnEnd, Outcome: outcome, Proc: proc, Part: -1, Txn: x.number, Epoch: -1, Offset: -1, Invoke: invoke, Complete: m.tick()})
}

// over puts the markers into the log.
func (m *txnModel) over(proc int32, commit bool) {
	x := m.open[proc]
	delete(m.open, proc)
	m.ended[x.number] = commit
	for part, from := range x.parts {
		if from >= 0 && !(proc == txnA1 && m.fenced) {
			m.append(int32(part), entry{history.Marker(int64(proc), int16(m.txns), commit), 0})
		}
	}
}

// fence gives a's transactional ID to another client.
func (m *txnModel) fence() {
	if m.fenced {
		return
	}
	invoke := m.tick()
	if x := m.open[txnA1]; x != nil {
		m.over(txnA1, false)
		m.add(history.Op{Kind: history.TxnEnd, Outcome: failed, Proc: txnA1, Part: -1, Txn: x.number, Epoch: -1, Offset: -1, Invoke: m.tick(), Complete: m.tick()})
	}
	m.fenced = true
	m.init(txnA2, 7, 1)
	m.ops[len(m.ops)-1].Invoke = invoke
}

func (m *txnModel) stable(part int32) int64 {
	at := int64(len(m.logs[part]))
	for _, x := range m.open {
		if x.parts[part] >= 0 {
			at = min(at, x.parts[part])
		}
	}
	return at
}

// read has a reader take what it may see.
func (m *txnModel) read(proc, part int32, most int64) {
	key := [2]int32{proc, part}
	to, committed := int64(len(m.logs[part])), proc != txnFinal
	if committed {
		to = m.stable(part)
	}
	to = min(to, m.next[key]+most)
	var recs []history.Record
	for offset := m.next[key]; offset < to; offset++ {
		if e := m.logs[part][offset]; !committed || e.txn == 0 || m.ended[e.txn] {
			recs = append(recs, history.Record{Offset: offset, Value: e.value})
		}
	}
	m.next[key] = max(to, m.next[key])
	if len(recs) > 0 {
		m.add(history.Op{Kind: history.Read, Outcome: ok, Proc: proc, Part: part, Count: int32(len(recs)), Offset: recs[0].Offset, Records: recs, Invoke: m.tick(), Complete: m.tick()})
	}
}

func (m *txnModel) observe(proc, part int32, field history.Field) {
	op := history.Op{Kind: history.Observe, Outcome: ok, Field: field, Proc: proc, Part: part, Count: 1, Offset: m.stable(part), Invoke: m.tick(), Complete: m.tick()}
	if field == history.End {
		op.Offset = int64(len(m.logs[part]))
	}
	op.Last = [2]int64{op.Invoke, op.Complete}
	m.add(op)
}

func (m *txnModel) step() {
	part := rapid.Int32Range(0, txnParts-1).Draw(m.t, "partition")
	producers := []int32{txnA1, txnB}
	if m.fenced {
		producers = append(producers, txnA2)
	}
	proc := rapid.SampledFrom(producers).Draw(m.t, "producer")
	switch rapid.IntRange(0, 11).Draw(m.t, "step") {
	case 0, 1, 2, 3, 4:
		m.write(proc, part)
	case 5, 6:
		m.end(proc)
	case 7:
		m.write(txnPlain, part)
	case 8, 9:
		m.read(txnTail, part, rapid.Int64Range(1, 5).Draw(m.t, "records"))
	case 10:
		m.observe(txnObserver, part, rapid.SampledFrom([]history.Field{history.Stable, history.End}).Draw(m.t, "field"))
	case 11:
		if rapid.IntRange(0, 3).Draw(m.t, "take over") == 0 {
			m.fence()
		}
	}
}

func correctTxns(t *rapid.T) *history.History {
	m := newTxnModel(t)
	for range rapid.IntRange(5, 60).Draw(t, "steps") {
		m.step()
	}
	for _, proc := range []int32{txnA1, txnA2, txnB} {
		m.end(proc)
	}
	for part := range int32(txnParts) {
		m.observe(txnFinal, part, history.End)
		m.observe(txnFinalCommitted, part, history.Stable)
		for _, reader := range []int32{txnFinal, txnFinalCommitted, txnTail} {
			for range 200 {
				m.read(reader, part, 3)
			}
		}
	}
	return txnHistory(m.ops...)
}

func TestCorrectTransactionsPass(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := correctTxns(t)
		if rep := Check(h); rep.Total() > 0 || len(rep.NotFinal) > 0 {
			tell(t, h, rep)
			t.Fatal("a correct history does not pass")
		}
	})
}

// Every mutation of correct transactions is found, under its name.
func TestMutatedTransactionsAreCaught(t *testing.T) { areCaught(t, txnMutations, correctTxns) }

// written is whether a transaction has records in the log, from a least number on.
func written(h *history.History, txn int32, least int) bool {
	n := 0
	for i := range h.Ops {
		if op := &h.Ops[i]; op.Kind == history.Produce && op.Txn == txn && op.Outcome == ok {
			n++
		}
	}
	return n >= least
}

func isEnd(h *history.History, outcome history.Outcome, least int) func(*history.Op) bool {
	return func(op *history.Op) bool {
		return op.Kind == history.TxnEnd && op.Outcome == outcome && written(h, op.Txn, least)
	}
}

// isFenced is whether the process of an operation was fenced at any time.
func isFenced(h *history.History, op *history.Op) bool {
	_, ok := fencesOf(h)[op.Proc]
	return ok
}

// strikeCommitted takes a record out of what readers of committed records got.
func strikeCommitted(h *history.History, sent *history.Op) {
	for i := range h.Ops {
		if op := &h.Ops[i]; op.Kind == history.Read && op.Part == sent.Part && h.Procs[op.Proc].Committed {
			op.Records = slices.DeleteFunc(op.Records, func(r history.Record) bool { return r.Value == sent.Value })
		}
	}
	h.Ops = slices.DeleteFunc(h.Ops, func(op history.Op) bool { return op.Kind == history.Read && len(op.Records) == 0 })
	for i := range h.Ops {
		if op := &h.Ops[i]; op.Kind == history.Read {
			op.Offset = op.Records[0].Offset
		}
	}
}

var txnMutations = []mutation{
	{"aborted-read", func(t *rapid.T, h *history.History) bool {
		op := pick(t, h, isEnd(h, ok, 1))
		if op != nil {
			op.Outcome = failed
		}
		return op != nil
	}},
	{"hidden", func(t *rapid.T, h *history.History) bool {
		op := pick(t, h, func(op *history.Op) bool { return isEnd(h, failed, 1)(op) && !isFenced(h, op) })
		if op != nil {
			op.Outcome = ok
		}
		return op != nil
	}},
	{"torn", func(t *rapid.T, h *history.History) bool {
		op := pick(t, h, isEnd(h, ok, 2))
		if op == nil {
			return false
		}
		op.Outcome = unknown
		strikeCommitted(h, pick(t, h, func(sent *history.Op) bool { return sent.Kind == history.Produce && sent.Txn == op.Txn }))
		return true
	}},
	{"early-read", func(t *rapid.T, h *history.History) bool {
		op := pick(t, h, func(op *history.Op) bool { return isEnd(h, ok, 1)(op) && !isFenced(h, op) })
		if op == nil {
			return false
		}
		op.Invoke, op.Complete = 1<<40, 1<<40+1
		return true
	}},
	{"gap", func(t *rapid.T, h *history.History) bool {
		op := pick(t, h, func(op *history.Op) bool { return op.Kind == history.Produce && op.Proc == txnPlain })
		if op == nil {
			return false
		}
		strikeCommitted(h, op)
		return slices.ContainsFunc(h.Ops, func(r history.Op) bool { // something comes after it
			return r.Kind == history.Read && r.Proc == txnTail && r.Part == op.Part && r.Records[len(r.Records)-1].Offset > op.Offset
		})
	}},
	{"open", func(t *rapid.T, h *history.History) bool {
		op := pick(t, h, func(op *history.Op) bool {
			return op.Kind == history.Observe && op.Proc == txnFinalCommitted && op.Offset > 0
		})
		if op != nil {
			op.Offset--
		}
		return op != nil
	}},
	{"stuck", func(_ *rapid.T, h *history.History) bool { // the last that a reader of committed records got
		for i := len(h.Ops) - 1; i >= 0; i-- {
			if op := &h.Ops[i]; op.Kind == history.Read && op.Proc == txnTail {
				h.Ops = slices.Delete(h.Ops, i, i+1)
				return true
			}
		}
		return false
	}},
	{"stable-back", func(t *rapid.T, h *history.History) bool { return back(t, h, history.Stable) }},
	{"stale-stable", func(t *rapid.T, h *history.History) bool { // asked for after it was read
		read := pick(t, h, func(op *history.Op) bool { return op.Kind == history.Read && h.Procs[op.Proc].Committed })
		if read == nil {
			return false
		}
		h.Procs = append(h.Procs, history.Proc{Name: "asks late", Role: history.Observer})
		from := read.Complete + 1
		h.Ops = append(h.Ops, history.Op{
			Kind: history.Observe, Outcome: ok, Field: history.Stable, Proc: int32(len(h.Procs) - 1), Part: read.Part,
			Offset: h.ReadTo(read) - 1, Count: 1, Invoke: from, Complete: from + 1, Last: [2]int64{from, from + 1},
		})
		return true
	}},
	{"stale-end", func(t *rapid.T, h *history.History) bool { // less than the last stable offset was
		seen := pick(t, h, func(op *history.Op) bool {
			return op.Kind == history.Observe && op.Field == history.Stable && op.Offset > 0
		})
		if seen == nil {
			return false
		}
		h.Procs = append(h.Procs, history.Proc{Name: "asks late", Role: history.Observer})
		late := *seen
		late.Proc, late.Field, late.Offset, late.Last = int32(len(h.Procs)-1), history.End, seen.Offset-1, [2]int64{seen.Complete + 1, seen.Complete + 2}
		h.Ops = append(h.Ops, late)
		return true
	}},
	{"fenced-write", func(t *rapid.T, h *history.History) bool {
		op := pick(t, h, func(op *history.Op) bool { return op.Kind == history.Produce && op.Outcome == failed })
		if op != nil {
			op.Outcome, op.Offset = ok, 1000
		}
		return op != nil
	}},
	{"fenced-commit", func(t *rapid.T, h *history.History) bool { return zombieEnds(t, h, ok) }},
	{"epoch-reused", func(t *rapid.T, h *history.History) bool {
		op := pick(t, h, func(op *history.Op) bool { return op.Kind == history.Init && op.Proc == txnA2 })
		if op != nil {
			op.Epoch = 0
		}
		return op != nil
	}},
	{"id-forgotten", func(t *rapid.T, h *history.History) bool {
		op := pick(t, h, func(op *history.Op) bool { return op.Kind == history.Init && op.Proc == txnA2 })
		if op != nil {
			op.Value = 99
		}
		return op != nil
	}},
	{"id-reused", func(t *rapid.T, h *history.History) bool {
		pick(t, h, func(op *history.Op) bool { return op.Kind == history.Init && op.Proc == txnB }).Value = 7
		return true
	}},
}

func zombieEnds(t *rapid.T, h *history.History, as history.Outcome) bool {
	op := pick(t, h, func(op *history.Op) bool {
		f, zombie := fencesOf(h)[op.Proc]
		return op.Kind == history.TxnEnd && zombie && op.Invoke > h.Ops[f].Complete
	})
	if op != nil {
		op.Outcome = as
	}
	return op != nil
}

// A zombie's records count as aborted, whatever it was told: readers must not have got them.
func TestRecordsOfAZombieAreNotRead(t *testing.T) {
	value := history.Value(txnA1, 1)
	rec := []history.Record{{Value: value}}
	for _, tc := range []struct {
		asked int64 // when the zombie asked for the end
		want  string
	}{{9, ""}, {21, "aborted-read"}} {
		h := txnHistory(
			history.Op{Kind: history.Init, Outcome: ok, Proc: txnA1, Part: -1, Value: 7, Invoke: 1, Complete: 2},
			history.Op{Kind: history.Produce, Outcome: unknown, Proc: txnA1, Txn: 1, Value: value, Offset: -1, Invoke: 3, Complete: 4},
			history.Op{Kind: history.Init, Outcome: ok, Proc: txnA2, Part: -1, Value: 7, Epoch: 1, Invoke: 10, Complete: 20},
			history.Op{Kind: history.TxnEnd, Outcome: unknown, Proc: txnA1, Part: -1, Txn: 1, Invoke: tc.asked, Complete: 40},
			history.Op{Kind: history.Read, Outcome: ok, Proc: txnTail, Count: 1, Records: rec, Invoke: 50, Complete: 51},
		)
		if got := found(Check(h)); got != tc.want {
			t.Errorf("asked at %d: found %q, want %q", tc.asked, got, tc.want)
		}
	}
}

func found(rep *Report) string { return strings.Join(slices.Sorted(maps.Keys(rep.Count)), " ") }

func processedIn(proc int32, txn int32, at, from, to int64) history.Op {
	op := processed(proc, at, from, to)
	op.Txn = txn
	return op
}

// copyEnd is the end of a copier's transaction, its one record at an offset of the other
// partition, and what it commits.
func copyEnd(proc, txn int32, at, upTo, offset int64, outcome history.Outcome) []history.Op {
	c := committed(proc, at, upTo, -1, outcome)
	c.Txn = txn
	return []history.Op{
		{Kind: history.Produce, Outcome: ok, Proc: proc, Part: 1, Txn: txn, Value: history.Value(proc, int64(txn)), Offset: offset, Invoke: at - 1, Complete: at},
		{Kind: history.TxnEnd, Outcome: outcome, Proc: proc, Part: -1, Txn: txn, Offset: -1, Invoke: at, Complete: at + 1}, c,
	}
}

// What copiers process counts as their transactions do; and those of unknown outcome as their
// records do.
func TestCopies(t *testing.T) {
	// Partition 0 has a plain record, one that was aborted, its marker, and another plain one.
	source := []uint64{history.Value(txnPlain, 1), history.Value(txnB, 1), history.Marker(8, 0, false), history.Value(txnPlain, 2)}
	base := []history.Op{
		{Kind: history.Produce, Outcome: ok, Proc: txnPlain, Value: source[0], Offset: 0, Complete: 1},
		{Kind: history.Produce, Outcome: ok, Proc: txnB, Txn: 50, Value: source[1], Offset: 1, Invoke: 1, Complete: 2},
		{Kind: history.TxnEnd, Outcome: failed, Proc: txnB, Part: -1, Txn: 50, Invoke: 3, Complete: 4},
		{Kind: history.Produce, Outcome: ok, Proc: txnPlain, Value: source[3], Offset: 3, Invoke: 4, Complete: 5},
		{Kind: history.Observe, Outcome: ok, Field: history.End, Proc: txnFinal, Offset: 4, Count: 1, Invoke: 900, Complete: 901, Last: [2]int64{900, 901}},
		{Kind: history.Read, Outcome: ok, Proc: txnFinal, Count: 4, Invoke: 902, Complete: 903},
	}
	for i, v := range source {
		base[5].Records = append(base[5].Records, history.Record{Offset: int64(i), Value: v})
	}
	for _, tc := range []struct {
		name  string
		ops   []history.Op
		shown map[int64]bool // offsets of the copies that a reader of committed records got, or passed over
		want  string
	}{
		{"all at once", slices.Concat([]history.Op{processedIn(txnCopier, 1, 10, 0, 1), processedIn(txnCopier, 1, 10, 2, 4)}, copyEnd(txnCopier, 1, 12, 4, 0, ok)), nil, ""},
		{"once more after an abort", slices.Concat([]history.Op{processedIn(txnCopier, 1, 10, 0, 1)}, copyEnd(txnCopier, 1, 12, 1, 0, failed),
			[]history.Op{processedIn(txnCopier, 2, 20, 0, 1), processedIn(txnCopier, 2, 20, 2, 4)}, copyEnd(txnCopier, 2, 22, 4, 1, ok)), nil, ""},
		{"not again after an abort", slices.Concat([]history.Op{processedIn(txnCopier, 1, 10, 0, 1)}, copyEnd(txnCopier, 1, 12, 1, 0, failed),
			[]history.Op{processedIn(txnCopier, 2, 20, 2, 4)}, copyEnd(txnCopier, 2, 22, 4, 1, ok)), nil, "skipped"},
		{"again after a commit", slices.Concat([]history.Op{processedIn(txnCopier, 1, 10, 0, 1)}, copyEnd(txnCopier, 1, 12, 1, 0, ok),
			[]history.Op{processedIn(txnCopierAfter, 2, 20, 0, 1), processedIn(txnCopierAfter, 2, 20, 2, 4)}, copyEnd(txnCopierAfter, 2, 22, 4, 1, ok)), nil, "copied-twice"},
		{"again after it is not known", slices.Concat([]history.Op{processedIn(txnCopier, 1, 10, 0, 1)}, copyEnd(txnCopier, 1, 12, 1, 0, unknown),
			[]history.Op{processedIn(txnCopierAfter, 2, 20, 0, 1), processedIn(txnCopierAfter, 2, 20, 2, 4)}, copyEnd(txnCopierAfter, 2, 22, 4, 1, ok)), map[int64]bool{0: false, 1: true}, ""},
		{"again after it is not known, but seen", slices.Concat([]history.Op{processedIn(txnCopier, 1, 10, 0, 1)}, copyEnd(txnCopier, 1, 12, 1, 0, unknown),
			[]history.Op{processedIn(txnCopierAfter, 2, 20, 0, 1), processedIn(txnCopierAfter, 2, 20, 2, 4)}, copyEnd(txnCopierAfter, 2, 22, 4, 1, ok)), map[int64]bool{0: true, 1: true}, "copied-twice"},
		{"not again after it is not known, and not seen", slices.Concat([]history.Op{processedIn(txnCopier, 1, 10, 0, 1)}, copyEnd(txnCopier, 1, 12, 1, 0, unknown),
			[]history.Op{processedIn(txnCopierAfter, 2, 20, 2, 4)}, copyEnd(txnCopierAfter, 2, 22, 4, 1, ok)), map[int64]bool{0: false, 1: true}, "skipped"},
		{"what was aborted is told as committed", slices.Concat([]history.Op{processedIn(txnCopier, 1, 10, 0, 1), processedIn(txnCopier, 1, 10, 2, 4)}, copyEnd(txnCopier, 1, 12, 4, 0, ok),
			copyEnd(txnCopier, 2, 16, 7, 1, failed), []history.Op{groupTold(20, 7)}), nil, "commit-unmade"},
		{"what was not known and not seen is told as committed", slices.Concat([]history.Op{processedIn(txnCopier, 1, 10, 0, 1), processedIn(txnCopier, 1, 10, 2, 4)}, copyEnd(txnCopier, 1, 12, 4, 0, ok),
			copyEnd(txnCopier, 2, 16, 7, 1, unknown), copyEnd(txnCopier, 3, 18, 4, 2, ok), []history.Op{groupTold(22, 7)}), map[int64]bool{0: true, 1: false, 2: true}, "commit-unmade"},
		{"what was committed is not told", slices.Concat([]history.Op{processedIn(txnCopier, 1, 10, 0, 1), processedIn(txnCopier, 1, 10, 2, 4)}, copyEnd(txnCopier, 1, 12, 4, 0, ok),
			[]history.Op{groupTold(20, -1)}), nil, "commit-gone"},
	} {
		h := txnHistory(append(slices.Clone(base), tc.ops...)...)
		h.Groups[1].Topics = []string{"t"}
		h.Parts[1].Topic = "copies"
		var recs []history.Record
		for offset := range int64(len(tc.shown)) {
			if tc.shown[offset] {
				for i := range h.Ops {
					if op := &h.Ops[i]; op.Part == 1 && op.Kind == history.Produce && op.Offset == offset {
						recs = append(recs, history.Record{Offset: offset, Value: op.Value})
					}
				}
			}
		}
		if len(recs) > 0 {
			h.Ops = append(h.Ops, history.Op{Kind: history.Read, Outcome: ok, Proc: txnTail, Part: 1, Count: int32(len(recs)), Offset: recs[0].Offset, Records: recs, Invoke: 800, Complete: 801})
		}
		rep := Check(h)
		if got := found(rep); got != tc.want {
			t.Errorf("%s: found %q, want %q", tc.name, got, tc.want)
			for _, v := range rep.Violations {
				t.Log(v.Text)
			}
		}
	}
}

func groupTold(at, offset int64) history.Op {
	op := told(at, offset)
	op.Proc = txnGroupObserver
	return op
}

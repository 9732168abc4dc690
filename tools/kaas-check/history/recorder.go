package history

import (
	"sync"
	"time"
)

// Recorder takes down what many processes do at once.
type Recorder struct {
	began time.Time
	mu    struct {
		sync.Mutex
		h    History
		runs map[runKey]int // the newest Observe of each process, partition and field
		txns int32
	}
}

type runKey struct {
	proc, part int32
	field      Field
}

// NewRecorder begins a history now.
func NewRecorder(seed int64, plan []string) *Recorder {
	r := &Recorder{began: time.Now()}
	r.mu.h = History{Version: version, Seed: seed, Began: r.began.Format(time.RFC3339), Plan: plan}
	r.mu.h.Procs = []Proc{{Name: "nobody"}} // so that no value is 0
	r.mu.h.Groups = make([]Group, 1)
	r.mu.runs = map[runKey]int{}
	return r
}

// Now is the time of the run.
func (r *Recorder) Now() int64 { return int64(time.Since(r.began)) }

// At is the time of the run at a time, such as another process of this host has told.
func (r *Recorder) At(t time.Time) int64 { return int64(t.Sub(r.began)) }

// Proc adds a process.
func (r *Recorder) Proc(name string, role Role) int32 { return r.ProcOf(0, name, role) }

// Group adds a consumer group.
func (r *Recorder) Group(g Group) int32 {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.h.Groups = append(r.mu.h.Groups, g)
	return int32(len(r.mu.h.Groups) - 1)
}

// ProcOf adds a process that has to do with a group.
func (r *Recorder) ProcOf(group int32, name string, role Role) int32 {
	return r.Join(Proc{Name: name, Role: role, Group: group})
}

// Join adds a process of any kind.
func (r *Recorder) Join(p Proc) int32 {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.h.Procs = append(r.mu.h.Procs, p)
	return int32(len(r.mu.h.Procs) - 1)
}

// Part adds a partition, or finds it.
func (r *Recorder) Part(p Part) int32 {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, have := range r.mu.h.Parts {
		if have == p {
			return int32(i)
		}
	}
	r.mu.h.Parts = append(r.mu.h.Parts, p)
	r.mu.h.Logs = append(r.mu.h.Logs, nil)
	return int32(len(r.mu.h.Parts) - 1)
}

// Add takes an operation that is neither a Read nor an Observe.
func (r *Recorder) Add(op Op) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.h.Ops = append(r.mu.h.Ops, op)
}

// Note takes down what somebody was told; with failed it is a violation by itself.
func (r *Recorder) Note(proc, part int32, outcome Outcome, text string) {
	now := r.Now()
	r.Add(Op{Kind: Note, Outcome: outcome, Proc: proc, Part: part, Epoch: -1, Offset: -1, Invoke: now, Complete: now, Text: text})
}

// Read takes the records of one poll of one partition, in the order they came. The
// recorder keeps recs.
func (r *Recorder) Read(proc, part int32, invoke int64, recs []Record) {
	if len(recs) == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	op := Op{Kind: Read, Outcome: OK, Proc: proc, Part: part, Epoch: -1, Count: int32(len(recs)), Invoke: invoke, Complete: r.Now(), Offset: recs[0].Offset}
	same := true
	for i, rec := range recs {
		same = r.see(part, rec) && rec.Offset == op.Offset+int64(i) && same
	}
	if !same {
		op.Records = recs
	}
	r.mu.h.Ops = append(r.mu.h.Ops, op)
}

// mostOffset bounds a Log: a partition of a run has far fewer records.
const mostOffset = 1 << 26

// see puts a record into the Log where nothing is, and reports whether it is there.
func (r *Recorder) see(part int32, rec Record) bool {
	if rec.Offset < 0 || rec.Offset >= mostOffset {
		return false
	}
	l := r.mu.h.Logs[part]
	for int64(len(l)) <= rec.Offset {
		l = append(l, Record{Offset: int64(len(l)), Epoch: unseen})
	}
	r.mu.h.Logs[part] = l
	if l[rec.Offset].Epoch == unseen {
		l[rec.Offset] = rec
	}
	return l[rec.Offset] == rec
}

// Observe takes a number that was asked for from invoke on.
func (r *Recorder) Observe(proc, part int32, field Field, value int64, epoch int32, invoke int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now, key := r.Now(), runKey{proc, part, field}
	if i, ok := r.mu.runs[key]; ok {
		if op := &r.mu.h.Ops[i]; op.Offset == value && op.Epoch == epoch {
			op.Last, op.Count = [2]int64{invoke, now}, op.Count+1
			return
		}
	}
	r.mu.runs[key] = len(r.mu.h.Ops)
	r.mu.h.Ops = append(r.mu.h.Ops, Op{
		Kind: Observe, Outcome: OK, Field: field, Proc: proc, Part: part, Epoch: epoch, Count: 1,
		Invoke: invoke, Complete: now, Last: [2]int64{invoke, now}, Offset: value,
	})
}

// History is all that was taken so far. The recorder is not used after it.
func (r *Recorder) History() *History {
	r.mu.Lock()
	defer r.mu.Unlock()
	return &r.mu.h
}

// Ops is how many operations were taken so far.
func (r *Recorder) Ops() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.mu.h.Ops)
}

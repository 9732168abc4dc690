// Package history holds what a run of kaas-check did and saw.
//
// # Format
//
// An Op is one operation with the times at which it was begun and ended, in
// nanoseconds of the run's monotonic clock. A record's value is a number that is sent
// once in a run: the process in its high 24 bits, a count from 1 in its low 40.
//
// Most of what is read was read before. So the history keeps, for each partition, the
// record that was first seen at each offset (Log), and a Read whose records are all as in
// the Log is only a range of it. A Read that differs carries its own records. Equal
// observations that one process makes in a row are one Op with a count. Neither loses
// anything that the checker wants.
//
// A member of a consumer group is a process from its joining to its end; one that comes back
// is another. What it processes is told as ranges of offsets (Process): what the records are
// the readers tell.
//
// A transaction has a number of its own in the history, which its records, its offsets and its
// end name. Readers keep the markers of transactions, as records with the value Marker.
//
// A file is one zstd frame around the msgpack form of a History, structs as arrays
// (Write, Load).
package history

import "fmt"

// Kind is what an operation is.
type Kind uint8

// The kinds of operations.
const (
	Produce Kind = iota + 1 // one record was sent
	Read                    // records were got from one partition by one poll
	Observe                 // a number was asked for
	Fault                   // the cluster was troubled, or helped
	Note                    // somebody was told something; never good where it failed
	Process                 // a member processed records one after the other
	Commit                  // a member committed an offset
	Own                     // a member had a partition: OK until it gave it up, Unknown until it was told that it had lost it
	Init                    // a transactional ID was asked for its producer, which fences all before it
	TxnEnd                  // a transaction ended: OK is committed, Failed certainly not
)

// Outcome is how an operation ended.
type Outcome uint8

// The outcomes. A failed operation has certainly had no effect.
const (
	OK Outcome = iota + 1
	Failed
	Unknown
)

func (o Outcome) String() string {
	switch o {
	case OK:
		return "ok"
	case Failed:
		return "failed"
	}
	return "unknown"
}

// Field is which number was asked for.
type Field uint8

// The fields. An End, a Committed and a Stable are promised to be the newest; the others may
// be a little older, but never go back as one process sees them.
const (
	End Field = iota + 1
	HighWatermark
	LogStart
	LeaderEpoch
	Committed // the offset that the process's group has committed, -1 for none
	Stable    // the last stable offset, before which every transaction has ended
)

func (f Field) String() string {
	return [...]string{"", "the end", "the high watermark", "the log start", "the leader epoch", "the committed offset", "the last stable offset"}[f]
}

// Record is a record as it was read.
type Record struct {
	Offset int64
	Value  uint64 // 0 is that it was none of ours
	Epoch  int32  // of the leader who took it, -1 where not told
}

// Op is one operation.
type Op struct {
	Kind     Kind
	Outcome  Outcome
	Field    Field // of Observe
	Proc     int32 // index into Procs
	Part     int32 // index into Parts, -1 for none
	Txn      int32 // the transaction that it is part of, 0 for none
	Epoch    int32 // leader epoch in the answer; of Commit: generation or member epoch; of Init: of the producer; -1 where not told
	Count    int32 // of Read and Process: its records; of Observe: equal ones in a row
	Invoke   int64
	Complete int64
	Last     [2]int64 // of Observe: begin and end of the last of them; of Own: of the last heartbeat that was answered well
	Offset   int64    // of Produce: as acknowledged, -1 for none; of Read and Process: the first; of Observe: the number; of Commit: the offset
	Value    uint64   // of Produce; of Init: the producer ID
	Records  []Record // of Read, unless they are as in the Log
	Text     string   // of Fault and Note; of Produce, Commit and TxnEnd: the error
}

// Role is what a process does, as far as the checker treats it apart.
type Role uint8

// The roles.
const (
	Other      Role = iota
	Idempotent      // its records are never twice in the log, and in order
	Plain           // sends each record once, whatever comes of it
	Tail            // reads all from offset 0 until the end of the run
	Reread          // reads all from the log start, once
	Final           // the same, after everything that writes has ended
	Observer
	Member        // of a consumer group
	Transactional // all its records are in transactions; each is in the log once at most, and in order
)

// Proc is a process: something that does one thing after the other, or a producer.
type Proc struct {
	Name  string
	Role  Role
	Group int32 // index into Groups, of a member and of who asks for what is committed; 0 for none
	// Committed is of a reader whose isolation level is read_committed.
	Committed bool
	TxnID     string // its transactional ID
}

// Group is a consumer group.
type Group struct {
	Name   string
	Topics []string // that it reads, as they were made first
	// Session is after how many nanoseconds without a heartbeat a member may be taken for
	// dead, and 0 for a group of which it is not promised that a partition has one owner.
	Session int64
	// Committed is of one whose members read at isolation level read_committed, and commit
	// offsets in transactions.
	Committed bool
}

// Part is a partition. A topic that is made again under its name is another one.
type Part struct {
	Topic string
	Index int32
	Made  int32 // how many topics had the name before
}

func (p Part) String() string {
	if p.Made > 0 {
		return fmt.Sprintf("%s/%d (made the %d. time)", p.Topic, p.Index, p.Made+1)
	}
	return fmt.Sprintf("%s/%d", p.Topic, p.Index)
}

// History is a whole run.
type History struct {
	Version int
	Seed    int64
	Began   string // wall time, for people
	Plan    []string
	Procs   []Proc
	Groups  []Group // the first is none
	Parts   []Part
	Logs    [][]Record // by partition and offset; Epoch -2 where nothing was seen
	Ops     []Op
}

const version = 3

// Value is the n-th value, from 1, of a process.
func Value(proc int32, n int64) uint64 { return uint64(proc)<<40 | uint64(n)&(1<<40-1) }

// Count is the n of a value.
func Count(v uint64) int64 { return int64(v & (1<<40 - 1)) }

// ProcOf is the process of a value.
func ProcOf(v uint64) int32 { return int32(v >> 40) }

// unseen is the Epoch of a place in a Log where nothing was seen.
const unseen = -2

// Seen returns the record that was first seen at an offset.
func (h *History) Seen(part int32, offset int64) (Record, bool) {
	if l := h.Logs[part]; offset >= 0 && offset < int64(len(l)) && l[offset].Epoch != unseen {
		return l[offset], true
	}
	return Record{}, false
}

// Each calls do for every record of a Read.
func (h *History) Each(op *Op, do func(Record)) {
	if op.Records != nil {
		for _, r := range op.Records {
			do(r)
		}
		return
	}
	for _, r := range h.Logs[op.Part][op.Offset : op.Offset+int64(op.Count)] {
		do(r)
	}
}

package partition

import (
	"cmp"
	"math"
	"slices"
)

// txn is a transaction that keeps the last stable offset down: it is open, or its marker
// is not committed.
type txn struct {
	producer int64
	first    int64 // its first offset
	end      int64 // the offset after its marker; 0 while it is open
}

// transactions are what the last stable offset depends on. Partition.mu guards them.
type transactions struct {
	undecided []txn        // ascending by first offset
	ended     int          // of them, that only wait for their marker's commit
	aborting  []AbortedTxn // whose markers have their place, and are not written yet
}

func (ts *transactions) begin(producer, first int64) {
	ts.undecided = append(ts.undecided, txn{producer: producer, first: first})
}

// restored puts transactions in order that were not begun in it.
func (ts *transactions) restored() {
	slices.SortFunc(ts.undecided, func(a, b txn) int { return cmp.Compare(a.first, b.first) })
}

// finish ends the transaction that began at an offset with a marker at another.
func (ts *transactions) finish(m Marker, first, at int64) {
	stable := at + 1 // as it will be when the marker is committed
	for i := len(ts.undecided) - 1; i >= 0; i-- {
		switch t := &ts.undecided[i]; {
		case t.end != 0:
		case t.first == first:
			t.end = at + 1
			ts.ended++
		default:
			stable = t.first
		}
	}
	if !m.Commit {
		ts.aborting = append(ts.aborting, AbortedTxn{Producer: m.ProducerID, First: first, Last: at, Stable: stable})
	}
}

// committed forgets what has ended below a high watermark.
func (ts *transactions) committed(hw int64) {
	if ts.ended == 0 {
		return
	}
	before := len(ts.undecided)
	ts.undecided = slices.DeleteFunc(ts.undecided, func(t txn) bool { return t.end != 0 && t.end <= hw })
	ts.ended -= before - len(ts.undecided)
}

// stable is the last stable offset: what lies below it is committed, and so is how each
// transaction has ended that has records there.
func (ts *transactions) stable(hw, logStart int64) int64 {
	return ts.stableIf(hw, logStart, hw)
}

// stableIf is stable if markers below an offset count.
func (ts *transactions) stableIf(hw, logStart, markers int64) int64 {
	for i := range ts.undecided {
		if t := &ts.undecided[i]; t.end == 0 || t.end > markers {
			return min(hw, max(t.first, logStart))
		}
	}
	return hw
}

// settleTxns takes in a new high watermark or log start. The caller holds mu.
func (p *Partition) settleTxns() {
	ts := &p.mu.producers.txns
	ts.committed(p.mu.hw.offset)
	p.mu.stable = ts.stable(p.mu.hw.offset, p.mu.logStart)
	if p.cfg().breaks.stableAtOnce {
		p.mu.stable = ts.stableIf(p.mu.hw.offset, p.mu.logStart, math.MaxInt64)
	}
}

package history

import "fmt"

// Txn begins a transaction, and is its number.
func (r *Recorder) Txn() int32 {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.txns++
	return r.mu.txns
}

// A marker's value is of process 0, which sends no records: its count has markerBit, the low
// bits of the producer ID, the epoch, and 1 for a commit.
const (
	markerBit  = 1 << 39
	markerBits = 22 // of the producer ID
)

// Marker is the value of the record that ends a producer's transaction in a partition.
func Marker(producer int64, epoch int16, commit bool) uint64 {
	v := markerBit | uint64(producer&(1<<markerBits-1))<<17 | uint64(uint16(epoch))<<1
	if commit {
		v |= 1
	}
	return v
}

// IsMarker is whether a value is that of a marker.
func IsMarker(v uint64) bool { return ProcOf(v) == 0 && v&markerBit != 0 }

func tellMarker(v uint64) string {
	what := "abort"
	if v&1 != 0 {
		what = "commit"
	}
	return fmt.Sprintf("the %s marker of producer %d, epoch %d", what, v>>17&(1<<markerBits-1), int16(v>>1&(1<<16-1)))
}

func inTxn(op *Op) string {
	if op.Txn == 0 {
		return ""
	}
	return fmt.Sprintf(" in transaction %d", op.Txn)
}

func (h *History) tellTxn(op *Op) string {
	who := fmt.Sprintf("%s of transactional ID %q", h.Name(op.Proc), h.Procs[op.Proc].TxnID)
	if op.Kind == Init {
		return fmt.Sprintf("%s is producer %d with epoch %d", who, op.Value, op.Epoch)
	}
	how := map[Outcome]string{OK: "committed", Failed: "did not commit", Unknown: "perhaps committed"}[op.Outcome]
	if op.Text != "" {
		how += ", " + op.Text
	}
	return fmt.Sprintf("%s ended transaction %d: %s", who, op.Txn, how)
}

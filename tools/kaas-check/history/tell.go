package history

import (
	"fmt"
	"time"
)

// Name is a process for people.
func (h *History) Name(proc int32) string {
	if int(proc) < len(h.Procs) {
		return h.Procs[proc].Name
	}
	return fmt.Sprintf("process %d", proc)
}

// Tell is what an operation did, in one line without its times. offset is the one that
// matters, or -1.
func (h *History) Tell(op *Op, offset int64) string {
	switch op.Kind {
	case Produce:
		return fmt.Sprintf("%s sent %s to %v%s: %s", h.Name(op.Proc), TellValue(op.Value), h.Parts[op.Part], inTxn(op), tellSent(op))
	case Read:
		return fmt.Sprintf("%s read %v from offset %d to %d%s", h.Name(op.Proc), h.Parts[op.Part], op.Offset, h.ReadTo(op)-1, h.tellAt(op, offset))
	case Observe:
		s := fmt.Sprintf("%s was told %d as %v of %v", h.Name(op.Proc), op.Offset, op.Field, h.Parts[op.Part])
		if op.Count > 1 {
			s += fmt.Sprintf(", %d times, until %s", op.Count, TellTime(op.Last[1]))
		}
		return s
	case Process:
		return fmt.Sprintf("%s processed %v from offset %d to %d%s", h.Name(op.Proc), h.Parts[op.Part], op.Offset, h.ReadTo(op)-1, inTxn(op))
	case Commit:
		return fmt.Sprintf("%s committed %d of %v%s: %s", h.Name(op.Proc), op.Offset, h.Parts[op.Part], inTxn(op), tellCommitted(op))
	case Own:
		return fmt.Sprintf("%s had %v, and %s", h.Name(op.Proc), h.Parts[op.Part], tellOwned(op))
	case Init, TxnEnd:
		return h.tellTxn(op)
	case Note:
		if op.Part >= 0 {
			return fmt.Sprintf("%s, %v: %s", h.Name(op.Proc), h.Parts[op.Part], op.Text)
		}
		return h.Name(op.Proc) + ": " + op.Text
	}
	return op.Text
}

// ReadTo is the offset after the last record of a Read.
func (h *History) ReadTo(op *Op) int64 {
	if n := len(op.Records); n > 0 {
		return op.Records[n-1].Offset + 1
	}
	return op.Offset + int64(op.Count)
}

func tellSent(op *Op) string {
	switch {
	case op.Outcome == OK:
		return fmt.Sprintf("acknowledged at offset %d", op.Offset)
	case op.Text != "":
		return op.Outcome.String() + ", " + op.Text
	}
	return op.Outcome.String()
}

func tellCommitted(op *Op) string {
	s := op.Outcome.String()
	if op.Text != "" {
		s += ", " + op.Text
	}
	if op.Epoch >= 0 {
		s += fmt.Sprintf(" (generation %d)", op.Epoch)
	}
	return s
}

func tellOwned(op *Op) string {
	if op.Outcome == OK {
		return "gave it up"
	}
	return fmt.Sprintf("then was told that it had lost it; the last heartbeat that was answered well was sent at %s", TellTime(op.Last[0]))
}

func (h *History) tellAt(op *Op, offset int64) string {
	if offset < 0 {
		return ""
	}
	s := fmt.Sprintf(", nothing at %d", offset)
	h.Each(op, func(r Record) {
		if r.Offset == offset {
			s = fmt.Sprintf(", %s at %d (leader epoch %d)", TellValue(r.Value), offset, r.Epoch)
		}
	})
	return s
}

// TellValue is a value for people: process and count.
func TellValue(v uint64) string {
	switch {
	case v == 0:
		return "a foreign record"
	case IsMarker(v):
		return tellMarker(v)
	}
	return fmt.Sprintf("%d:%d", ProcOf(v), Count(v))
}

// TellTime is a time of the run for people.
func TellTime(ns int64) string { return fmt.Sprintf("%.6f s", time.Duration(ns).Seconds()) }

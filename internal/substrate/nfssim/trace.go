package nfssim

import (
	"fmt"
	"hash/fnv"
	"io"
	"time"
)

// record is an operation as the trace shows it.
type record struct {
	at   int64
	proc *Process // nil: something that happened to the whole
	op   Op
	n    int
	err  error
	note string
}

// ring holds the last records.
type ring struct {
	recs []record
	next int
	full bool
}

func newRing(n int) ring { return ring{recs: make([]record, n)} }

func (r *ring) put(x record) {
	r.recs[r.next] = x
	if r.next++; r.next == len(r.recs) {
		r.next, r.full = 0, true
	}
}

func (r *ring) add(s *Sim, c *call, note string) {
	r.put(record{at: s.now, proc: c.p, op: c.op, n: c.n, err: c.err, note: note})
}

func (s *Sim) note(text string) { s.trace.put(record{at: s.now, note: text}) }

func (p *Process) String() string { return fmt.Sprintf("%s/%d", p.h.name, p.number) }

func (x record) String() string {
	at := time.Unix(0, x.at).UTC().Format("15:04:05.000")
	if x.proc == nil {
		return fmt.Sprintf("%s        == %s", at, x.note)
	}
	o := x.op
	line := fmt.Sprintf("%s %6d %s %s %s", at, o.N, x.proc, o.Kind, o.Name)
	switch o.Kind {
	case OpRename:
		line += " -> " + o.To
	case OpRead, OpWrite:
		line += fmt.Sprintf(" [%d+%d] %d", o.Off, o.Len, x.n)
	}
	if x.err != nil {
		line += ": " + reason(x.err)
	}
	if x.note != "" {
		line += " (" + x.note + ")"
	}
	return line
}

// reason is the innermost cause; the line has the names already.
func reason(err error) string {
	for {
		u, ok := err.(interface{ Unwrap() error })
		if !ok {
			return err.Error()
		}
		err = u.Unwrap()
	}
}

// Trace is the last operations, oldest first, one a line.
func (s *Sim) Trace() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.trace.recs[:s.trace.next]
	if s.trace.full {
		r = append(s.trace.recs[s.trace.next:len(s.trace.recs):len(s.trace.recs)], r...)
	}
	l := make([]string, len(r))
	for i, x := range r {
		l[i] = x.String()
	}
	return l
}

// Fingerprint is a hash of Trace: two runs of one seed have the same.
func (s *Sim) Fingerprint() uint64 {
	h := fnv.New64a()
	for _, l := range s.Trace() {
		_, _ = io.WriteString(h, l+"\n")
	}
	return h.Sum64()
}

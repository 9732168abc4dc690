package server

import (
	"encoding/binary"
	"errors"
)

// maxProduced is how many topics and partitions a produce request may name.
const maxProduced = 1 << 16

var errProduceShape = errors.New("produce request: its lengths do not add up")

// walkProduce passes over a produce request's body without allocating anything and
// tells whether every element that it claims is there. The decoder makes room for
// an array before it has seen it; here, where requests may be large, that could be
// tens of times the request.
func walkProduce(body []byte, version int16) error {
	w := walker{b: body, flexible: version >= 9}
	w.skip(w.stringLen(true)) // transactional ID
	w.skip(2 + 4)             // acks, timeout
	left := maxProduced
	for topics := w.arrayLen(&left); topics > 0; topics-- {
		if version >= 13 {
			w.skip(16)
		} else {
			w.skip(w.stringLen(false))
		}
		for partitions := w.arrayLen(&left); partitions > 0; partitions-- {
			w.skip(4)
			w.skip(w.bytesLen())
			w.tags()
		}
		w.tags()
	}
	w.tags()
	if w.bad {
		return errProduceShape
	}
	return nil
}

// walker passes over encoded values. After the first that is not there, it is bad
// and everything else is empty.
type walker struct {
	b        []byte
	flexible bool
	bad      bool
}

func (w *walker) skip(n int) {
	if n < 0 || n > len(w.b) {
		w.bad, w.b = true, nil
		return
	}
	w.b = w.b[n:]
}

func (w *walker) uvarint() int {
	v, n := binary.Uvarint(w.b)
	if n <= 0 || v > 1<<32 {
		w.skip(-1)
		return 0
	}
	w.skip(n)
	return int(v)
}

// fixed reads a big-endian number of n bytes, 2 or 4.
func (w *walker) fixed(n int) int {
	if len(w.b) < n {
		w.skip(-1)
		return 0
	}
	b := w.b
	w.skip(n)
	if n == 2 {
		return int(int16(binary.BigEndian.Uint16(b)))
	}
	return int(int32(binary.BigEndian.Uint32(b)))
}

// length reads a length in front of what it counts; -1, null, is 0.
func (w *walker) length(width int, null bool) int {
	n := 0
	if w.flexible {
		n = w.uvarint() - 1
	} else {
		n = w.fixed(width)
	}
	switch {
	case w.bad:
		return 0
	case n == -1 && null:
		return 0
	}
	return n
}

func (w *walker) stringLen(null bool) int { return w.length(2, null) }
func (w *walker) bytesLen() int           { return w.length(4, true) }

// arrayLen reads an array's length and takes it from what is left in all.
func (w *walker) arrayLen(left *int) int {
	n := w.length(4, true)
	if n > *left {
		w.skip(-1)
		return 0
	}
	*left -= n
	return n
}

func (w *walker) tags() {
	if !w.flexible {
		return
	}
	for n := w.uvarint(); n > 0 && !w.bad; n-- {
		w.uvarint()
		w.skip(w.uvarint())
	}
}

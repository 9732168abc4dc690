package partition

import (
	"crypto/sha256"
	"encoding/binary"
)

// offsetMap holds the newest offset of each key, in a table of fixed size. A key is
// known by 16 bytes of its SHA-256, so that no two keys that anybody finds are taken for
// one another.
type offsetMap struct {
	slots []keySlot
	n     int
	most  int
}

type keySlot struct {
	hash [2]uint64
	next int64 // offset + 1; 0 is an empty slot
}

const keySlotSize = 24

// newOffsetMap makes room for a number of keys, but takes no more than so many bytes.
func newOffsetMap(keys, memory int64) *offsetMap {
	slots := min(keys+keys/3+8, max(memory/keySlotSize, 8))
	return &offsetMap{slots: make([]keySlot, slots), most: int(slots * 4 / 5)}
}

// fits reports whether n more keys surely have room.
func (m *offsetMap) fits(n int) bool { return m.n+n <= m.most }

func hashKey(key []byte) [2]uint64 {
	s := sha256.Sum256(key)
	return [2]uint64{binary.LittleEndian.Uint64(s[:]), binary.LittleEndian.Uint64(s[8:])}
}

// slot is where the key is, or where it would go.
func (m *offsetMap) slot(h [2]uint64) *keySlot {
	for i := h[0] % uint64(len(m.slots)); ; {
		if s := &m.slots[i]; s.next == 0 || s.hash == h {
			return s
		}
		if i++; i == uint64(len(m.slots)) {
			i = 0
		}
	}
}

// put notes that the key's newest record is at offset. There must be room.
func (m *offsetMap) put(key []byte, offset int64) {
	h := hashKey(key)
	s := m.slot(h)
	if s.next == 0 {
		m.n++
		s.hash = h
	}
	s.next = max(s.next, offset+1)
}

// newer reports whether the key has a record after offset.
func (m *offsetMap) newer(key []byte, offset int64) bool {
	return m.slot(hashKey(key)).next > offset+1
}

package partition

import (
	"bytes"
	"io"
	"slices"
	"testing"
	"time"

	"kaas.dev/kaas/internal/substrate"
)

// memFile is a file of given bytes.
type memFile struct{ *bytes.Reader }

func (memFile) WriteAt([]byte, int64) (int, error) { return 0, io.ErrShortWrite }
func (memFile) Close() error                       { return nil }
func (f memFile) Size() (int64, error)             { return f.Reader.Size(), nil }
func (memFile) Datasync() error                    { return nil }

var _ substrate.File = memFile{}

func seedBatches(f *testing.F) {
	first, second := batch(rec(0, "a", "b")), batch(rec(7, "c"))
	first.place(0, 1)
	second.place(2, 1)
	both := slices.Concat(first, second)
	f.Add([]byte(both))
	f.Add([]byte(both[:len(both)-3]))
	f.Add(append(bytes.Clone(first), make([]byte, 100)...))
	f.Add([]byte{})
}

// FuzzValidate: whatever a producer sends is refused or is exactly one sound batch.
func FuzzValidate(f *testing.F) {
	seedBatches(f)
	p, cfg := &Partition{}, testConfig().withDefaults()
	cfg.TimestampBeforeMax = time.Hour // so that records are looked at
	p.conf.Store(&cfg)
	f.Fuzz(func(t *testing.T, data []byte) {
		b := batch(data)
		if p.validate(p.cfg(), b) != nil {
			return
		}
		if b.size() != int64(len(b)) || b.count() < 1 || b.count() != b.lastDelta()+1 || b.sum() != b.crc() || b.headerFault(b.base()) != "" && b.base() >= 0 && b.base() < 1<<62 {
			t.Fatalf("taken: %x", data)
		}
	})
}

// FuzzTail: whatever a dead leader's file holds, what is adopted is a series of sound
// batches that lie at its start, and the scan stops at the first byte that is not.
func FuzzTail(f *testing.F) {
	seedBatches(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		s := &tailScanner{file: memFile{bytes.NewReader(data)}, size: int64(len(data))}
		pos, next := int64(0), int64(0)
		for {
			b, err := s.batch()
			ok(t, err)
			if b == nil {
				break
			}
			if !bytes.Equal(b, data[pos:pos+b.size()]) || b.base() != next || b.sum() != b.crc() {
				t.Fatalf("adopted at byte %d: %x", pos, b)
			}
			pos, next = pos+b.size(), b.next()
		}
		if s.pos != pos || s.next != next || s.reason == "" {
			t.Fatalf("stopped at %d, %d, want %d, %d (%s)", s.pos, s.next, pos, next, s.reason)
		}
	})
}

// FuzzIndex: no index file makes a reader look outside of its segment, or crash.
func FuzzIndex(f *testing.F) {
	x := newIndex()
	for i := range 5 {
		b := batch(rec(int64(i), "a"))
		b.place(int64(i), 1)
		x.add(b, 0, 1)
	}
	good, err := x.encode()
	ok(f, err)
	f.Add(good, x.upto)
	f.Fuzz(func(t *testing.T, data []byte, size int64) {
		if y, taken := decodeIndex("index", data, size); taken && (y.upto != size || y.floor(1<<40) > size) {
			t.Fatalf("taken: %x", data)
		}
	})
}

package nfssim

import (
	"math/rand/v2"
	"slices"
)

// maxLoose bounds the uncommitted writes kept apart; a server writes back too.
const maxLoose = 1024

// extent is one write that is not yet durable.
type extent struct {
	off    int64
	b      []byte
	owner  *hostFile // whose Datasync commits it
	doomed bool      // a failed fsync gave it up: no later one commits it
}

func (e extent) end() int64 { return e.off + int64(len(e.b)) }

func (e extent) overlaps(o extent) bool { return e.off < o.end() && o.off < e.end() }

// torn returns what a power loss leaves of a write: nothing, all, or a prefix.
func (e extent) torn(rng *rand.Rand) []byte {
	switch rng.IntN(5) {
	case 0, 1:
		return nil
	case 2:
		return e.b[:rng.IntN(len(e.b)+1)]
	}
	return e.b
}

// fileData is a file's content on the server: data is what clients are given,
// stable what a power loss leaves, and loose, in order, the difference.
type fileData struct {
	data, stable []byte
	loose        []extent
	shared       bool // a host's page cache holds data[:n]: overwrite only a copy
}

// snapshot returns the content, to be kept by a host's page cache.
func (f *fileData) snapshot() []byte {
	f.shared = true
	return f.data
}

func (f *fileData) put(off int64, b []byte) {
	if f.shared && off < int64(len(f.data)) {
		f.data, f.shared = slices.Clone(f.data), false
	}
	f.data = put(f.data, off, b)
}

// write puts e into the page cache of whoever serves the file.
func (f *fileData) write(e extent) {
	f.put(e.off, e.b)
	f.loose = append(f.loose, e)
	if len(f.loose) > maxLoose {
		f.commit(func(extent) bool { return true })
	}
}

// commit makes durable what which selects and no failed fsync has given up.
func (f *fileData) commit(which func(extent) bool) {
	keep := f.loose[:0]
	for _, e := range f.loose {
		if e.doomed || !which(e) {
			keep = append(keep, e)
			continue
		}
		f.stable = put(f.stable, e.off, e.b)
	}
	clear(f.loose[len(keep):])
	f.loose = keep
}

// powerLoss keeps of every loose write nothing, a prefix, or all.
func (f *fileData) powerLoss(rng *rand.Rand) {
	if len(f.loose) == 0 {
		return
	}
	f.data, f.shared = slices.Clone(f.stable), false
	for _, e := range f.loose {
		if b := e.torn(rng); len(b) > 0 {
			f.data = put(f.data, e.off, b)
		}
	}
	f.stable, f.loose = slices.Clone(f.data), nil
}

// put writes b at off, growing dst; a hole reads as zeros.
func put(dst []byte, off int64, b []byte) []byte {
	end, n := off+int64(len(b)), len(dst)
	if end > int64(n) {
		dst = slices.Grow(dst, int(end)-n)[:end]
		if off > int64(n) {
			clear(dst[n:off])
		}
	}
	copy(dst[off:], b)
	return dst
}

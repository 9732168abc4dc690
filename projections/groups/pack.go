package groups

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"kaas.dev/kaas/projections"
)

// Flags of a topic's packed offsets: what stands with each of them.
const (
	flagMetadata byte = 1 << iota
	flagExpires
	flagCommitted
	knownFlags = flagMetadata | flagExpires | flagCommitted
)

// packer makes the packed form of offsets and partitions: numbers of as few bytes as they
// need, partitions as the distance to the one before, so that most take one.
type packer struct {
	b     []byte
	flags byte
	prev  int64 // partition
	at    int64 // committed
}

func (p *packer) uint(n uint64) { p.b = binary.AppendUvarint(p.b, n) }
func (p *packer) int(n int64)   { p.b = binary.AppendVarint(p.b, n) }

func (p *packer) id(id projections.TopicID) { p.b = append(p.b, id[:]...) }

func (p *packer) partition(n int32) {
	p.int(int64(n) - p.prev - 1)
	p.prev = int64(n)
}

// offsets begins the offsets of n partitions of a topic.
func (p *packer) offsets(n int, flags byte) {
	p.flags, p.prev = flags, -1
	p.b = append(p.b, flags)
	p.uint(uint64(n))
}

func (p *packer) offset(partition int32, o Offset) {
	p.partition(partition)
	p.uint(uint64(o.Offset))
	p.int(int64(o.LeaderEpoch) + 1)
	if p.flags&flagCommitted != 0 {
		p.int(o.Committed - p.at)
		p.at = o.Committed
	}
	if p.flags&flagExpires != 0 {
		p.int(o.Expires)
	}
	if p.flags&flagMetadata != 0 {
		p.uint(uint64(len(o.Metadata)))
		p.b = append(p.b, o.Metadata...)
	}
}

// flagsFor are the flags that an offset needs; where they are absent there is no
// metadata, and -1 for the expiry.
func flagsFor(metadata string, expires int64) (flags byte) {
	if metadata != "" {
		flags |= flagMetadata
	}
	if expires != -1 {
		flags |= flagExpires
	}
	return flags
}

// topicOffsets adds a topic's committed offsets, ascending; keys is scratch space.
func (p *packer) topicOffsets(t map[int32]Offset, keys []int32) []int32 {
	keys, flags := keys[:0], flagCommitted
	for k, o := range t {
		keys = append(keys, k)
		flags |= flagsFor(o.Metadata, o.Expires)
	}
	slices.Sort(keys)
	p.offsets(len(keys), flags)
	for _, k := range keys {
		p.offset(k, t[k])
	}
	return keys
}

// partitions adds a list of partitions, in its order.
func (p *packer) partitions(ps []int32) {
	p.uint(uint64(len(ps)))
	p.prev = -1
	for _, n := range ps {
		p.partition(n)
	}
}

// assignment adds partitions by topic, in the order of their IDs.
func (p *packer) assignment(a Assignment) {
	p.uint(uint64(len(a)))
	for _, id := range slices.SortedFunc(maps.Keys(a), compareIDs) {
		p.id(id)
		p.partitions(a[id])
	}
}

func compareIDs(a, b projections.TopicID) int { return slices.Compare(a[:], b[:]) }

// unpacker reads what packer made. After an error it reads zeros.
type unpacker struct {
	b     []byte
	err   error
	flags byte
	prev  int64
	at    int64
}

var errPacked = errors.New("packed bytes end early or hold a number out of range")

func (u *unpacker) fail(err error) {
	if u.err == nil {
		u.err = err
	}
	u.b = nil
}

// end returns the error, which it is too if bytes are left.
func (u *unpacker) end() error {
	if u.err == nil && len(u.b) > 0 {
		u.err = fmt.Errorf("%d bytes behind packed ones", len(u.b))
	}
	return u.err
}

func (u *unpacker) uint() uint64 {
	v, n := binary.Uvarint(u.b)
	if n <= 0 {
		u.fail(errPacked)
		return 0
	}
	u.b = u.b[n:]
	return v
}

func (u *unpacker) int() int64 {
	v, n := binary.Varint(u.b)
	if n <= 0 {
		u.fail(errPacked)
		return 0
	}
	u.b = u.b[n:]
	return v
}

func (u *unpacker) int32(n int64) int32 {
	if n < math.MinInt32 || n > math.MaxInt32 {
		u.fail(errPacked)
		return 0
	}
	return int32(n)
}

// count is a number of things that take so many bytes at least.
func (u *unpacker) count(each int) int {
	n := u.uint()
	if n > uint64(len(u.b)/each) {
		u.fail(errPacked)
		return 0
	}
	return int(n)
}

func (u *unpacker) bytes(n int) []byte {
	if n > len(u.b) {
		u.fail(errPacked)
		return nil
	}
	b := u.b[:n]
	u.b = u.b[n:]
	return b
}

func (u *unpacker) id() (id projections.TopicID) {
	copy(id[:], u.bytes(len(id)))
	return id
}

func (u *unpacker) partition() int32 {
	n := u.int32(u.prev + 1 + u.int())
	u.prev = int64(n)
	return n
}

// offsets begins a topic's offsets and returns how many there are.
func (u *unpacker) offsets() int {
	u.prev, u.flags = -1, 0
	if b := u.bytes(1); b != nil {
		u.flags = b[0]
	}
	if u.flags&^knownFlags != 0 {
		u.fail(fmt.Errorf("packed offsets have flags %#x, which this build does not know", u.flags))
	}
	return u.count(3)
}

func (u *unpacker) offset() (partition int32, o Offset) {
	partition = u.partition()
	o = Offset{Offset: int64(u.uint()), LeaderEpoch: u.int32(u.int() - 1), Expires: -1}
	if u.flags&flagCommitted != 0 {
		u.at += u.int()
		o.Committed = u.at
	}
	if u.flags&flagExpires != 0 {
		o.Expires = u.int()
	}
	if u.flags&flagMetadata != 0 {
		o.Metadata = string(u.bytes(u.count(1)))
	}
	return partition, o
}

func (u *unpacker) partitions() []int32 {
	n := u.count(1)
	u.prev = -1
	out := make([]int32, n)
	for i := range out {
		out[i] = u.partition()
	}
	return out
}

func (u *unpacker) assignment() Assignment {
	n := u.count(len(projections.TopicID{}) + 1)
	if n == 0 {
		return nil
	}
	a := make(Assignment, n)
	for range n {
		id := u.id()
		a[id] = u.partitions()
	}
	return a
}

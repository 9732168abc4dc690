package partition

import (
	"encoding/binary"
	"math"

	"kaas.dev/kaas/internal/substrate"
)

// A record batch of magic 2, big-endian:
//
//	 0  8  base offset            21  2  attributes
//	 8  4  length after byte 12   23  4  last offset delta
//	12  4  partition leader epoch 27  8  base timestamp, ms
//	16  1  magic                  35  8  max timestamp, ms
//	17  4  CRC32C of 21 to end    43  8  producer ID, 51 2 its epoch, 53 4 base sequence
//	61  …  records                57  4  record count
//
// What lies before byte 21 may be changed without touching the checksum.
const (
	batchPrefix = 12 // base offset and length
	batchHeader = 61
	crcFrom     = 21
)

// Attributes.
const (
	attrCodec         = 0x07
	attrLogAppendTime = 0x08
	attrTransactional = 0x10
	attrControl       = 0x20
	attrHorizon       = 0x40 // the base timestamp is when tombstones and markers in it may go (KIP-534)
)

// batch is the bytes of one record batch; at least its header must be there.
type batch []byte

func (b batch) base() int64      { return int64(binary.BigEndian.Uint64(b)) }
func (b batch) length() int64    { return int64(int32(binary.BigEndian.Uint32(b[8:]))) }
func (b batch) size() int64      { return batchPrefix + b.length() }
func (b batch) epoch() int32     { return int32(binary.BigEndian.Uint32(b[12:])) }
func (b batch) magic() byte      { return b[16] }
func (b batch) crc() uint32      { return binary.BigEndian.Uint32(b[17:]) }
func (b batch) attrs() uint16    { return binary.BigEndian.Uint16(b[21:]) }
func (b batch) lastDelta() int32 { return int32(binary.BigEndian.Uint32(b[23:])) }
func (b batch) baseTime() int64  { return int64(binary.BigEndian.Uint64(b[27:])) }
func (b batch) maxTime() int64   { return int64(binary.BigEndian.Uint64(b[35:])) }
func (b batch) producer() int64  { return int64(binary.BigEndian.Uint64(b[43:])) }
func (b batch) prodEpoch() int16 { return int16(binary.BigEndian.Uint16(b[51:])) }
func (b batch) sequence() int32  { return int32(binary.BigEndian.Uint32(b[53:])) }
func (b batch) count() int32     { return int32(binary.BigEndian.Uint32(b[57:])) }

// next is the offset after the batch's last record.
func (b batch) next() int64 { return b.base() + int64(b.lastDelta()) + 1 }

func (b batch) sum() uint32 { return substrate.CRC32C(b[crcFrom:]) }

func (b batch) place(base int64, epoch int32) {
	binary.BigEndian.PutUint64(b, uint64(base))
	binary.BigEndian.PutUint32(b[12:], uint32(epoch))
}

// stamp makes now the time of every record (KIP-32).
func (b batch) stamp(now int64) {
	binary.BigEndian.PutUint16(b[21:], b.attrs()|attrLogAppendTime)
	binary.BigEndian.PutUint64(b[35:], uint64(now))
	binary.BigEndian.PutUint32(b[17:], b.sum())
}

// setMaxTime sets the largest timestamp right.
func (b batch) setMaxTime(ms int64) {
	binary.BigEndian.PutUint64(b[35:], uint64(ms))
	binary.BigEndian.PutUint32(b[17:], b.sum())
}

// headerFault says what is wrong with the header of a stored batch that should begin
// at or after an offset, or "".
func (b batch) headerFault(from int64) string {
	switch {
	case b.length() < batchHeader-batchPrefix:
		return "the batch's length is less than its header's"
	case b.magic() != 2:
		return "not a record batch of magic 2"
	case b.base() < from:
		return "the batch's offset is below the one before it"
	case b.lastDelta() < 0 || b.base() > math.MaxInt64-math.MaxInt32-1:
		return "the batch's offsets are out of range"
	}
	return ""
}

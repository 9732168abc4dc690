package partition

import (
	"encoding/binary"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
)

// Marker ends the transaction that a producer has open on a partition.
type Marker struct {
	ProducerID    int64
	ProducerEpoch int16
	Commit        bool // else it aborts
	// CoordinatorEpoch is that of the coordinator who sends it. One that is older than what
	// the producer's last marker had is refused.
	CoordinatorEpoch int32
	// Version is the transaction version that the transaction ran under. From 2 on its end
	// has a higher producer epoch than its records (KIP-890), so that a late one is known.
	Version int8
}

// A marker in the log is a control batch of one record, transactional and without a
// sequence. The record's key is a version, 0, and a type, 0 abort or 1 commit, of two
// bytes each; its value is a version, 0, of two bytes and the coordinator's epoch of four.
const (
	markerRecord = 17 // bytes, with the length before it
	markerSize   = batchHeader + markerRecord

	markerAbort  = 0
	markerCommit = 1
)

// batch is the marker as it is stored, but for its place.
func (m Marker) batch(now int64) batch {
	b := make(batch, markerSize)
	binary.BigEndian.PutUint32(b[8:], markerSize-batchPrefix)
	b[16] = 2
	binary.BigEndian.PutUint16(b[21:], attrTransactional|attrControl)
	binary.BigEndian.PutUint64(b[27:], uint64(now))
	binary.BigEndian.PutUint64(b[35:], uint64(now))
	binary.BigEndian.PutUint64(b[43:], uint64(m.ProducerID))
	binary.BigEndian.PutUint16(b[51:], uint16(m.ProducerEpoch))
	binary.BigEndian.PutUint32(b[53:], 0xffffffff)
	binary.BigEndian.PutUint32(b[57:], 1)
	r := b[batchHeader:]
	// Lengths are zigzag: 16 bytes follow, attributes, no deltas, a key of 4, a value of 6.
	copy(r, []byte{2 * (markerRecord - 1), 0, 0, 0, 2 * 4, 0, 0, 0, markerAbort, 2 * 6})
	if m.Commit {
		r[8] = markerCommit
	}
	binary.BigEndian.PutUint32(r[12:], uint32(m.CoordinatorEpoch))
	binary.BigEndian.PutUint32(b[17:], b.sum())
	return b
}

// marker reads a whole control batch. ok is false where it ends no transaction: it is of
// another type, or compaction has emptied it.
func (b batch) marker() (m Marker, ok bool) {
	const control = attrControl | attrTransactional
	if b.attrs()&(control|attrCodec) != control || b.count() == 0 {
		return m, false
	}
	it := recordIter{rest: b[batchHeader:]}
	var r record
	if !it.next(&r) || len(r.key) < 4 || len(r.value) < 6 {
		return m, false
	}
	kind := binary.BigEndian.Uint16(r.key[2:])
	m = Marker{ProducerID: b.producer(), ProducerEpoch: b.prodEpoch(), Commit: kind == markerCommit,
		CoordinatorEpoch: int32(binary.BigEndian.Uint32(r.value[2:]))}
	return m, kind == markerAbort || kind == markerCommit
}

// judgeMarker refuses a marker of who has been succeeded. One that ends nothing is taken,
// as in Kafka: its sender may not have heard that it was written before.
func (ps *producers) judgeMarker(m Marker) error {
	p := ps.byID[m.ProducerID]
	if p == nil {
		return nil
	}
	last := p.newest()
	if m.ProducerEpoch < last.epoch || m.Version >= 2 && m.ProducerEpoch == last.epoch && last.txn != 0 {
		return fmt.Errorf("%w: producer %d has epoch %d, its marker %d", kerr.InvalidProducerEpoch, p.id, last.epoch, m.ProducerEpoch)
	}
	if m.CoordinatorEpoch < last.coord-1 {
		return fmt.Errorf("%w: producer %d has a marker of coordinator epoch %d, this one has %d", kerr.TransactionCoordinatorFenced, p.id, last.coord-1, m.CoordinatorEpoch)
	}
	return nil
}

package traffic

import (
	"encoding/binary"
	"hash/crc32"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Batch is a record batch with one record of nobody in particular.
func Batch(value []byte) []byte { return batch(value, producer{-1, -1}, -1) }

const transactionalBatch = 1 << 4

// batch is one of a producer, if there is one in a transaction.
func batch(value []byte, who producer, sequence int32) []byte {
	r := kmsg.NewRecord()
	r.Value = value
	b := kmsg.NewRecordBatch()
	b.Magic, b.NumRecords = 2, 1
	b.FirstTimestamp = time.Now().UnixMilli()
	b.MaxTimestamp = b.FirstTimestamp
	b.ProducerID, b.ProducerEpoch, b.FirstSequence = who.id, who.epoch, sequence
	if who.id >= 0 {
		b.Attributes = transactionalBatch
	}
	body := r.AppendTo(nil)[1:] // the length 0 takes one byte
	b.Records = append(binary.AppendVarint(nil, int64(len(body))), body...)
	raw := b.AppendTo(nil)
	const lengthFrom, crcAt, crcFrom = 12, 17, 21
	binary.BigEndian.PutUint32(raw[8:], uint32(len(raw)-lengthFrom))
	binary.BigEndian.PutUint32(raw[crcAt:], crc32.Checksum(raw[crcFrom:], castagnoli))
	return raw
}

// damaged is the batch with a wrong checksum, which every broker must refuse.
func damaged(raw []byte) []byte {
	raw[len(raw)-1] ^= 1
	return raw
}

package main

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// bytes is what is in a field of bytes: batches of records field by field, anything else as
// it is.
func (s *symbols) bytes(name string, b []byte) *node {
	if b == nil {
		return leaf("null")
	}
	if name != "RecordBatches" && name != "Records" {
		return leaf("%x", b)
	}
	n := &node{value: "list"}
	for len(b) > 0 {
		size := len(b)
		if len(b) >= 12 {
			size = min(size, 12+int(binary.BigEndian.Uint32(b[8:])))
		}
		n.list = append(n.list, field{fmt.Sprint(len(n.list)), s.batch(b[:size])})
		b = b[size:]
	}
	return n
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func (s *symbols) batch(b []byte) *node {
	var batch kmsg.RecordBatch
	if err := batch.ReadFrom(b); err != nil {
		return leaf("a part of a batch, %d bytes", len(b))
	}
	n := &node{}
	add := func(name string, value *node) { n.fields = append(n.fields, field{name, value}) }
	add("FirstOffset", leaf("%d", batch.FirstOffset))
	if batch.Attributes&codecBits == 0 { // otherwise it is the compressor's
		add("Length", leaf("%d", batch.Length))
	}
	add("PartitionLeaderEpoch", leaf("%s", s.number("PartitionLeaderEpoch", int64(batch.PartitionLeaderEpoch))))
	add("Magic", leaf("%d", batch.Magic))
	add("Sound", leaf("%t", uint32(batch.CRC) == crc32.Checksum(b[21:], castagnoli)))
	add("Attributes", leaf("%d", batch.Attributes))
	add("LastOffsetDelta", leaf("%d", batch.LastOffsetDelta))
	add("FirstTimestamp", leaf("%s", s.number("", batch.FirstTimestamp)))
	add("MaxTimestamp", leaf("%s", s.number("", batch.MaxTimestamp)))
	add("ProducerID", leaf("%s", s.number("ProducerID", batch.ProducerID)))
	add("ProducerEpoch", leaf("%d", batch.ProducerEpoch))
	add("FirstSequence", leaf("%d", batch.FirstSequence))
	add("NumRecords", leaf("%d", batch.NumRecords))
	add("Content", leaf("%x", plainRecords(&batch)))
	return n
}

const codecBits = 7

// plainRecords are a batch's records without compression: two compressors need not come to
// the same bytes.
func plainRecords(b *kmsg.RecordBatch) []byte {
	plain, err := kgo.DefaultDecompressor().Decompress(b.Records, kgo.CompressionCodecType(b.Attributes&codecBits))
	if err != nil {
		return b.Records
	}
	return plain
}

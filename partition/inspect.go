package partition

import (
	"fmt"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
)

// Compression is what becomes of a batch's codec.
type Compression struct {
	// Type is compression.type: producer, or empty, keeps a batch as it was sent;
	// uncompressed, gzip, snappy, lz4 or zstd have one of another codec compressed anew.
	Type string
	// GzipLevel, LZ4Level and ZstdLevel are compression.*.level; 0 is Kafka's default.
	GzipLevel, LZ4Level, ZstdLevel int
}

var codecNames = map[string]uint16{"uncompressed": codecNone, "gzip": codecGzip, "snappy": codecSnappy, "lz4": codecLZ4, "zstd": codecZstd}

func (c Compression) level(codec uint16) int {
	level, def := 0, 0
	switch codec {
	case codecGzip:
		level, def = c.GzipLevel, -1
	case codecLZ4:
		level, def = c.LZ4Level, 9
	case codecZstd:
		level, def = c.ZstdLevel, 3
	}
	if level == 0 {
		return def
	}
	return level
}

var lookers = sync.Pool{New: func() any { return new(looked) }}

// inspect looks at a batch's records where the topic asks for it: on a compacted topic
// each has a key, and where another codec is asked for, it is compressed anew. It returns
// the batch to store, which may be another one.
func (p *Partition) inspect(b batch) (batch, error) {
	codec, other := codecNames[p.cfg().Compression.Type]
	other = other && codec != b.attrs()&attrCodec
	if !other && !p.cfg().Cleanup.Compact {
		return b, nil
	}
	l := lookers.Get().(*looked)
	defer lookers.Put(l)
	raw, err := l.inflate(b)
	if err != nil {
		err = fmt.Errorf("%w: %w", kerr.InvalidRecord, err)
	} else {
		err = checkRecords(b, raw, p.cfg().Cleanup.Compact)
	}
	if err != nil {
		return nil, err
	}
	if !other {
		return b, nil
	}
	attrs := b.attrs()&^attrCodec | codec
	out, err := rebuild(b, raw, b.count(), b.baseTime(), b.maxTime(), attrs, p.cfg().Compression.level(codec))
	if err != nil {
		return nil, fmt.Errorf("%w: compress: %w", kerr.UnknownServerError, err)
	}
	if int64(len(out)) > p.cfg().SegmentBytes {
		return nil, fmt.Errorf("%w: batch of %d bytes after compression, segment.bytes is %d", kerr.RecordListTooLarge, len(out), p.cfg().SegmentBytes)
	}
	return out, nil
}

// checkRecords finds what Kafka refuses in the records of a batch just sent.
func checkRecords(b batch, raw []byte, keyed bool) error {
	it := recordIter{rest: raw}
	var r record
	n := int32(0)
	for ; it.next(&r); n++ {
		switch {
		case keyed && r.key == nil:
			return refused(n, "a record of a compacted topic must have a key")
		case r.offset != int64(n):
			return refused(n, fmt.Sprintf("its offset delta is %d", r.offset))
		}
	}
	switch {
	case it.err != nil:
		return refused(n, it.err.Error())
	case n != b.count():
		return fmt.Errorf("%w: %w: the header says %d, there are %d", kerr.InvalidRecord, errRecords, b.count(), n)
	}
	return nil
}

func refused(index int32, message string) error {
	return &RecordsError{Cause: kerr.InvalidRecord, Records: []RefusedRecord{{index, message}}}
}

package partition

import (
	"fmt"
	"math"
	"runtime"
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

// inflating bounds the batches that are decompressed at a time: each takes a core, and
// memory that its sender has chosen.
var inflating = make(chan struct{}, runtime.GOMAXPROCS(0))

// inspect looks at a batch's records, as Kafka does: there are as many as the header
// says, in order, and on a compacted topic each has a key. A header whose largest
// timestamp is not that of the records is set right, for retention and lookups go by it.
// Where another codec is asked for, the batch is compressed anew. It returns the batch to
// store, which may be another one.
func (p *Partition) inspect(cfg *Config, b batch) (batch, error) {
	if b.attrs()&attrCodec != codecNone {
		inflating <- struct{}{}
		defer func() { <-inflating }()
	}
	l := lookers.Get().(*looked)
	defer lookers.Put(l)
	top, err := checkRecords(l, b, cfg)
	if err != nil {
		return nil, err
	}
	if !cfg.LogAppendTime && top != b.maxTime() {
		b.setMaxTime(top)
		if err := validateTime(cfg, b); err != nil {
			return nil, err
		}
	}
	codec, other := codecNames[cfg.Compression.Type]
	if !other || codec == b.attrs()&attrCodec {
		return b, nil
	}
	raw, err := l.inflateTo(b, cfg.MaxInflated)
	if err != nil {
		return nil, refused(0, err.Error())
	}
	return recompress(cfg, b, raw, codec)
}

func recompress(cfg *Config, b batch, raw []byte, codec uint16) (batch, error) {
	attrs := b.attrs()&^attrCodec | codec
	out, err := rebuild(b, raw, b.count(), b.baseTime(), b.maxTime(), attrs, cfg.Compression.level(codec))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: compress: %w", kerr.UnknownServerError, err)
	case len(out) > cfg.MaxMessageBytes:
		return nil, fmt.Errorf("%w: batch of %d bytes after compression, max.message.bytes is %d", kerr.MessageTooLarge, len(out), cfg.MaxMessageBytes)
	case int64(len(out)) > cfg.SegmentBytes:
		return nil, fmt.Errorf("%w: batch of %d bytes after compression, segment.bytes is %d", kerr.RecordListTooLarge, len(out), cfg.SegmentBytes)
	}
	return out, nil
}

// checkRecords finds what Kafka refuses in the records of a batch just sent, and returns
// their largest timestamp.
func checkRecords(l *looked, b batch, cfg *Config) (top int64, err error) {
	n := int32(0)
	top = math.MinInt64
	keyless := &RecordsError{Cause: kerr.InvalidRecord}
	bad := l.walk(b, cfg.MaxInflated, func(r *record) bool {
		ts, fits := b.sentTime(r)
		switch {
		case n == b.count():
			err = fmt.Errorf("%w: %w: the header says %d, and there are more", kerr.InvalidRecord, errRecords, n)
		case cfg.Cleanup.Compact && r.key == nil:
			keyless.add(n, "a record of a compacted topic must have a key")
		case r.offset != int64(n):
			err = refused(n, fmt.Sprintf("its offset delta is %d", r.offset))
		case !fits && !cfg.LogAppendTime:
			err = &RecordsError{Cause: kerr.InvalidTimestamp, Records: []RefusedRecord{{n, overflow(b, r)}}}
		}
		top = max(top, ts)
		n++
		return err == nil
	})
	switch {
	case err != nil:
		return 0, err
	case bad != nil:
		return 0, refused(n, bad.Error())
	case n != b.count():
		return 0, fmt.Errorf("%w: %w: the header says %d, there are %d", kerr.InvalidRecord, errRecords, b.count(), n)
	case len(keyless.Records) > 0:
		return 0, keyless
	}
	return top, nil
}

func refused(index int32, message string) error {
	return &RecordsError{Cause: kerr.InvalidRecord, Records: []RefusedRecord{{index, message}}}
}

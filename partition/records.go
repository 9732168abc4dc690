package partition

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// record is one record of a batch. Its slices lie in the buffer that is iterated over.
//
//	length varint, attributes byte, timestamp delta varlong, offset delta varint,
//	key length varint (-1 is null), key, value length varint (-1 is null), value,
//	headers: count varint, then for each key length varint, key, value length, value
type record struct {
	raw       []byte // whole, with its length
	tsDelta   int64
	offset    int64  // delta
	afterTime []byte // from the offset delta on
	key       []byte // nil is null
	value     []byte // nil is null
}

// errRecords means that a batch's records are not what Kafka's format says.
var errRecords = errors.New("the batch's records cannot be read")

// recordIter walks the records of a batch, decompressed, without allocating.
type recordIter struct {
	rest []byte
	err  error
}

// next reads a record, or returns false at the end or at a fault, which is then in err.
func (it *recordIter) next(r *record) bool {
	if len(it.rest) == 0 || it.err != nil {
		return false
	}
	n, w := binary.Varint(it.rest)
	if w <= 0 || n < 1 || n > int64(len(it.rest)-w) {
		it.err = fmt.Errorf("%w: a record is longer than what is left", errRecords)
		return false
	}
	end := w + int(n)
	if !r.parse(it.rest[:end:end], w) {
		it.err = fmt.Errorf("%w: a record's fields do not fit into it", errRecords)
		return false
	}
	it.rest = it.rest[end:]
	return true
}

func (r *record) parse(raw []byte, at int) (ok bool) {
	r.raw = raw
	rest := raw[at+1:] // behind the attributes, which have no meaning yet
	if r.tsDelta, rest, ok = varint(rest); !ok {
		return false
	}
	r.afterTime = rest
	if r.offset, rest, ok = varint(rest); !ok {
		return false
	}
	if r.key, rest, ok = nullable(rest); !ok {
		return false
	}
	if r.value, rest, ok = nullable(rest); !ok {
		return false
	}
	return onlyHeaders(rest)
}

// onlyHeaders reports whether a record ends as it must: a count, then that many headers
// with a key, which may not be null, and a value, and nothing behind them.
func onlyHeaders(rest []byte) bool {
	n, rest, ok := varint(rest)
	if !ok || n < 0 || n > int64(len(rest)) {
		return false
	}
	for ; n > 0; n-- {
		var key []byte
		if key, rest, ok = nullable(rest); !ok || key == nil {
			return false
		}
		if _, rest, ok = nullable(rest); !ok {
			return false
		}
	}
	return len(rest) == 0
}

func varint(b []byte) (n int64, rest []byte, ok bool) {
	n, w := binary.Varint(b)
	if w <= 0 {
		return 0, nil, false
	}
	return n, b[w:], true
}

func nullable(b []byte) (v, rest []byte, ok bool) {
	n, rest, ok := varint(b)
	switch {
	case !ok || n < -1 || n > int64(len(rest)):
		return nil, nil, false
	case n < 0:
		return nil, rest, true
	}
	return rest[:n:n], rest[n:], true
}

// appendRecord appends r with another timestamp delta.
func appendRecord(dst []byte, r *record, tsDelta int64) []byte {
	var ts [binary.MaxVarintLen64]byte
	w := binary.PutVarint(ts[:], tsDelta)
	dst = binary.AppendVarint(dst, int64(1+w+len(r.afterTime)))
	dst = append(dst, 0)
	dst = append(dst, ts[:w]...)
	return append(dst, r.afterTime...)
}

// timeOf is the timestamp of a batch's record, ms.
func (b batch) timeOf(r *record) int64 {
	if b.attrs()&attrLogAppendTime != 0 {
		return b.maxTime()
	}
	return b.baseTime() + r.tsDelta
}

// sentTime is the timestamp that a producer gave a record, ms, and whether base and
// delta give one at all.
func (b batch) sentTime(r *record) (ms int64, fits bool) {
	ms = b.baseTime() + r.tsDelta
	return ms, (ms < b.baseTime()) == (r.tsDelta < 0)
}

// keptMost is the largest buffer that is kept: of wholeMost, and of what is found to be more.
const keptMost = 2 * wholeMost

// looked is what inspecting a batch's records takes, kept between batches.
type looked struct {
	buf []byte // of what was decompressed
}

// records returns an iterator over b's records. It is good until the next call.
func (l *looked) records(b batch) (recordIter, error) {
	raw, err := l.inflate(b)
	return recordIter{rest: raw}, err
}

// inflate returns b's records, decompressed.
func (l *looked) inflate(b batch) ([]byte, error) { return l.inflateTo(b, maxInflated) }

// inflateTo does the same where they are at most limit bytes.
func (l *looked) inflateTo(b batch, limit int) ([]byte, error) {
	codec := b.attrs() & attrCodec
	if codec == 0 {
		return b[batchHeader:], nil
	}
	raw, err := inflate(l.buf[:0], codec, b[batchHeader:], limit)
	if raw != nil {
		l.buf = raw
	}
	if cap(l.buf) > keptMost {
		l.buf = nil // not kept: few are that large
	}
	if err != nil {
		return nil, err
	}
	return raw, nil
}

// rebuild makes the batch that has b's header with other records, which are given as
// they are before compression. What the batch held stays in its header: base offset,
// last offset delta, producer.
func rebuild(b batch, records []byte, count int32, baseTime, maxTime int64, attrs uint16, level int) (batch, error) {
	out := append(make(batch, 0, batchHeader+len(records)), b[:batchHeader]...)
	if count == 0 {
		attrs &^= attrCodec // nothing is compressed
	}
	if codec := attrs & attrCodec; codec != 0 {
		packed, err := deflate(out, codec, level, records)
		if err != nil {
			return nil, err
		}
		out = packed
	} else {
		out = append(out, records...)
	}
	binary.BigEndian.PutUint32(out[8:], uint32(len(out)-batchPrefix))
	binary.BigEndian.PutUint16(out[21:], attrs)
	binary.BigEndian.PutUint64(out[27:], uint64(baseTime))
	binary.BigEndian.PutUint64(out[35:], uint64(maxTime))
	binary.BigEndian.PutUint32(out[57:], uint32(count))
	binary.BigEndian.PutUint32(out[17:], out.sum())
	return out, nil
}

package partition

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"runtime"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	"golang.org/x/sync/semaphore"
)

const (
	// wholeMost is how many bytes of records are decompressed into memory to be looked at.
	// More are looked at as they come out, a little at a time: their number is their
	// sender's choice, and costs him nothing.
	wholeMost = 1 << 20
	// zstdWindow is the most that a zstd frame may look back so that it can be read like
	// that: Kafka's levels up to 20.
	zstdWindow = 32 << 20
	// usualWindow is the most that frames look back below level 20. What reads them is kept.
	usualWindow = 8 << 20
	streamChunk = 64 << 10
)

// windows has what is looked back over by all that are looked at together, whatever the number
// of cores. A frame that looks back further than there is room is alone.
var windows = semaphore.NewWeighted(windowsMost)

const windowsMost = 2 * usualWindow

// large has those who look at more than wholeMost: as many as leave others some cores.
var large = make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2))

// walk calls f with each record of a batch until it returns false. They may be at most limit
// bytes, decompressed. A record's key and value may be lacking, but for whether there is a key.
func (l *looked) walk(b batch, limit int, f func(*record) bool) error {
	raw, err := l.inflateTo(b, min(limit, wholeMost))
	if err == nil {
		return walkWhole(raw, f)
	}
	if limit <= wholeMost || !errors.Is(err, errBomb) {
		return err
	}
	large <- struct{}{}
	defer func() { <-large }()
	back := lookback(b)
	if back <= zstdWindow {
		if err = streamed(b, back, limit, f); !errors.Is(err, zstd.ErrWindowSizeExceeded) {
			return err
		}
	}
	defer lookingBack(maxInflated)()
	if raw, err = l.inflateTo(b, limit); err != nil {
		return err
	}
	return walkWhole(raw, f)
}

// streamed walks the records as they come out.
func streamed(b batch, back int64, limit int, f func(*record) bool) error {
	defer lookingBack(back)()
	src, done, err := unpack(b, back)
	if err != nil {
		return err
	}
	defer done()
	s := recordStream{r: bufio.NewReaderSize(src, streamChunk), left: int64(limit)}
	return s.walk(f)
}

// lookingBack waits until there is room to look back so far, and takes it until done is called.
func lookingBack(n int64) (done func()) {
	n = min(n, windowsMost)
	_ = windows.Acquire(context.Background(), n) // fails with its context alone
	return func() { windows.Release(n) }
}

func walkWhole(raw []byte, f func(*record) bool) error {
	it := recordIter{rest: raw}
	var r record
	for it.next(&r) {
		if !f(&r) {
			return nil
		}
	}
	return it.err
}

// recordStream walks records as they come out of their decompressor.
type recordStream struct {
	r    *bufio.Reader
	left int64 // how many bytes may still come
}

func (s *recordStream) walk(f func(*record) bool) error {
	var r record
	for {
		switch _, err := s.r.Peek(1); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("%w: %w", errRecords, err)
		case s.left == 0:
			return errBomb
		}
		if err := s.next(&r); err != nil {
			return err
		}
		if !f(&r) {
			return nil
		}
	}
}

var errFields = errors.New("a record's fields do not fit into it")

func (s *recordStream) next(r *record) error {
	n, err := binary.ReadVarint(s)
	switch {
	case err != nil:
		return s.fault(err)
	case n < 1:
		return s.fault(errFields)
	case n > s.left:
		return errBomb
	}
	behind := s.left - n
	s.left = n // nothing of it lies beyond its end
	if err := s.fields(r); err != nil {
		return s.fault(err)
	}
	if s.left != 0 {
		return s.fault(errFields)
	}
	s.left = behind
	return nil
}

func (s *recordStream) fault(err error) error {
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("%w: %w", errRecords, err)
}

func (s *recordStream) fields(r *record) (err error) {
	if _, err = s.ReadByte(); err != nil { // attributes
		return err
	}
	if r.tsDelta, err = binary.ReadVarint(s); err != nil {
		return err
	}
	if r.offset, err = binary.ReadVarint(s); err != nil {
		return err
	}
	r.raw, r.afterTime, r.key, r.value = nil, nil, nil, nil
	there, err := s.nullable()
	if there {
		r.key = []byte{}
	}
	if err == nil {
		_, err = s.nullable() // the value
	}
	if err != nil {
		return err
	}
	return s.headers()
}

func (s *recordStream) headers() error {
	n, err := binary.ReadVarint(s)
	if err == nil && (n < 0 || n > s.left) {
		err = errFields
	}
	for ; err == nil && n > 0; n-- {
		var key bool
		if key, err = s.nullable(); err == nil && !key {
			err = errFields
		}
		if err == nil {
			_, err = s.nullable()
		}
	}
	return err
}

// nullable passes over bytes with their length before them, and reports whether there are any
// or none, but not null.
func (s *recordStream) nullable() (there bool, err error) {
	n, err := binary.ReadVarint(s)
	switch {
	case err != nil:
		return false, err
	case n < -1 || n > s.left:
		return false, errFields
	case n < 0:
		return false, nil
	}
	s.left -= n
	_, err = s.r.Discard(int(n))
	return true, err
}

// ReadByte implements io.ByteReader.
func (s *recordStream) ReadByte() (byte, error) {
	if s.left == 0 {
		return 0, errFields
	}
	s.left--
	return s.r.ReadByte()
}

// lookback is how far back a batch's records look, and so what is kept of them meanwhile: what
// their zstd frame says. The other codecs look back over little.
func lookback(b batch) int64 {
	var h zstd.Header
	if b.attrs()&attrCodec != codecZstd || h.Decode(b[batchHeader:]) != nil {
		return 0
	}
	return int64(min(h.WindowSize, maxInflated))
}

// zstdStreams are decoders that look at a frame a little at a time. They keep the memory that
// they look back over, usualWindow at most, and so there are few.
var zstdStreams = make(chan *zstd.Decoder, windowsMost/usualWindow)

func zstdStream(back int64) (d *zstd.Decoder, done func(), err error) {
	if back > usualWindow {
		d, err = newZstdStream(zstdWindow)
		return d, func() {}, err
	}
	select {
	case d = <-zstdStreams:
	default:
		d, err = newZstdStream(usualWindow)
	}
	return d, func() {
		select {
		case zstdStreams <- d:
		default:
		}
	}, err
}

func newZstdStream(window uint64) (*zstd.Decoder, error) {
	return zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(window), zstd.WithDecoderMaxMemory(maxInflated))
}

// unpack has a batch's records decompressed as they are read, and done is to be called then.
// Snappy is decompressed at once: it grows little.
func unpack(b batch, back int64) (src io.Reader, done func(), err error) {
	packed := b[batchHeader:]
	switch codec := b.attrs() & attrCodec; codec {
	case codecGzip:
		r, _ := gzipReaders.Get().(*gzip.Reader)
		if r == nil {
			r = new(gzip.Reader)
		}
		err = r.Reset(bytes.NewReader(packed))
		src, done = r, func() { gzipReaders.Put(r) }
	case codecLZ4:
		if !isLZ4Frame(packed) {
			return nil, nil, fmt.Errorf("%w: %w", errRecords, errLZ4)
		}
		r := lz4Readers.Get().(*lz4.Reader)
		r.Reset(bytes.NewReader(packed))
		src, done = r, func() { lz4Readers.Put(r) }
	case codecZstd:
		var r *zstd.Decoder
		var keep func()
		if r, keep, err = zstdStream(back); err != nil {
			break
		}
		err = r.Reset(bytes.NewReader(packed))
		src, done = r, func() {
			_ = r.Reset(nil) // lets go of the batch
			keep()
		}
	default:
		var raw []byte
		raw, err = inflate(nil, codec, packed, maxInflated)
		src, done = bytes.NewReader(raw), func() {}
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", errRecords, err)
	}
	return src, done, nil
}

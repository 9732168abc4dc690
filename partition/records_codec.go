package partition

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// Codecs, as in a batch's attributes.
const (
	codecNone   = 0
	codecGzip   = 1
	codecSnappy = 2
	codecLZ4    = 3
	codecZstd   = 4
)

// maxInflated is how many bytes the records of one batch may be, decompressed.
const maxInflated = 128 << 20

var errBomb = fmt.Errorf("%w: decompressed they are too many bytes", errRecords)

// inflate appends what src decompresses to, at most limit bytes.
func inflate(dst []byte, codec uint16, src []byte, limit int) (out []byte, err error) {
	switch codec {
	case codecNone:
		return append(dst, src...), nil
	case codecGzip:
		out, err = inflateGzip(dst, src, limit)
	case codecSnappy:
		out, err = inflateSnappy(dst, src, limit)
	case codecLZ4:
		out, err = inflateLZ4(dst, src, limit)
	case codecZstd:
		out, err = inflateZstd(dst, src, limit)
	default:
		err = fmt.Errorf("codec %d is unknown", codec)
	}
	if err != nil && !errors.Is(err, errRecords) {
		err = fmt.Errorf("%w: %w", errRecords, err)
	}
	return out, err
}

var (
	gzipReaders sync.Pool
	lz4Readers  = sync.Pool{New: func() any { return lz4.NewReader(nil) }}
)

// zstdReader may be used by any number of goroutines, and zstdSmall, which decompresses into
// what room it is given and no further.
var (
	zstdReader = sync.OnceValues(func() (*zstd.Decoder, error) { return newZstdReader(false) })
	zstdSmall  = sync.OnceValues(func() (*zstd.Decoder, error) { return newZstdReader(true) })
)

func newZstdReader(within bool) (*zstd.Decoder, error) {
	return zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxMemory(maxInflated), zstd.WithDecodeAllCapLimit(within))
}

// readAll appends what r gives, at most limit bytes. What is more is returned with its error,
// for the sake of its buffer.
func readAll(dst []byte, r io.Reader, limit int) ([]byte, error) {
	from := len(dst)
	for {
		if len(dst) == cap(dst) { // growing by little would leave a lot behind
			dst = slices.Grow(dst, max(firstRoom, min(3*len(dst), limit+1-(len(dst)-from))))
		}
		n, err := r.Read(dst[len(dst):cap(dst)])
		dst = dst[:len(dst)+n]
		switch {
		case len(dst)-from > limit:
			return dst, errBomb
		case errors.Is(err, io.EOF):
			return dst, nil
		case err != nil:
			return nil, err
		}
	}
}

func inflateGzip(dst, src []byte, limit int) ([]byte, error) {
	r, _ := gzipReaders.Get().(*gzip.Reader)
	if r == nil {
		r = new(gzip.Reader)
	}
	if err := r.Reset(bytes.NewReader(src)); err != nil {
		return nil, err
	}
	defer gzipReaders.Put(r)
	return readAll(dst, r, limit)
}

var errLZ4 = errors.New("not one lz4 frame of independent blocks")

func inflateLZ4(dst, src []byte, limit int) ([]byte, error) {
	if !isLZ4Frame(src) {
		return nil, errLZ4
	}
	r := lz4Readers.Get().(*lz4.Reader)
	defer lz4Readers.Put(r)
	r.Reset(bytes.NewReader(src))
	return readAll(dst, r, limit)
}

// isLZ4Frame reports whether src is one frame and nothing else, as Kafka's decoder reads
// it: magic, flags, block sizes, content size if there is one, header checksum; blocks,
// each with its length before it and perhaps a checksum behind; a length of zero, and
// perhaps a checksum of the content. The library's reader takes more: what is to be
// skipped, frames of the old format, frames that follow one another. What is within
// header and blocks is left to it.
func isLZ4Frame(src []byte) bool {
	const (
		magic       = 0x184D2204
		contentSum  = 1 << 2
		contentSize = 1 << 3
		blockSum    = 1 << 4
		independent = 1 << 5
	)
	if len(src) < 7 || binary.LittleEndian.Uint32(src) != magic || src[4]&independent == 0 {
		return false
	}
	flags, header, sum, end := src[4], 7, 0, 0
	if flags&contentSize != 0 {
		header += 8
	}
	if flags&blockSum != 0 {
		sum = 4
	}
	if flags&contentSum != 0 {
		end = 4
	}
	for at := header; at+4 <= len(src); {
		length := binary.LittleEndian.Uint32(src[at:])
		at += 4
		if length == 0 {
			return at+end == len(src)
		}
		n := int(length &^ (1 << 31)) // the bit says that the block is not compressed
		if n == 0 || n > len(src)-at {
			return false
		}
		at += n + sum
	}
	return false
}

func inflateZstd(dst, src []byte, limit int) ([]byte, error) {
	var h zstd.Header
	if err := h.Decode(src); err != nil {
		return nil, err
	}
	if h.HasFCS && h.FrameContentSize > uint64(limit) {
		return nil, errBomb
	}
	if limit <= wholeMost {
		return inflateZstdWithin(dst, src, limit)
	}
	d, err := zstdReader()
	if err != nil {
		return nil, err
	}
	out, err := d.DecodeAll(src, dst)
	if errors.Is(err, zstd.ErrDecoderSizeExceeded) || err == nil && len(out)-len(dst) > limit {
		return nil, errBomb
	}
	return out, err
}

// firstRoom is how much room a frame is given at first whose size is not known.
const firstRoom = 64 << 10

// inflateZstdWithin makes room only for as much as there turns out to be.
func inflateZstdWithin(dst, src []byte, limit int) ([]byte, error) {
	d, err := zstdSmall()
	if err != nil {
		return nil, err
	}
	from := len(dst)
	for room := max(cap(dst)-from, firstRoom); ; room *= 8 {
		room = min(room, limit)
		dst = slices.Grow(dst, room)
		out, err := d.DecodeAll(src, dst[:from:from+room])
		switch {
		case err == nil:
			return out, nil
		case room < limit: // whatever it is: the library has several words for too little room
		case limit == wholeMost || errors.Is(err, zstd.ErrDecoderSizeExceeded):
			return dst, errBomb // or damaged, which is found out where there is room enough
		default:
			return nil, err
		}
	}
}

// Snappy comes as one block, or framed as by the Java library: 8 bytes of magic, two
// version numbers, then blocks with their length before them.
var xerialMagic = []byte{0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0}

const (
	xerialHeader = 16
	xerialBlock  = 32 << 10
)

func inflateSnappy(dst, src []byte, limit int) ([]byte, error) {
	if !bytes.HasPrefix(src, xerialMagic) {
		return inflateBlock(dst, src, limit)
	}
	if len(src) < xerialHeader {
		return nil, io.ErrUnexpectedEOF
	}
	from := len(dst)
	for src = src[xerialHeader:]; len(src) > 0; {
		if len(src) < 4 || uint64(binary.BigEndian.Uint32(src)) > uint64(len(src)-4) {
			return nil, io.ErrUnexpectedEOF
		}
		n := int(binary.BigEndian.Uint32(src))
		var err error
		if dst, err = inflateBlock(dst, src[4:4+n], limit-(len(dst)-from)); err != nil {
			return nil, err
		}
		src = src[4+n:]
	}
	return dst, nil
}

func inflateBlock(dst, src []byte, limit int) ([]byte, error) {
	n, err := s2.DecodedLen(src)
	if err != nil {
		return nil, err
	}
	// A block grows 22-fold at the very most: 64 bytes are copied for three.
	if n > limit || n > 22*(len(src)+64) {
		return nil, errBomb
	}
	at := len(dst)
	if cap(dst)-at < n {
		dst = append(make([]byte, 0, max(at+n, 2*cap(dst))), dst...)
	}
	if _, err := s2.Decode(dst[at:at+n:at+n], src); err != nil {
		return nil, err
	}
	return dst[:at+n], nil
}

// deflate appends src, compressed. The level is that of the codec's compression.*.level.
func deflate(dst []byte, codec uint16, level int, src []byte) ([]byte, error) {
	switch codec {
	case codecNone:
		return append(dst, src...), nil
	case codecGzip:
		return deflateGzip(dst, level, src)
	case codecSnappy:
		return deflateSnappy(dst, src), nil
	case codecLZ4:
		return deflateLZ4(dst, level, src)
	case codecZstd:
		return deflateZstd(dst, level, src)
	}
	return nil, fmt.Errorf("codec %d is unknown", codec)
}

// sink is an io.Writer that appends.
type sink struct{ b []byte }

func (s *sink) Write(p []byte) (int, error) {
	s.b = append(s.b, p...)
	return len(p), nil
}

func deflateGzip(dst []byte, level int, src []byte) ([]byte, error) {
	out := &sink{dst}
	w, err := gzip.NewWriterLevel(out, level)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(src); err != nil {
		return nil, err
	}
	err = w.Close()
	return out.b, err
}

func deflateSnappy(dst, src []byte) []byte {
	dst = append(dst, xerialMagic...)
	dst = binary.BigEndian.AppendUint32(dst, 1)
	dst = binary.BigEndian.AppendUint32(dst, 1)
	for len(src) > 0 {
		n := min(len(src), xerialBlock)
		at := len(dst)
		dst = append(dst, make([]byte, 4+s2.MaxEncodedLen(n))...)
		block := s2.EncodeSnappy(dst[at+4:], src[:n])
		binary.BigEndian.PutUint32(dst[at:], uint32(len(block)))
		dst, src = dst[:at+4+len(block)], src[n:]
	}
	return dst
}

// lz4Levels are this library's, by ninths of the 17 that Kafka knows.
var lz4Levels = []lz4.CompressionLevel{lz4.Fast, lz4.Level1, lz4.Level2, lz4.Level3, lz4.Level4, lz4.Level5, lz4.Level6, lz4.Level7, lz4.Level8, lz4.Level9}

func deflateLZ4(dst []byte, level int, src []byte) ([]byte, error) {
	out := &sink{dst}
	w := lz4.NewWriter(out)
	l := lz4Levels[min(max(level, 0), 17)/2]
	if err := w.Apply(lz4.BlockSizeOption(lz4.Block64Kb), lz4.ChecksumOption(false), lz4.CompressionLevelOption(l)); err != nil {
		return nil, err
	}
	if _, err := w.Write(src); err != nil {
		return nil, err
	}
	err := w.Close()
	return out.b, err
}

// zstdWriters has an encoder for each level, which any number of goroutines may use.
var zstdWriters sync.Map

func deflateZstd(dst []byte, level int, src []byte) ([]byte, error) {
	l := zstd.EncoderLevelFromZstd(level)
	w, ok := zstdWriters.Load(l)
	if !ok {
		e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(l), zstd.WithEncoderConcurrency(2), zstd.WithLowerEncoderMem(true), zstd.WithEncoderCRC(false))
		if err != nil {
			return nil, err
		}
		w, _ = zstdWriters.LoadOrStore(l, e)
	}
	return w.(*zstd.Encoder).EncodeAll(src, dst), nil
}

package partition

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// Codecs, as bits of a batch's attributes.
const (
	gzipCodec   = 1
	snappyCodec = 2
	lz4Codec    = 3
	zstdCodec   = 4
)

// maxSnappyBlock bounds what one snappy block may grow to: it is decompressed whole.
const maxSnappyBlock = 32 << 20

// recordReader reads a batch's records as one stream, whatever their codec.
type recordReader struct {
	*bufio.Reader
	close func()
}

func (b batch) records() (*recordReader, error) {
	src, done := io.Reader(bytes.NewReader(b[batchHeader:])), func() {}
	var err error
	switch codec := b.attrs() & attrCodec; codec {
	case 0:
	case gzipCodec:
		src, err = gzip.NewReader(src)
	case snappyCodec:
		src, err = newSnappyReader(b[batchHeader:])
	case lz4Codec:
		src = lz4.NewReader(src)
	case zstdCodec:
		src, done, err = newZstdReader(b[batchHeader:])
	default:
		err = fmt.Errorf("codec %d is unknown", codec)
	}
	if err != nil {
		return nil, err
	}
	return &recordReader{bufio.NewReaderSize(src, 4<<10), done}, nil
}

// A zstd window up to zstdWindow is kept while reading; it is that of Kafka's levels up
// to 19. Above it the whole is decompressed, up to zstdWhole, so that what a frame only
// claims takes no memory.
const (
	zstdWindow = 8 << 20
	zstdWhole  = 64 << 20
)

func newZstdReader(src []byte) (r io.Reader, done func(), err error) {
	var h zstd.Header
	if err := h.Decode(src); err != nil {
		return nil, nil, err
	}
	one := zstd.WithDecoderConcurrency(1) // no goroutines
	if h.WindowSize <= zstdWindow {
		d, err := zstd.NewReader(bytes.NewReader(src), one, zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(zstdWindow))
		if err != nil {
			return nil, nil, err
		}
		return d, d.Close, nil
	}
	d, err := zstd.NewReader(nil, one, zstd.WithDecoderMaxMemory(zstdWhole))
	if err != nil {
		return nil, nil, err
	}
	defer d.Close()
	raw, err := d.DecodeAll(src, nil)
	return bytes.NewReader(raw), func() {}, err
}

// varint reads a number and tells how many bytes it took.
func (r *recordReader) varint() (n int64, width int, err error) {
	var u uint64
	for shift := 0; shift < 64; shift += 7 {
		c, err := r.ReadByte()
		if err != nil {
			return 0, width, unexpected(err)
		}
		width++
		u |= uint64(c&0x7f) << shift
		if c < 0x80 {
			return int64(u>>1) ^ -int64(u&1), width, nil
		}
	}
	return 0, width, errors.New("a number does not end")
}

// snappyReader reads one snappy block, or the framing that Java clients put around
// blocks: a magic, two versions, then blocks with their length before them.
type snappyReader struct {
	blocks []byte // what is left
	framed bool
	out    bytes.Reader
}

var snappyMagic = []byte("\x82SNAPPY\x00")

const snappyHeader = 16

func newSnappyReader(src []byte) (io.Reader, error) {
	s := &snappyReader{blocks: src}
	if bytes.HasPrefix(src, snappyMagic) {
		if len(src) < snappyHeader {
			return nil, io.ErrUnexpectedEOF
		}
		s.framed, s.blocks = true, src[snappyHeader:]
	}
	return s, nil
}

func (s *snappyReader) Read(p []byte) (int, error) {
	for s.out.Len() == 0 {
		block, err := s.next()
		if err != nil {
			return 0, err
		}
		n, err := snappy.DecodedLen(block)
		if err != nil {
			return 0, err
		}
		if n > maxSnappyBlock {
			return 0, fmt.Errorf("a snappy block claims %d bytes", n)
		}
		raw, err := snappy.Decode(nil, block)
		if err != nil {
			return 0, err
		}
		s.out.Reset(raw)
	}
	return s.out.Read(p)
}

func (s *snappyReader) next() (block []byte, err error) {
	if len(s.blocks) == 0 {
		return nil, io.EOF
	}
	block, s.blocks = s.blocks, nil
	if !s.framed {
		return block, nil
	}
	if len(block) < 4 {
		return nil, io.ErrUnexpectedEOF
	}
	n, rest := int64(binary.BigEndian.Uint32(block)), block[4:]
	if n > int64(len(rest)) {
		return nil, io.ErrUnexpectedEOF
	}
	s.blocks = rest[n:]
	return rest[:n], nil
}

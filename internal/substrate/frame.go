package substrate

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/vmihailenco/msgpack/v5"
)

// Kind is the four letters that tell what a framed file is.
type Kind [4]byte

// The kinds of file this package writes. Entry and Head belong to metalog, but
// claim reads an entry's closed flag.
var (
	KindVolume  = Kind{'v', 'o', 'l', 'm'}
	KindSession = Kind{'s', 'e', 's', 's'}
	KindClaim   = Kind{'c', 'l', 'a', 'm'}
	KindEntry   = Kind{'e', 'n', 't', 'r'}
	KindHead    = Kind{'h', 'e', 'a', 'd'}
)

// Flags of an entry's frame.
const (
	FlagBase   uint16 = 1 << 0 // the full state follows the events
	FlagClosed uint16 = 1 << 1 // the epoch's owner writes nothing after this
)

// FrameVersion is the format version this build writes and the newest it reads.
const FrameVersion = 1

const (
	frameMagic = "kaas"
	// FrameHeader is the header's length in bytes.
	FrameHeader = 24
	// MaxFrame bounds a body, so that a damaged length allocates nothing.
	MaxFrame = 1 << 30
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// CRC32C is the checksum of every kaas file and of Kafka's record batches.
func CRC32C(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// Frame is a file's header and body:
//
//	 0  4  magic "kaas"
//	 4  4  kind, four letters
//	 8  2  format version, big-endian like all that follows
//	10  2  flags
//	12  4  body length in bytes
//	16  4  CRC32C of the body
//	20  4  CRC32C of bytes 0 to 19
//	24  …  body, one msgpack value; the file ends with it
type Frame struct {
	Kind  Kind
	Flags uint16
	Body  []byte
}

// Encode returns the file's bytes.
func (f Frame) Encode() []byte {
	b := make([]byte, FrameHeader, FrameHeader+len(f.Body))
	copy(b, frameMagic)
	copy(b[4:], f.Kind[:])
	binary.BigEndian.PutUint16(b[8:], FrameVersion)
	binary.BigEndian.PutUint16(b[10:], f.Flags)
	binary.BigEndian.PutUint32(b[12:], uint32(len(f.Body)))
	binary.BigEndian.PutUint32(b[16:], CRC32C(f.Body))
	binary.BigEndian.PutUint32(b[20:], CRC32C(b[:20]))
	return append(b, f.Body...)
}

// DecodeFrame checks every byte of a file and returns its frame; Body aliases b.
// Its error is a *DamageError that names file and the offset of what is wrong.
func DecodeFrame(file string, kind Kind, b []byte) (Frame, error) {
	bad := func(off int64, format string, a ...any) (Frame, error) {
		return Frame{}, &DamageError{File: file, Offset: off, Cause: fmt.Sprintf(format, a...)}
	}
	if len(b) < FrameHeader {
		return bad(int64(len(b)), "ends within the %d byte header", FrameHeader)
	}
	if string(b[:4]) != frameMagic {
		return bad(0, "not a kaas file (magic %q)", b[:4])
	}
	if got, want := CRC32C(b[:20]), binary.BigEndian.Uint32(b[20:]); got != want {
		return bad(20, "header checksum is %08x, its bytes give %08x", want, got)
	}
	if v := binary.BigEndian.Uint16(b[8:]); v == 0 || v > FrameVersion {
		return bad(8, "format version %d; this build knows up to %d", v, FrameVersion)
	}
	if string(b[4:8]) != string(kind[:]) {
		return bad(4, "is of kind %q, want %q", b[4:8], kind[:])
	}
	n := int64(binary.BigEndian.Uint32(b[12:]))
	if n > MaxFrame {
		return bad(12, "body of %d bytes is longer than %d", n, MaxFrame)
	}
	if have := int64(len(b) - FrameHeader); have < n {
		return bad(int64(len(b)), "truncated: %d of %d body bytes", have, n)
	} else if have > n {
		return bad(FrameHeader+n, "%d bytes after the body", have-n)
	}
	body := b[FrameHeader:]
	if got, want := CRC32C(body), binary.BigEndian.Uint32(b[16:]); got != want {
		return bad(FrameHeader, "body checksum is %08x, its bytes give %08x", want, got)
	}
	return Frame{Kind: kind, Flags: binary.BigEndian.Uint16(b[10:]), Body: body}, nil
}

// EncodeFile frames v as msgpack.
func EncodeFile(kind Kind, flags uint16, v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := msgpack.NewEncoder(&buf)
	enc.SetSortMapKeys(true)
	enc.UseCompactInts(true) // a commit of offsets is little more than its entry's numbers
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("encode %s: %w", kind[:], err)
	}
	return Frame{Kind: kind, Flags: flags, Body: buf.Bytes()}.Encode(), nil
}

// DecodeFile checks a file's bytes and decodes its msgpack body into v, strictly.
func DecodeFile(file string, kind Kind, b []byte, v any) (flags uint16, err error) {
	f, err := DecodeFrame(file, kind, b)
	if err != nil {
		return 0, err
	}
	r := bytes.NewReader(f.Body)
	if err := msgpack.NewDecoder(r).Decode(v); err != nil {
		return 0, &DamageError{File: file, Offset: FrameHeader + int64(len(f.Body)-r.Len()), Cause: "msgpack: " + err.Error()}
	}
	if r.Len() != 0 {
		return 0, &DamageError{File: file, Offset: FrameHeader + int64(len(f.Body)-r.Len()), Cause: "bytes after the msgpack value"}
	}
	return f.Flags, nil
}

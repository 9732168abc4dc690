package groups

import (
	"encoding/binary"
	"errors"

	"github.com/vmihailenco/msgpack/v5"
)

var errUnsound = errors.New("is not one whole msgpack value")

// unmarshal decodes what is exactly one value. It looks at all lengths first: the library
// would allocate what a damaged one says, which may be gigabytes.
func unmarshal(b []byte, v any) error {
	if rest, ok := skip(b, 0); !ok || len(rest) > 0 {
		return errUnsound
	}
	return msgpack.Unmarshal(b, v)
}

// mostDeep is how deep values may be in one another; ours are in half as many.
const mostDeep = 16

// skip returns what is behind the first value of b.
func skip(b []byte, depth int) (rest []byte, ok bool) {
	if len(b) == 0 || depth > mostDeep {
		return nil, false
	}
	c := b[0]
	b = b[1:]
	switch {
	case c <= 0x7f, c >= 0xe0, c == 0xc0, c == 0xc2, c == 0xc3: // small numbers, nil, booleans
		return b, true
	case c == 0xc1:
		return nil, false
	case c <= 0x8f: // map
		return skipMany(b, 2*uint64(c&0x0f), depth)
	case c <= 0x9f: // array
		return skipMany(b, uint64(c&0x0f), depth)
	case c <= 0xbf: // text
		return skipBytes(b, uint64(c&0x1f))
	case c >= 0xca && c <= 0xd3: // numbers
		return skipBytes(b, uint64([]byte{4, 8, 1, 2, 4, 8, 1, 2, 4, 8}[c-0xca]))
	case c >= 0xd4 && c <= 0xd8: // extensions of fixed size
		return skipBytes(b, 1+1<<(c-0xd4))
	}
	n, b, ok := length(c, b)
	switch {
	case !ok:
		return nil, false
	case c >= 0xde:
		return skipMany(b, 2*n, depth)
	case c >= 0xdc:
		return skipMany(b, n, depth)
	case c >= 0xc7 && c <= 0xc9: // extensions have a byte for their type
		n++
	}
	return skipBytes(b, n)
}

// length reads the length behind a kind, of 1, 2 or 4 bytes.
func length(kind byte, b []byte) (n uint64, rest []byte, ok bool) {
	var size int
	switch kind {
	case 0xc4, 0xc7, 0xd9:
		size = 1
	case 0xc5, 0xc8, 0xda, 0xdc, 0xde:
		size = 2
	default:
		size = 4
	}
	if len(b) < size {
		return 0, nil, false
	}
	var wide [8]byte
	copy(wide[8-size:], b)
	return binary.BigEndian.Uint64(wide[:]), b[size:], true
}

func skipBytes(b []byte, n uint64) ([]byte, bool) {
	if n > uint64(len(b)) {
		return nil, false
	}
	return b[n:], true
}

func skipMany(b []byte, n uint64, depth int) ([]byte, bool) {
	if n > uint64(len(b)) {
		return nil, false
	}
	ok := true
	for ; n > 0 && ok; n-- {
		b, ok = skip(b, depth+1)
	}
	return b, ok
}

package metalog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/vmihailenco/msgpack/v5"

	"kaas.dev/kaas/internal/substrate"
)

// Header is the head of an entry: what comes before its reason, events and state.
type Header struct {
	Pos     substrate.Position
	Prev    substrate.Position
	Session string
	Node    int32
	Time    time.Time
}

// headBytes is how much of an entry file its head is looked for in.
const headBytes = 4096

// ReadHeader reads the head of the entry at p, however large the entry is. The file's
// checksum is not looked at, so what it says is good for finding an entry, not for
// believing it. plug reports an empty file.
func ReadHeader(v *substrate.Volume, stream string, p substrate.Position) (h *Header, plug bool, err error) {
	b, err := readHead(v, substrate.EntryPath(stream, p))
	if err == nil && len(b) == 0 {
		return nil, true, nil
	}
	if err == nil {
		if h, err = decodeHeader(stream, p, b); err == nil {
			return h, false, nil
		}
	}
	// A stale handle, a head that is longer, or damage: the whole file tells.
	e, plug, err := ReadEntry(v, stream, p)
	if err != nil || plug {
		return nil, plug, err
	}
	return &Header{e.Pos, e.Prev, e.Session, e.Node, e.Time}, false, nil
}

func readHead(v *substrate.Volume, name string) ([]byte, error) {
	f, err := glance(v, name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b := make([]byte, headBytes)
	n, err := f.ReadAt(b, 0)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return b[:n], err
}

// glance opens a file for one reading, without a promise that others would wait for.
func glance(v *substrate.Volume, name string) (substrate.File, error) {
	if g, ok := v.FS.(substrate.Glancer); ok {
		return g.Glance(name)
	}
	return v.Open(name)
}

var errNoHead = errors.New("the head of the entry is not in the first bytes of its file")

// decodeHeader reads the head from the first bytes of an entry file.
func decodeHeader(stream string, p substrate.Position, b []byte) (*Header, error) {
	if len(b) < substrate.FrameHeader || string(b[4:8]) != string(substrate.KindEntry[:]) ||
		substrate.CRC32C(b[:20]) != binary.BigEndian.Uint32(b[20:]) {
		return nil, errNoHead
	}
	d := msgpack.NewDecoder(bytes.NewReader(b[substrate.FrameHeader:]))
	n, err := d.DecodeMapLen()
	if err != nil {
		return nil, err
	}
	var body entryBody
	fields := map[string]any{"stream": &body.Stream, "pos": &body.Pos, "prev": &body.Prev, "prev_sum": &body.PrevSum,
		"session": &body.Session, "node": &body.Node, "time_ms": &body.Time}
	for found := 0; found < len(fields) && n > 0; n-- {
		key, err := d.DecodeString()
		if err != nil {
			return nil, err
		}
		to := fields[key]
		if to == nil {
			return nil, errNoHead
		}
		if err := d.Decode(to); err != nil {
			return nil, err
		}
		found++
		if found == len(fields) {
			if body.Stream != stream || body.Pos != p {
				return nil, fmt.Errorf("%w: it is of another place", errNoHead)
			}
			return &Header{body.Pos, body.Prev, body.Session, body.Node, time.UnixMilli(body.Time).UTC()}, nil
		}
	}
	return nil, errNoHead
}

package house_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/vmihailenco/msgpack/v5"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/metalog"
)

const formatDoc = "../../docs/metalog-format.md"

var update = flag.Bool("update", false, "write the dumps into docs/metalog-format.md instead of comparing them")

var dumpRE = regexp.MustCompile("(?s)(<!-- dump of ([^ ]+) -->\n```text\n)(.*?)(```\n)")

// TestFormatPageShowsTheBytes makes a small volume and compares each dump of the
// page with the file it is of.
func TestFormatPageShowsTheBytes(t *testing.T) {
	b, err := os.ReadFile(formatDoc)
	if err != nil {
		t.Fatal(err)
	}
	v := exampleVolume(t)
	seen := 0
	page := dumpRE.ReplaceAllStringFunc(string(b), func(block string) string {
		m := dumpRE.FindStringSubmatch(block)
		file, err := v.ReadFile(m[2])
		if err != nil {
			t.Fatal(err)
		}
		seen++
		want := dumpFile(file)
		if !*update && m[3] != want {
			t.Errorf("the dump of %s has drifted: run go test ./internal/house -run FormatPage -update, and read what it changes; the file is now\n%s", m[2], want)
		}
		return m[1] + want + m[4]
	})
	if seen < 6 {
		t.Errorf("the page has %d dumps, want one of each kind of file and two of entries", seen)
	}
	if *update {
		if err := os.WriteFile(formatDoc, []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// exampleVolume is a volume with one stream, whose state is a name, that one
// session has claimed and published to twice. Nothing in it is random.
func exampleVolume(t *testing.T) *substrate.Volume {
	t.Helper()
	ctx, dir := context.Background(), t.TempDir()
	fs, err := substrate.OpenDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	v := &substrate.Volume{FS: fs, NewID: func() string { n++; return fmt.Sprintf("id-%d", n) }}
	must(t, v.Init("vol"))
	now := time.UnixMilli(1_700_000_000_000).UTC()
	must(t, v.EnsureDir("meta"))
	must(t, v.EnsureDir(v.MetaDir()))
	stream := path.Join(v.MetaDir(), "pet")
	schema := petSchema()
	must(t, metalog.Ensure(v, stream, schema, "born", now))
	v.NewID = func() string { return "s1" } // so that the page is short
	s, err := v.OpenSession(substrate.Identity{Role: substrate.RoleController, NodeID: 7, Host: "h", PID: 42, Started: now})
	must(t, err)
	v.NewID = func() string { n++; return fmt.Sprintf("n%d", n) }
	n = 0
	w, err := metalog.Claim(ctx, s, stream, 1, schema, metalog.Options{Node: 7, Followed: true, Now: func() time.Time { return now }})
	must(t, err)
	for _, name := range []string{"Ada", "Bob"} {
		ev, err := metalog.NewEvent("Named", name)
		must(t, err)
		_, err = w.Publish(ctx, "rename", func(string) ([]metalog.Event, error) { return []metalog.Event{ev}, nil })
		must(t, err)
	}
	waitHead(t, v, stream, substrate.Position{Epoch: 1, Seq: 2})
	must(t, w.Abandon(ctx))
	must(t, s.Close(ctx))
	return v
}

// waitHead waits for HEAD, which is written after Publish has returned.
func waitHead(t *testing.T, v *substrate.Volume, stream string, want substrate.Position) {
	t.Helper()
	name := path.Join(stream, substrate.EpochName(want.Epoch), substrate.HeadName)
	for range 6000 { // a minute
		var head struct {
			Pos substrate.Position `msgpack:"pos"`
		}
		b, err := v.ReadFile(name)
		if err == nil {
			_, err = substrate.DecodeFile(name, substrate.KindHead, b, &head)
			must(t, err)
		}
		if head.Pos == want {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("%s does not come to name %s", name, want)
}

// petSchema is a stream whose state is one string, set by each event.
func petSchema() *metalog.Schema[string] {
	return &metalog.Schema[string]{
		New: func() string { return "" },
		Apply: func(s string, evs []metalog.Event) (string, error) {
			for _, ev := range evs {
				if err := msgpack.Unmarshal(ev.Data, &s); err != nil {
					return "", err
				}
			}
			return s, nil
		},
		Encode: func(s string) ([]byte, error) { return msgpack.Marshal(s) },
		Decode: func(b []byte) (s string, err error) { err = msgpack.Unmarshal(b, &s); return s, err },
		Known:  func(ev metalog.Event) bool { return ev.Type == "Named" },
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// dumpFile tells a framed file byte by byte: offset, bytes, meaning.
func dumpFile(b []byte) string {
	d := &dumper{b: b}
	d.row(0, 4, "magic %q", b[:4])
	d.row(0, 4, "kind %q", b[4:8])
	d.row(0, 2, "format version")
	d.row(0, 2, "flags")
	d.row(0, 4, "body length, %d", len(b)-substrate.FrameHeader)
	d.row(0, 4, "CRC32C of the body")
	d.row(0, 4, "CRC32C of bytes 0 to 19")
	d.value(0)
	if d.at != len(b) {
		d.row(0, len(b)-d.at, "not understood")
	}
	return d.out.String()
}

type dumper struct {
	b   []byte
	at  int
	out strings.Builder
}

func (d *dumper) row(depth, n int, format string, a ...any) {
	hex := fmt.Sprintf("%x", d.b[d.at:d.at+n])
	text := strings.Repeat("  ", depth) + fmt.Sprintf(format, a...)
	const wide = 28
	for first := true; first || hex != ""; first = false {
		part := hex[:min(wide, len(hex))]
		hex = hex[len(part):]
		if first {
			fmt.Fprintf(&d.out, "%4d  %-*s  %s\n", d.at, wide, part, text)
		} else {
			fmt.Fprintf(&d.out, "      %s\n", part)
		}
	}
	d.at += n
}

// value tells one msgpack value, of the kinds that kaas writes.
func (d *dumper) value(depth int) {
	if d.at == len(d.b) {
		d.out.WriteString("ends within a value\n")
		return
	}
	switch c := d.b[d.at]; {
	case c <= 0x7f:
		d.row(depth, 1, "%d", c)
	case c>>4 == 0x8:
		n := int(c & 0xf)
		d.row(depth, 1, "map of %d", n)
		for range n {
			d.value(depth + 1)
			d.value(depth + 2)
		}
	case c>>4 == 0x9:
		n := int(c & 0xf)
		d.row(depth, 1, "array of %d", n)
		for range n {
			d.value(depth + 1)
		}
	case c>>5 == 0x5:
		n := int(c & 0x1f)
		d.row(depth, 1+n, "%q", d.b[d.at+1:d.at+1+n])
	case c >= 0xe0:
		d.row(depth, 1, "%d", int8(c))
	case c == 0xc0:
		d.row(depth, 1, "nil")
	case c == 0xc4: // bytes
		n := int(d.b[d.at+1])
		d.row(depth, 2, "bytes, %d, in them:", n)
		for end := d.at + n; d.at < end; {
			d.value(depth + 1)
		}
	case c == 0xd9:
		n := int(d.b[d.at+1])
		d.row(depth, 2+n, "%q", d.b[d.at+2:d.at+2+n])
	case c >= 0xcc && c <= 0xcf: // unsigned, 1 to 8 bytes
		n := 1 << (c - 0xcc)
		d.row(depth, 1+n, "%d", d.number(n))
	case c >= 0xd0 && c <= 0xd3: // signed, 1 to 8 bytes
		n := 1 << (c - 0xd0)
		shift := 64 - 8*n
		d.row(depth, 1+n, "%d", int64(d.number(n)<<shift)>>shift)
	case c == 0xd6 || c == 0xd7: // an extension of 4 or 8 bytes
		d.row(depth, 2+(4<<(c-0xd6)), "time")
	default:
		d.row(depth, len(d.b)-d.at, "not understood")
	}
}

// number is the big-endian number of n bytes behind the kind's byte.
func (d *dumper) number(n int) uint64 {
	v := uint64(0)
	for _, b := range d.b[d.at+1 : d.at+1+n] {
		v = v<<8 | uint64(b)
	}
	return v
}

package partition

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"testing"

	"github.com/klauspost/compress/s2"
	"github.com/pierrec/lz4/v4"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"pgregory.net/rapid"
)

// kv is a record of a test; a nil value is a tombstone, a nil key none.
type kv struct {
	key, value []byte
	ts         int64
}

func str(s string) []byte { return []byte(s) }

// kvBatch makes a batch of these records with a codec.
func kvBatch(t tb, codec uint16, level int, recs ...kv) batch {
	t.Helper()
	b := batch(rec(recs[0].ts, "x"))
	var raw []byte
	maxTime := recs[0].ts
	for i, r := range recs {
		body := binary.AppendVarint([]byte{0}, r.ts-recs[0].ts)
		body = binary.AppendVarint(body, int64(i))
		for _, f := range [][]byte{r.key, r.value} {
			if f == nil {
				body = binary.AppendVarint(body, -1)
				continue
			}
			body = append(binary.AppendVarint(body, int64(len(f))), f...)
		}
		body = append(body, 0)
		raw = append(binary.AppendVarint(raw, int64(len(body))), body...)
		maxTime = max(maxTime, r.ts)
	}
	binary.BigEndian.PutUint32(b[23:], uint32(len(recs)-1))
	out, err := rebuild(b, raw, int32(len(recs)), recs[0].ts, maxTime, codec, level)
	return must(out, err)(t)
}

// kvs reads a batch's records back.
func kvs(t tb, b batch) (out []kv) {
	t.Helper()
	var l looked
	it := must(l.records(b))(t)
	var r record
	for it.next(&r) {
		out = append(out, kv{bytes.Clone(r.key), bytes.Clone(r.value), b.timeOf(&r)})
		if len(r.key) == 0 && r.key != nil {
			out[len(out)-1].key = []byte{}
		}
		if len(r.value) == 0 && r.value != nil {
			out[len(out)-1].value = []byte{}
		}
	}
	ok(t, it.err)
	return out
}

func TestRecordsRoundTrip(t *testing.T) {
	field := rapid.OneOf(rapid.Just([]byte(nil)), rapid.SliceOfN(rapid.Byte(), 0, 300), rapid.Map(rapid.IntRange(0, 100_000), func(n int) []byte { return make([]byte, n) }))
	rapid.Check(t, func(t *rapid.T) {
		recs := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) kv {
			return kv{field.Draw(t, "key"), field.Draw(t, "value"), rapid.Int64Range(-1, 1<<45).Draw(t, "time")}
		}), 1, 8).Draw(t, "records")
		codec := rapid.Uint16Range(0, 4).Draw(t, "codec")
		level := map[uint16][]int{0: {0}, codecGzip: {-1, 1, 9}, codecSnappy: {0}, codecLZ4: {1, 9, 17}, codecZstd: {-131072, 3, 22}}[codec]
		b := kvBatch(t, codec, rapid.SampledFrom(level).Draw(t, "level"), recs...)
		if b.size() != int64(len(b)) || b.sum() != b.crc() || b.attrs()&attrCodec != codec {
			t.Fatalf("header %x", b[:batchHeader])
		}
		if got := kvs(t, b); !slices.EqualFunc(got, recs, sameKV) {
			t.Fatalf("got %v, want %v", got, recs)
		}
		// Another base time changes no record's time.
		var l looked
		it := must(l.records(b))(t)
		var r record
		var raw []byte
		for it.next(&r) {
			raw = appendRecord(raw, &r, b.timeOf(&r)-99)
		}
		c := must(rebuild(b, raw, b.count(), 99, b.maxTime(), b.attrs(), 1))(t)
		if got := kvs(t, c); !slices.EqualFunc(got, recs, sameKV) {
			t.Fatalf("got %v, want %v", got, recs)
		}
	})
}

func sameKV(a, b kv) bool {
	return bytes.Equal(a.key, b.key) && (a.key == nil) == (b.key == nil) && bytes.Equal(a.value, b.value) && (a.value == nil) == (b.value == nil) && a.ts == b.ts
}

// What other clients compress is read; what is compressed here, others read.
func TestCodecsAgreeWithAClient(t *testing.T) {
	src := bytes.Repeat([]byte("the same words again and again, "), 5000)
	for codec, kc := range map[uint16]kgo.CompressionCodec{codecGzip: kgo.GzipCompression(), codecSnappy: kgo.SnappyCompression(), codecLZ4: kgo.Lz4Compression(), codecZstd: kgo.ZstdCompression()} {
		c, err := kgo.DefaultCompressor(kc)
		ok(t, err)
		packed, typ := c.Compress(&bytes.Buffer{}, src)
		if uint16(typ) != codec {
			t.Fatalf("codec %d is %d there", codec, typ)
		}
		if got := must(inflate(nil, codec, packed, 1<<20))(t); !bytes.Equal(got, src) {
			t.Errorf("codec %d: decompressed differently", codec)
		}
		ours := must(deflate(nil, codec, 1, src))(t)
		if got := must(kgo.DefaultDecompressor().Decompress(ours, kgo.CompressionCodecType(codec)))(t); !bytes.Equal(got, src) {
			t.Errorf("codec %d: a client decompresses differently", codec)
		}
	}
	if got := must(inflate(nil, codecSnappy, s2.EncodeSnappy(nil, src), 1<<20))(t); !bytes.Equal(got, src) {
		t.Error("a raw block of snappy is decompressed differently")
	}
}

func TestBombsAreBounded(t *testing.T) {
	src := make([]byte, 1<<20)
	for codec := uint16(1); codec <= 4; codec++ {
		packed := must(deflate(nil, codec, 1, src))(t)
		if _, err := inflate(nil, codec, packed, len(src)); err != nil {
			t.Errorf("codec %d: %v", codec, err)
		}
		if _, err := inflate(nil, codec, packed, len(src)-1); !errors.Is(err, errRecords) {
			t.Errorf("codec %d: a byte too many gives %v", codec, err)
		}
		if _, err := inflate(nil, codec, packed[:len(packed)/2], len(src)); !errors.Is(err, errRecords) {
			t.Errorf("codec %d: half of it gives %v", codec, err)
		}
	}
	// A snappy block may claim any length.
	if _, err := inflate(nil, codecSnappy, []byte{0xff, 0xff, 0xff, 0x3f, 0}, 1<<30); !errors.Is(err, errRecords) {
		t.Errorf("a block that claims a gigabyte gives %v", err)
	}
}

func TestIterationDoesNotAllocate(t *testing.T) {
	var recs []kv
	for range 100 {
		recs = append(recs, kv{str("key"), str("value"), 1})
	}
	b := kvBatch(t, 0, 0, recs...)
	n := 0
	if got := testing.AllocsPerRun(10, func() {
		var l looked
		it, err := l.records(b)
		ok(t, err)
		var r record
		for it.next(&r) {
			n += len(r.key)
		}
	}); got > 0 {
		t.Errorf("%v allocations for 100 records", got)
	}
}

func FuzzRecords(f *testing.F) {
	for codec := uint16(0); codec <= 4; codec++ {
		b := kvBatch(f, codec, 1, kv{str("k"), str("v"), 5}, kv{nil, nil, 6})
		f.Add(codec, []byte(b[batchHeader:]))
	}
	f.Fuzz(func(t *testing.T, codec uint16, data []byte) {
		raw, err := inflate(nil, codec%5, data, 1<<20)
		if err != nil {
			return
		}
		if len(raw) > 1<<20 && codec%5 != 0 {
			t.Fatalf("%d bytes", len(raw))
		}
		it := recordIter{rest: raw}
		var r record
		for it.next(&r) {
			if len(r.raw) == 0 || len(r.key)+len(r.value) > len(r.raw) {
				t.Fatalf("record of %d bytes with key %d and value %d", len(r.raw), len(r.key), len(r.value))
			}
		}
	})
}

// P-08: a record without a key is refused on a compacted topic, with its index, also
// within a compressed batch, and nothing is stored.
func TestKeylessOnCompactedTopic(t *testing.T) {
	cfg := testConfig()
	cfg.Cleanup.Compact = true
	p := open(t, newSession(t, simVolume(t)), 1, cfg)
	abandon(t, p)
	for codec := uint16(0); codec <= 4; codec++ {
		_, err := p.Append(context.Background(), kvBatch(t, codec, 1, kv{str("a"), str("v"), 1}, kv{nil, str("v"), 1}, kv{nil, str("v"), 1}))
		wantCode(t, err, kerr.InvalidRecord)
		var re *RecordsError
		if !errors.As(err, &re) || len(re.Records) != 2 || re.Records[0].Index != 1 || re.Records[1].Index != 2 {
			t.Errorf("codec %d: %v does not name records 1 and 2", codec, err)
		}
	}
	if p.mu.next != 0 {
		t.Fatalf("offsets were given: the next is %d", p.mu.next)
	}
	for codec := uint16(0); codec <= 4; codec++ {
		if got := appendOne(t, p, kvBatch(t, codec, 1, kv{str("a"), nil, 1}, kv{[]byte{}, str("v"), 1})); got != 2*int64(codec) {
			t.Fatalf("offset %d", got)
		}
	}
	bad := kvBatch(t, 0, 0, kv{str("a"), nil, 1})
	_, err := p.Append(context.Background(), reseal(bad[:len(bad)-1]))
	wantCode(t, err, kerr.InvalidRecord)
}

// compression.type: batches of another codec are compressed anew, those of the same are
// stored as they came.
func TestRecompression(t *testing.T) {
	recs := []kv{{str("a"), bytes.Repeat([]byte("x"), 1000), 5}, {nil, nil, 9}}
	for name, codec := range codecNames {
		cfg := testConfig()
		cfg.Compression = Compression{Type: name, GzipLevel: 9, LZ4Level: 9, ZstdLevel: 3}
		p := open(t, newSession(t, simVolume(t)), 1, cfg)
		for from := uint16(0); from <= 4; from++ {
			sent := kvBatch(t, from, 1, recs...)
			want := slices.Clone(sent)
			at := appendOne(t, p, sent)
			got := read(t, p, at)[0]
			if got.attrs()&attrCodec != codec || !slices.EqualFunc(kvs(t, got), recs, sameKV) || got.maxTime() != 9 {
				t.Errorf("%s from codec %d: stored with attributes %x: %v", name, from, got.attrs(), kvs(t, got))
			}
			if from == codec && !bytes.Equal(got[crcFrom:], want[crcFrom:]) {
				t.Errorf("%s: a batch of that codec was changed", name)
			}
		}
		ok(t, p.Relinquish(context.Background()))
	}
}

func BenchmarkIterate(b *testing.B) {
	var recs []kv
	for range 1000 {
		recs = append(recs, kv{str("a key of some length"), make([]byte, 100), 1})
	}
	for codec := uint16(0); codec <= 4; codec++ {
		x := kvBatch(b, codec, 1, recs...)
		b.Run([]string{"none", "gzip", "snappy", "lz4", "zstd"}[codec], func(b *testing.B) {
			var l looked
			b.ReportAllocs()
			for b.Loop() {
				it, err := l.records(x)
				ok(b, err)
				var r record
				for it.next(&r) {
				}
			}
			b.SetBytes(int64(len(recs) * 130))
		})
	}
}

// TestLZ4IsOneFrame: what the decoder here reads and a consumer's does not is refused,
// by inflate and so by every append.
func TestLZ4IsOneFrame(t *testing.T) {
	p := open(t, newSession(t, dirVolume(t)), 1, testConfig())
	abandon(t, p)
	sent := batch(rec(5, "a", "b"))
	src := []byte(sent[batchHeader:])
	frame := func(src []byte, opts ...lz4.Option) []byte {
		var buf bytes.Buffer
		w := lz4.NewWriter(&buf)
		ok(t, w.Apply(opts...))
		_, err := w.Write(src)
		ok(t, errors.Join(err, w.Close()))
		return buf.Bytes()
	}
	plain := frame(src)
	skip := append(binary.LittleEndian.AppendUint32([]byte{0x50, 0x2a, 0x4d, 0x18}, 3), 1, 2, 3)
	// Linked blocks: the flag goes, and the header's checksum is made anew.
	linked := bytes.Clone(plain)
	linked[4] &^= 1 << 5
	for sum := 0; sum < 256; sum++ {
		linked[6] = byte(sum)
		if valid, _ := lz4.ValidFrameHeader(linked); valid {
			break
		}
	}
	// A block of no bytes: the end for some, and nothing for others.
	empty := append(append(bytes.Clone(plain[:7]), 0, 0, 0, 0x80), plain[7:]...)
	for what, tc := range map[string]struct {
		raw   []byte
		sound bool
	}{
		"plain":                 {plain, true},
		"with checksums":        {frame(src, lz4.ChecksumOption(true), lz4.BlockChecksumOption(true)), true},
		"with its size":         {frame(src, lz4.SizeOption(uint64(len(src))), lz4.ChecksumOption(false)), true},
		"large blocks":          {frame(src, lz4.BlockSizeOption(lz4.Block4Mb)), true},
		"legacy":                {frame(src, lz4.LegacyOption(true)), false},
		"skippable first":       {slices.Concat(skip, plain), false},
		"skippable last":        {slices.Concat(plain, skip), false},
		"two frames":            {slices.Concat(frame(src[:5]), frame(src[5:])), false},
		"an empty frame behind": {slices.Concat(plain, frame(nil)), false},
		"a byte behind":         {slices.Concat(plain, []byte{0}), false},
		"no end mark":           {frame(src, lz4.ChecksumOption(false))[:len(frame(src, lz4.ChecksumOption(false)))-4], false},
		"linked blocks":         {linked, false},
		"an empty block":        {empty, false},
		"nothing":               {nil, false},
		"half a header":         {plain[:6], false},
	} {
		got, err := inflate(nil, codecLZ4, tc.raw, 1<<20)
		if tc.sound && (err != nil || !bytes.Equal(got, src)) || !tc.sound && !errors.Is(err, errRecords) {
			t.Errorf("%s: %d bytes, %v", what, len(got), err)
		}
		_, err = p.Append(context.Background(), withRecords(sent, tc.raw, codecLZ4))
		if tc.sound {
			ok(t, err)
		} else if err == nil {
			t.Errorf("%s: stored", what)
		} else {
			wantCode(t, err, kerr.InvalidRecord)
		}
	}
}

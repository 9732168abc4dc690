package partition

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// compressed is b with its records compressed by another implementation.
func compressed(t testing.TB, b batch, codec kgo.CompressionCodec, bits uint16) batch {
	t.Helper()
	c, err := kgo.DefaultCompressor(codec)
	ok(t, err)
	var buf bytes.Buffer
	raw, _ := c.Compress(&buf, b[batchHeader:])
	return withRecords(b, raw, bits)
}

func withRecords(b batch, records []byte, bits uint16) batch {
	out := append(bytes.Clone(b[:batchHeader]), records...)
	binary.BigEndian.PutUint16(out[21:], bits)
	return reseal(out)
}

// framedSnappy puts Java's framing around blocks of at most size bytes.
func framedSnappy(records []byte, size int) []byte {
	out := append([]byte("\x82SNAPPY\x00"), 0, 0, 0, 1, 0, 0, 0, 1)
	for len(records) > 0 {
		n := min(size, len(records))
		block := snappy.Encode(nil, records[:n])
		out = binary.BigEndian.AppendUint32(out, uint32(len(block)))
		out, records = append(out, block...), records[n:]
	}
	return out
}

// wideZstd compresses with a window of 32 MiB, as the highest levels do.
func wideZstd(t testing.TB, records []byte) []byte {
	t.Helper()
	var buf bytes.Buffer
	w, err := zstd.NewWriter(&buf, zstd.WithWindowSize(32<<20), zstd.WithEncoderConcurrency(1))
	ok(t, err)
	_, err = w.Write(records[:1])
	ok(t, errors.Join(err, w.Flush()))
	_, err = w.Write(records[1:])
	ok(t, errors.Join(err, w.Close()))
	var h zstd.Header
	ok(t, h.Decode(buf.Bytes()))
	if h.WindowSize <= 8<<20 {
		t.Fatalf("the window is only %d", h.WindowSize)
	}
	return buf.Bytes()
}

func everyCodec(t testing.TB, b batch) map[string]batch {
	return map[string]batch{
		"none":          bytes.Clone(b), // Append writes offsets into it, and may after it has returned
		"gzip":          compressed(t, b, kgo.GzipCompression(), codecGzip),
		"snappy":        compressed(t, b, kgo.SnappyCompression(), codecSnappy),
		"framed snappy": withRecords(b, framedSnappy(b[batchHeader:], 7), codecSnappy),
		"lz4":           compressed(t, b, kgo.Lz4Compression(), codecLZ4),
		"zstd":          compressed(t, b, kgo.ZstdCompression(), codecZstd),
		"wide zstd":     withRecords(b, wideZstd(t, b[batchHeader:]), codecZstd),
	}
}

// A record out of bounds refuses its batch and is named, in every codec.
func TestTimestampBounds(t *testing.T) {
	now := testTime.UnixMilli()
	cfg := testConfig()
	cfg.Now = func() time.Time { return testTime }
	cfg.TimestampBeforeMax, cfg.TimestampAfterMax = 2*time.Millisecond, 2*time.Millisecond
	p := open(t, newSession(t, dirVolume(t)), 1, cfg)
	abandon(t, p)
	for _, tc := range []struct {
		first int64 // each record is a millisecond after the one before
		n     int
		bad   []int32
	}{
		{now - 2, 5, nil}, {now - 3, 5, []int32{0}}, {now - 2, 6, []int32{5}}, {now - 4, 9, []int32{0, 1, 7, 8}}, {now + 3, 1, []int32{0}},
		{noTimestamp, 1, nil}, {math.MaxInt64 - 1, 1, []int32{0}}, {math.MinInt64, 1, []int32{0}},
	} {
		for name, b := range everyCodec(t, rec(tc.first, strings.Split(strings.Repeat("v,", tc.n-1)+"v", ",")...)) {
			before, _, _ := p.Offsets()
			a, err := p.Append(context.Background(), b)
			if tc.bad == nil {
				ok(t, err)
				ok(t, a.Wait(context.Background()))
				continue
			}
			wantCode(t, err, kerr.InvalidTimestamp)
			var re *RecordsError
			if !errors.As(err, &re) || len(re.Records) != len(tc.bad) {
				t.Fatalf("%s from %d: %v", name, tc.first, err)
			}
			for i, r := range re.Records {
				if r.Index != tc.bad[i] || r.Message == "" {
					t.Fatalf("%s from %d: record %+v, want index %d", name, tc.first, r, tc.bad[i])
				}
			}
			if after, _, _ := p.Offsets(); after != before {
				t.Fatalf("%s: the log moved", name)
			}
		}
	}
}

// What a header claims is bounded too, and records that do not parse are refused.
func TestTimestampBoundsOfLiars(t *testing.T) {
	cfg := testConfig()
	cfg.Now = func() time.Time { return testTime }
	cfg.TimestampBeforeMax, cfg.TimestampAfterMax = time.Hour, time.Hour
	p := open(t, newSession(t, dirVolume(t)), 1, cfg)
	abandon(t, p)
	now := testTime.UnixMilli()
	sound := func() batch { return rec(now, "a", "b") }
	liar := sound()
	binary.BigEndian.PutUint64(liar[35:], uint64(testTime.Add(2*time.Hour).UnixMilli()))
	_, err := p.Append(context.Background(), reseal(liar))
	wantCode(t, err, kerr.InvalidTimestamp)
	for name, b := range everyCodec(t, sound()) {
		if name == "none" {
			continue
		}
		_, err := p.Append(context.Background(), withRecords(b, b[batchHeader:(batchHeader+len(b))/2], b.attrs()))
		wantCode(t, err, kerr.InvalidRecord)
	}
	huge := binary.AppendUvarint(nil, 1<<31) // a block that claims 2 GiB
	for _, raw := range [][]byte{{}, {0xff}, huge, bytes.Repeat([]byte{0x80}, 20)} {
		for bits := range uint16(5) {
			_, err := p.Append(context.Background(), withRecords(sound(), raw, bits))
			wantCode(t, err, kerr.InvalidRecord)
		}
	}
}

// The broker's clock is the time of a topic with append times, however wrong the
// producer's, and a producer may not claim to be the broker.
func TestAppendTimeKnowsNoBounds(t *testing.T) {
	for _, appendTime := range []bool{false, true} {
		cfg := testConfig()
		cfg.LogAppendTime, cfg.TimestampAfterMax, cfg.TimestampBeforeMax = appendTime, time.Hour, time.Hour
		p := open(t, newSession(t, dirVolume(t)), 1, cfg)
		abandon(t, p)
		_, err := p.Append(context.Background(), rec(5, "old"))
		if appendTime {
			ok(t, err)
		} else {
			wantCode(t, err, kerr.InvalidTimestamp)
		}
		claims := rec(time.Now().UnixMilli(), "a")
		binary.BigEndian.PutUint16(claims[21:], attrLogAppendTime)
		_, err = p.Append(context.Background(), reseal(claims))
		wantCode(t, err, kerr.InvalidTimestamp)
	}
}

// A timestamp that overflows has no meaning, and must not become the batch's largest.
func TestTimestampOverflow(t *testing.T) {
	at := func(base int64, deltas ...int64) batch {
		var recs []kv
		for _, d := range deltas {
			recs = append(recs, kv{ts: d})
		}
		b := kvBatch(t, codecNone, 0, recs...) // its deltas count from the first
		binary.BigEndian.PutUint64(b[27:], uint64(base))
		binary.BigEndian.PutUint64(b[35:], 5) // nothing to worry about
		return reseal(b)
	}
	for _, bounded := range []bool{false, true} {
		cfg := testConfig()
		cfg.Now = func() time.Time { return testTime }
		if bounded {
			cfg.TimestampAfterMax, cfg.TimestampBeforeMax = time.Hour, 1<<62
		}
		p := open(t, newSession(t, dirVolume(t)), 1, cfg)
		abandon(t, p)
		for what, b := range map[string]batch{
			"above":                     at(math.MaxInt64-10, 0, 11),
			"above, and a smaller last": at(math.MaxInt64-10, 0, 11, 1),
			"below":                     at(math.MinInt64+10, 0, -11),
			"far below":                 at(-2, 0, math.MinInt64),
		} {
			for name, b := range everyCodec(t, b) {
				_, err := p.Append(context.Background(), b)
				if err == nil {
					t.Errorf("%s, %s: stored", name, what)
					continue
				}
				wantCode(t, err, kerr.InvalidTimestamp)
			}
		}
		if !bounded {
			appendOne(t, p, at(math.MaxInt64-10, 0, 10))
			if b := read(t, p, 0)[0]; b.maxTime() != math.MaxInt64 {
				t.Errorf("the largest is %d", b.maxTime())
			}
		}
	}
}

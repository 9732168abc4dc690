package partition

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

// TestPoisonIsRefused: records that no consumer could read, and counts that lie, are
// refused on every topic and in every codec; nothing is stored.
func TestPoisonIsRefused(t *testing.T) {
	p := open(t, newSession(t, dirVolume(t)), 1, testConfig())
	abandon(t, p)
	sound := rec(0, "a", "b")
	for name, b := range everyCodec(t, sound) {
		for what, bad := range map[string]batch{
			"noise":          withRecords(b, bytes.Repeat([]byte{0x5a, 0xa5, 0xff}, 60), b.attrs()),
			"too few inside": counted(b, 3),
			"too many":       counted(b, 1),
		} {
			_, err := p.Append(context.Background(), bad)
			if err == nil {
				t.Fatalf("%s, %s: stored", name, what)
			}
			wantCode(t, err, kerr.InvalidRecord)
		}
		appendOne(t, p, bytes.Clone(b))
	}
	if _, high, _ := p.Offsets(); high != int64(2*len(everyCodec(t, sound))) {
		t.Fatalf("the log ends at %d", high)
	}
}

// counted has a batch claim n records.
func counted(b batch, n int32) batch {
	b = bytes.Clone(b)
	binary.BigEndian.PutUint32(b[23:], uint32(n-1))
	binary.BigEndian.PutUint32(b[57:], uint32(n))
	return reseal(b)
}

// TestMaxTimestampIsNotBelieved: what retention and lookups go by comes from the
// records.
func TestMaxTimestampIsNotBelieved(t *testing.T) {
	ctx := context.Background()
	p := open(t, newSession(t, dirVolume(t)), 1, testConfig())
	abandon(t, p)
	lie := rec(1000, "a")
	binary.BigEndian.PutUint64(lie[35:], 5)
	appendOne(t, p, reseal(lie))
	lie = rec(1001, "b")
	binary.BigEndian.PutUint64(lie[35:], 99_000)
	appendOne(t, p, reseal(lie))
	appendOne(t, p, rec(50_000, "c"))
	if off, ts, _, err := p.OffsetForTimestamp(ctx, 1000); off != 0 || ts != 1000 || err != nil {
		t.Errorf("first since 1000: offset %d at %d, %v", off, ts, err)
	}
	if off, ts, _, err := p.MaxTimestamp(ctx); off != 2 || ts != 50_000 || err != nil {
		t.Errorf("latest: offset %d at %d, %v", off, ts, err)
	}
	for _, b := range read(t, p, 0) {
		if b.sum() != b.crc() {
			t.Errorf("checksum of the batch at %d", b.base())
		}
	}
}

// TestRecompressedSizeIsBounded: max.message.bytes holds for what is stored.
func TestRecompressedSizeIsBounded(t *testing.T) {
	cfg := testConfig()
	cfg.MaxMessageBytes, cfg.Compression.Type = 50_000, "uncompressed"
	cfg.Now = func() time.Time { return testTime }
	p := open(t, newSession(t, dirVolume(t)), 1, cfg)
	abandon(t, p)
	b := kvBatch(t, codecZstd, 0, kv{value: make([]byte, 1<<20)})
	if len(b) > cfg.MaxMessageBytes {
		t.Fatalf("%d bytes compressed", len(b))
	}
	_, err := p.Append(context.Background(), b)
	wantCode(t, err, kerr.MessageTooLarge)
}

// TestDecompressedSizeIsBounded: max.decompressed.message.bytes holds for what is sent
// compressed, in every codec, to the byte.
func TestDecompressedSizeIsBounded(t *testing.T) {
	plain := rec(5, "a", "b", "c")
	size := len(plain) - batchHeader
	for _, tc := range []struct {
		limit int
		sound bool
	}{{size, true}, {size - 1, false}, {1, false}} {
		cfg := testConfig()
		cfg.MaxInflated = tc.limit
		p := open(t, newSession(t, dirVolume(t)), 1, cfg)
		abandon(t, p)
		for name, b := range everyCodec(t, plain) {
			_, err := p.Append(context.Background(), b)
			switch {
			case tc.sound || b.attrs()&attrCodec == codecNone:
				ok(t, err)
			case !errors.Is(err, kerr.InvalidRecord):
				t.Errorf("%s above %d bytes: %v", name, tc.limit, err)
			}
		}
	}
}

// TestHeadersOfRecordsAreRead: a record is walked to its very end, in every codec, for
// a consumer does the same.
func TestHeadersOfRecordsAreRead(t *testing.T) {
	p := open(t, newSession(t, dirVolume(t)), 1, testConfig())
	abandon(t, p)
	varints := func(ns ...int64) (b []byte) {
		for _, n := range ns {
			b = binary.AppendVarint(b, n)
		}
		return b
	}
	for _, tc := range []struct {
		what    string
		headers []byte
		sound   bool
	}{
		{"none", varints(0), true},
		{"a second without a key", append(varints(2, 1), "k\x02v"...), false},
		{"a null value", append(append(varints(1, 1), 'k'), varints(-1)...), true},
		{"an empty key", append(varints(1, 0), varints(0)...), true},
		{"no count", nil, false},
		{"1000 in three bytes", append(varints(1000), 0, 0, 0), false},
		{"1000 in 2000 bytes and some", append(varints(1000), make([]byte, 2001)...), false},
		{"-7", varints(-7), false},
		{"stray bytes behind none", append(varints(0), 1, 2, 3), false},
		{"a null key", append(varints(1, -1), varints(0)...), false},
		{"a key longer than the record", append(varints(1, 9), 'k'), false},
		{"no value", append(varints(1, 1), 'k'), false},
	} {
		body := append([]byte{0, 0, 0, 1, 1}, tc.headers...) // of a record without key and value
		records := append(binary.AppendVarint(nil, int64(len(body))), body...)
		for name, b := range everyCodec(t, reseal(append(rec(5, "v")[:batchHeader:batchHeader], records...))) {
			_, err := p.Append(context.Background(), b)
			switch {
			case tc.sound && err != nil:
				t.Errorf("%s, %s: %v", name, tc.what, err)
			case !tc.sound && err == nil:
				t.Errorf("%s, %s: stored", name, tc.what)
			case !tc.sound:
				wantCode(t, err, kerr.InvalidRecord)
			}
		}
	}
}

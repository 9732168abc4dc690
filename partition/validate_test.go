package partition

import (
	"bytes"
	"context"
	"encoding/binary"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

// Case P-08, and what else validate refuses: the code, and nothing is stored.
func TestInvalidBatches(t *testing.T) {
	put16 := func(off int, v uint16) func(batch) batch {
		return func(b batch) batch { binary.BigEndian.PutUint16(b[off:], v); return reseal(b) }
	}
	put32 := func(off int, v uint32) func(batch) batch {
		return func(b batch) batch { binary.BigEndian.PutUint32(b[off:], v); return reseal(b) }
	}
	producer := func(epoch int16, seq int32) func(batch) batch {
		return func(b batch) batch {
			binary.BigEndian.PutUint64(b[43:], 7)
			binary.BigEndian.PutUint16(b[51:], uint16(epoch))
			binary.BigEndian.PutUint32(b[53:], uint32(seq))
			return reseal(b)
		}
	}
	cases := []struct {
		name   string
		change func(batch) batch
		want   *kerr.Error
	}{
		{"empty", func(b batch) batch { return nil }, kerr.InvalidRecord},
		{"a few bytes", func(b batch) batch { return b[:10] }, kerr.InvalidRecord},
		{"magic 1", func(b batch) batch { b[16] = 1; return b }, kerr.InvalidRecord},
		{"magic 3", func(b batch) batch { b[16] = 3; return b }, kerr.CorruptMessage},
		{"magic -1", func(b batch) batch { b[16] = 0xff; return b }, kerr.CorruptMessage},
		{"zeroes", func(b batch) batch { return make(batch, 100) }, kerr.CorruptMessage},
		{"an offset to begin with", func(b batch) batch { b[7] = 5; return b }, kerr.InvalidRecord},
		{"cut off", func(b batch) batch { return b[:len(b)-1] }, kerr.InvalidRecord},
		{"two batches", func(b batch) batch { return append(b, rec(0, "x")...) }, kerr.InvalidRecord},
		{"length below the header", func(b batch) batch { binary.BigEndian.PutUint32(b[8:], 48); return b }, kerr.CorruptMessage},
		{"negative length", func(b batch) batch { binary.BigEndian.PutUint32(b[8:], 1<<31); return b }, kerr.CorruptMessage},
		{"checksum", func(b batch) batch { b[len(b)-1] ^= 1; return b }, kerr.CorruptMessage},
		{"checksum of the header", func(b batch) batch { b[30] ^= 1; return b }, kerr.CorruptMessage},
		{"count above the offsets", put32(57, 3), kerr.InvalidRecord},
		{"count below the offsets", put32(57, 1), kerr.InvalidRecord},
		{"count zero", func(b batch) batch { put32(57, 0)(b); return put32(23, 1<<32-1)(b) }, kerr.InvalidRecord},
		{"count negative", put32(57, 1<<31), kerr.InvalidRecord},
		{"count wraps", func(b batch) batch { put32(57, 1<<31)(b); return put32(23, 1<<31-1)(b) }, kerr.InvalidRecord},
		{"control", put16(21, attrControl), kerr.InvalidRecord},
		{"codec 5", put16(21, 5), kerr.InvalidRecord},
		{"transactional without producer", put16(21, attrTransactional), kerr.InvalidRecord},
		{"producer without sequence", producer(0, -1), kerr.InvalidRecord},
		{"producer without epoch", producer(-1, 0), kerr.InvalidRecord},
		{"append time from a producer", put16(21, attrLogAppendTime), kerr.InvalidTimestamp},
		{"far future", func(b batch) batch {
			binary.BigEndian.PutUint64(b[35:], uint64(testTime.Add(2*time.Hour).UnixMilli()))
			return reseal(b)
		}, kerr.InvalidTimestamp},
		{"over max.message.bytes", func(b batch) batch { return rec(0, strings.Repeat("x", 5000)) }, kerr.MessageTooLarge},
		{"over segment.bytes", func(b batch) batch { return rec(0, strings.Repeat("x", 3000)) }, kerr.RecordListTooLarge},
	}
	cfg := testConfig()
	cfg.MaxMessageBytes, cfg.SegmentBytes = 4000, 2000
	cfg.TimestampAfterMax, cfg.Now = time.Hour, func() time.Time { return testTime }
	p := open(t, newSession(t, dirVolume(t)), 1, cfg)
	abandon(t, p)
	appendOne(t, p, rec(0, "good"))
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, err := p.Append(context.Background(), c.change(rec(testTime.UnixMilli(), "a", "b")))
			wantCode(t, err, c.want)
			if _, hw, _ := p.Offsets(); hw != 1 {
				t.Fatalf("high watermark moved to %d", hw)
			}
		})
	}
	appendOne(t, p, producer(3, 4)(rec(0, "idempotent")))
	if got := values(t, p); len(got) != 2 || got[1] != "idempotent" {
		t.Fatalf("log holds %q", got)
	}
}

// What is stored differs from what was sent in base offset and leader epoch alone, and
// with LogAppendTime in time, attribute and checksum.
func TestStoredBytes(t *testing.T) {
	sent := rec(5, "a", "b")
	for _, appendTime := range []bool{false, true} {
		cfg := testConfig()
		cfg.LogAppendTime, cfg.Now = appendTime, func() time.Time { return testTime }
		p := open(t, newSession(t, dirVolume(t)), 4, cfg)
		abandon(t, p)
		appendOne(t, p, rec(0, "first"))
		a, err := p.Append(context.Background(), bytes.Clone(sent))
		ok(t, must(a, err)(t).Wait(context.Background()))
		want := batch(bytes.Clone(sent))
		want.place(1, 4)
		if appendTime {
			want.stamp(testTime.UnixMilli())
		}
		got := read(t, p, 1)[0]
		if !bytes.Equal(got, want) {
			t.Fatalf("stored\n%x\nwant\n%x", got, want)
		}
		if appendTime != (a.LogAppendTime == testTime.UnixMilli()) {
			t.Fatalf("log append time %d", a.LogAppendTime)
		}
	}
}

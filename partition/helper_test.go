package partition

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"kaas.dev/kaas/internal/substrate"
)

func TestMain(m *testing.M) {
	// The library's encoders and decoders hold channels, which may not be born in a
	// bubble of synctest.
	for _, level := range []int{-131072, 1, 3, 22} {
		b, err := deflate(nil, codecZstd, level, make([]byte, 1000))
		if err == nil {
			_, err = inflate(nil, codecZstd, b, 1000)
		}
		if err == nil {
			_, err = inflate(nil, codecZstd, b, maxInflated)
		}
		if err == nil {
			_, err = inflate(nil, codecZstd, b, maxInflated)
		}
		if err != nil {
			panic(err)
		}
	}
	goleak.VerifyTestMain(m)
}

var (
	testID   = [16]byte{0xab, 1, 2, 3, 15: 9}
	testTime = time.UnixMilli(1_700_000_000_000)
	quiet    = slog.New(slog.NewTextHandler(io.Discard, nil))
)

const testTopic = "orders"

// tb is what tests, benchmarks and rapid's T have in common.
type tb interface {
	Helper()
	Fatalf(format string, args ...any)
}

// must unpacks a result: must(f())(t).
func must[T any](v T, err error) func(tb) T {
	return func(t tb) T {
		t.Helper()
		ok(t, err)
		return v
	}
}

func ok(t tb, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%v", err)
	}
}

// newVolume makes a volume with one topic of one partition, of now: history that is old is
// pruned beside what a test counts.
func newVolume(t tb, fs substrate.FS) *substrate.Volume {
	t.Helper()
	v := must(substrate.OpenVolume(fs, ""))(t)
	ok(t, BuildTopic(v, "setup", testID, testTopic, 1, time.Now()))
	return v
}

func dirVolume(t testing.TB) *substrate.Volume {
	t.Helper()
	return newVolume(t, must(substrate.OpenDir(t.TempDir()))(t))
}

func newSession(t tb, v *substrate.Volume) *substrate.Session {
	t.Helper()
	s, err := v.OpenSession(substrate.Identity{Role: substrate.RoleData})
	return must(s, err)(t)
}

func testConfig() Config {
	return Config{Log: quiet, TimestampAfterMax: -1, RecoveryPointIdle: time.Hour, StallAfter: 10_000 * time.Hour}
}

func open(t tb, s *substrate.Session, epoch int32, cfg Config) *Partition {
	t.Helper()
	p, err := Open(context.Background(), s, testID, testTopic, 0, epoch, cfg)
	return must(p, err)(t)
}

// abandon ends p at the end of the test, so that nothing of it is left.
func abandon(t testing.TB, p *Partition) {
	t.Cleanup(func() { _ = p.Abandon(context.Background()) })
}

// rec makes a batch as a producer sends it: one record a value, each a millisecond
// after the one before.
func rec(ts int64, values ...string) []byte {
	b := kmsg.RecordBatch{
		PartitionLeaderEpoch: -1, Magic: 2, LastOffsetDelta: int32(len(values) - 1), FirstTimestamp: ts,
		MaxTimestamp: ts + int64(len(values)-1), ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1, NumRecords: int32(len(values)),
	}
	for i, v := range values {
		r := kmsg.Record{TimestampDelta64: int64(i), OffsetDelta: int32(i), Value: []byte(v)}
		r.Length = int32(len(r.AppendTo(nil)) - 1) // the length itself takes one byte while it is zero
		b.Records = r.AppendTo(b.Records)
	}
	b.Length = int32(batchHeader - batchPrefix + len(b.Records))
	return reseal(b.AppendTo(nil))
}

// reseal makes length and checksum right after a test changed the batch.
func reseal(b batch) batch {
	binary.BigEndian.PutUint32(b[8:], uint32(len(b)-batchPrefix))
	binary.BigEndian.PutUint32(b[17:], b.sum())
	return b
}

func appendOne(t tb, p *Partition, b []byte) int64 {
	t.Helper()
	a, err := p.Append(context.Background(), b)
	must(a, err)(t)
	ok(t, a.Wait(context.Background()))
	return a.BaseOffset
}

func appendN(t tb, p *Partition, n int) {
	t.Helper()
	for i := range n {
		appendOne(t, p, rec(int64(i), fmt.Sprintf("value-%d", i)))
	}
}

// batches cuts what Read returned.
func batches(t tb, b []byte) (out []batch) {
	t.Helper()
	for len(b) > 0 {
		if len(b) < batchHeader || batch(b).size() > int64(len(b)) {
			t.Fatalf("records end within a batch: %d bytes are left", len(b))
		}
		n := batch(b).size()
		if x := batch(b[:n]); x.sum() != x.crc() {
			t.Fatalf("batch at offset %d: checksum", x.base())
		}
		out = append(out, b[:n])
		b = b[n:]
	}
	return out
}

func read(t tb, p *Partition, offset int64) []batch {
	t.Helper()
	f, err := p.Read(context.Background(), offset, 1<<20, true)
	must(f, err)(t)
	return batches(t, f.Records)
}

// values reads the whole log, checking that offsets have no gap.
func values(t tb, p *Partition) (out []string) {
	t.Helper()
	start, hw, _ := p.Offsets()
	for at := start; at < hw; {
		bs := read(t, p, at)
		if len(bs) == 0 {
			t.Fatalf("nothing at %d, high watermark %d", at, hw)
		}
		for _, b := range bs {
			if b.base() != at {
				t.Fatalf("batch at offset %d, want %d", b.base(), at)
			}
			out = append(out, batchValues(t, b)...)
			at = b.next()
		}
	}
	return out
}

func batchValues(t tb, b batch) (out []string) {
	t.Helper()
	for raw := []byte(b[batchHeader:]); len(raw) > 0; {
		n, w := binary.Varint(raw)
		var r kmsg.Record
		ok(t, r.ReadFrom(raw[:w+int(n)]))
		out = append(out, string(r.Value))
		raw = raw[w+int(n):]
	}
	return out
}

func wantCode(t tb, err error, want *kerr.Error) {
	t.Helper()
	var ke *kerr.Error
	if !errors.As(err, &ke) || ke != want {
		t.Fatalf("got %v, want %s", err, want.Message)
	}
}

func committed(t tb, p *Partition) *Manifest {
	t.Helper()
	return p.w.Committed().State
}

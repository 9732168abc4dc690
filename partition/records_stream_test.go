package partition

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"runtime"
	"slices"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	"github.com/twmb/franz-go/pkg/kerr"
	"pgregory.net/rapid"
)

// seen is what is looked at of a record.
type seen struct {
	time, offset int64
	key          bool
}

func all(walk func(func(*record) bool) error) (out []seen, err error) {
	err = walk(func(r *record) bool {
		out = append(out, seen{r.tsDelta, r.offset, r.key != nil})
		return true
	})
	return out, err
}

// However records come out, the same is seen of them, and the same is wrong with them.
func TestStreamedRecordsAreSeenTheSame(t *testing.T) {
	sound := kvBatch(t, codecNone, 0, kv{ts: 5, key: []byte("k"), value: []byte("v")}, kv{ts: 3, value: []byte{}}, kv{ts: 900, key: []byte{}})[batchHeader:]
	rapid.Check(t, func(t *rapid.T) {
		raw := bytes.Clone(sound)
		for range rapid.IntRange(0, 3).Draw(t, "faults") {
			raw[rapid.IntRange(0, len(raw)-1).Draw(t, "at")] = rapid.Byte().Draw(t, "byte")
		}
		raw = raw[:rapid.IntRange(0, len(raw)).Draw(t, "length")]
		want, wantErr := all(func(f func(*record) bool) error { return walkWhole(raw, f) })
		s := recordStream{r: bufio.NewReaderSize(bytes.NewReader(raw), 16), left: int64(len(raw))}
		got, err := all(s.walk)
		if !slices.Equal(got, want) || (err == nil) != (wantErr == nil) || err != nil && !errors.Is(err, errRecords) {
			t.Fatalf("%x: streamed %v, %v; whole %v, %v", raw, got, err, want, wantErr)
		}
	})
}

// zeros gives so many of them.
type zeros int

func (z *zeros) Read(p []byte) (int, error) {
	n := min(len(p), int(*z))
	if n == 0 {
		return 0, io.EOF
	}
	clear(p[:n])
	*z -= zeros(n)
	return n, nil
}

// ofZeros is a batch of records whose values are that many zeros, in each codec that can be
// made a little at a time.
func ofZeros(t *testing.T, values ...int) map[string]batch {
	t.Helper()
	pack := map[string]struct {
		codec uint16
		to    func(io.Writer) io.WriteCloser
	}{
		"gzip": {codecGzip, func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) }},
		"lz4":  {codecLZ4, func(w io.Writer) io.WriteCloser { return lz4.NewWriter(w) }},
		"zstd": {codecZstd, func(w io.Writer) io.WriteCloser { return must(zstd.NewWriter(w))(t) }},
		"zstd that looks far back": {codecZstd, func(w io.Writer) io.WriteCloser {
			return must(zstd.NewWriter(w, zstd.WithWindowSize(64<<20), zstd.WithEncoderConcurrency(1)))(t)
		}},
	}
	out := map[string]batch{}
	for name, p := range pack {
		var buf bytes.Buffer
		w := p.to(&buf)
		for i, n := range values {
			head := binary.AppendVarint(binary.AppendVarint([]byte{0, 0}, int64(i)), -1)
			head = binary.AppendVarint(head, int64(n))
			_, err := w.Write(append(binary.AppendVarint(nil, int64(len(head)+n+1)), head...))
			ok(t, err)
			z := zeros(n)
			_, err = io.Copy(struct{ io.Writer }{w}, &z)
			ok(t, err)
			_, err = w.Write([]byte{0})
			ok(t, err)
		}
		ok(t, w.Close())
		b := batch(rec(5, make([]string, len(values))...))
		binary.BigEndian.PutUint64(b[35:], 5) // all at the same time
		out[name] = withRecords(b, buf.Bytes(), p.codec)
	}
	return out
}

// What is large once it is decompressed is taken, up to the limit and to the byte.
func TestLargeRecordsAreStreamed(t *testing.T) {
	const limit = 12 << 20
	cfg := testConfig()
	cfg.MaxInflated, cfg.MaxMessageBytes = limit, 1<<20
	p := open(t, newSession(t, dirVolume(t)), 1, cfg)
	abandon(t, p)
	overhead := len(binary.AppendVarint(nil, limit)) + len(binary.AppendVarint(nil, limit)) + 5
	for what, tc := range map[string]struct {
		values []int
		sound  bool
	}{
		"some":     {[]int{100, 5 << 20, 1 << 20}, true},
		"the most": {[]int{limit - overhead}, true},
		"one more": {[]int{limit - overhead + 1}, false},
		"too many": {[]int{7 << 20, 7 << 20}, false},
	} {
		for name, b := range ofZeros(t, tc.values...) {
			a, err := p.Append(context.Background(), b)
			if tc.sound {
				ok(t, err)
				ok(t, a.Wait(context.Background()))
			} else if !errors.Is(err, kerr.InvalidRecord) {
				t.Errorf("%s, %s: %v", name, what, err)
			}
		}
	}
}

// A bomb costs its sender the batch, and the broker little.
func TestBombsCostLittle(t *testing.T) {
	p := open(t, newSession(t, dirVolume(t)), 1, testConfig())
	abandon(t, p)
	for what, values := range map[string][]int{"one record": {maxInflated + 1}, "many records": {50 << 20, 50 << 20, 50 << 20}} {
		for name, b := range ofZeros(t, values...) {
			if name == "zstd that looks far back" {
				continue // takes what it looks back over, one at a time
			}
			_, err := p.Append(context.Background(), bytes.Clone(b))
			if !errors.Is(err, kerr.InvalidRecord) {
				t.Errorf("%s, %s: %v", name, what, err)
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, _ = p.Append(context.Background(), b)
			runtime.ReadMemStats(&after)
			if n := after.TotalAlloc - before.TotalAlloc; n > 24<<20 {
				t.Errorf("%s, %s: %d bytes took %d MiB", name, what, len(b), n>>20)
			}
		}
	}
}

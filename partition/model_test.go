package partition

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"pgregory.net/rapid"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/internal/substrate/nfssim"
)

// logModel is what the log must hold: the batches, each a list of values.
type logModel struct {
	t       *rapid.T
	v       *substrate.Volume
	s       *substrate.Session
	p       *Partition
	cfg     Config
	epoch   int32
	zombies []*Partition
	batches [][]string
	bases   []int64
	end     int64
	n       int
}

// TestLogAgainstModel appends, reads, rolls, relinquishes and crashes in any order.
func TestLogAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		// Most runs are in memory, where an fsync costs nothing.
		fs := nfssim.New(nfssim.Config{}).Server()
		if rapid.IntRange(0, 9).Draw(t, "where") == 0 {
			dir := must(os.MkdirTemp("", "partition"))(t)
			defer os.RemoveAll(dir)
			fs = must(substrate.OpenDir(dir))(t)
		}
		m := &logModel{t: t, cfg: testConfig(), v: newVolume(t, fs)}
		m.cfg.SegmentBytes = rapid.Int64Range(400, 3000).Draw(t, "segment.bytes")
		m.cfg.IndexIntervalBytes = rapid.IntRange(1, 1000).Draw(t, "index.interval.bytes")
		m.cfg.RecoveryPointBytes = rapid.Int64Range(1, 5000).Draw(t, "recovery point bytes")
		m.cfg.FlushMessages = rapid.Int64Range(1, 2).Draw(t, "flush")
		m.reopen(true)
		defer m.stop()
		t.Repeat(map[string]func(*rapid.T){
			"append": func(t *rapid.T) { m.append(rapid.IntRange(1, 6).Draw(t, "batches")) },
			"read":   func(t *rapid.T) { m.read() },
			"clean": func(t *rapid.T) {
				ok(t, m.p.Relinquish(context.Background()))
				m.reopen(rapid.Bool().Draw(t, "new session"))
			},
			"crash": func(t *rapid.T) {
				m.zombies = append(m.zombies, m.p)
				m.reopen(true)
			},
			"zombie": func(t *rapid.T) { m.zombie() },
		})
		m.all()
	})
}

func (m *logModel) stop() {
	for _, p := range append(m.zombies, m.p) {
		_ = p.Abandon(context.Background())
	}
}

func (m *logModel) reopen(fresh bool) {
	if fresh {
		m.s = newSession(m.t, m.v)
	}
	m.epoch += int32(rapid.IntRange(1, 3).Draw(m.t, "epoch"))
	m.p = open(m.t, m.s, m.epoch, m.cfg)
	if _, hw, _ := m.p.Offsets(); hw != m.end {
		m.t.Fatalf("high watermark is %d after opening, want %d", hw, m.end)
	}
}

func (m *logModel) batch() []string {
	var vs []string
	for range rapid.IntRange(1, 4).Draw(m.t, "records") {
		m.n++
		vs = append(vs, fmt.Sprintf("%d%s", m.n, strings.Repeat("x", rapid.IntRange(0, 60).Draw(m.t, "size"))))
	}
	return vs
}

func (m *logModel) append(n int) {
	var as []*Appended
	for range n {
		vs := m.batch()
		a, err := m.p.Append(context.Background(), rec(0, vs...))
		ok(m.t, err)
		if a.BaseOffset != m.end {
			m.t.Fatalf("offset %d, want %d", a.BaseOffset, m.end)
		}
		m.batches, m.bases, m.end = append(m.batches, vs), append(m.bases, m.end), m.end+int64(len(vs))
		as = append(as, a)
	}
	for _, a := range as {
		ok(m.t, a.Wait(context.Background()))
	}
}

func (m *logModel) read() {
	off := rapid.Int64Range(0, m.end+1).Draw(m.t, "offset")
	maxBytes := rapid.IntRange(0, 4000).Draw(m.t, "max bytes")
	minOne := rapid.Bool().Draw(m.t, "min one")
	f, err := m.p.Read(context.Background(), off, maxBytes, minOne)
	if off > m.end {
		wantCode(m.t, err, kerr.OffsetOutOfRange)
		return
	}
	ok(m.t, err)
	got := batches(m.t, f.Records)
	if f.HighWatermark != m.end || len(f.Records) > maxBytes && !(minOne && len(got) == 1) {
		m.t.Fatalf("read at %d: high watermark %d, %d bytes in %d batches", off, f.HighWatermark, len(f.Records), len(got))
	}
	first, exact := slices.BinarySearch(m.bases, off)
	if !exact {
		first--
	}
	if off < m.end && minOne && len(got) == 0 {
		m.t.Fatalf("read at %d gives nothing", off)
	}
	for i, b := range got {
		if b.base() != m.bases[first+i] || !slices.Equal(batchValues(m.t, b), m.batches[first+i]) {
			m.t.Fatalf("read at %d: batch %d is at %d with %q, want %d with %q", off, i, b.base(), batchValues(m.t, b), m.bases[first+i], m.batches[first+i])
		}
	}
	// Nothing is left out that had room.
	if next := first + len(got); off < m.end && next < len(m.batches) {
		if size := len(rec(0, m.batches[next]...)); len(f.Records)+size <= maxBytes {
			m.t.Fatalf("read at %d stops after %d of %d bytes with a batch of %d next", off, len(f.Records), maxBytes, size)
		}
	}
}

// zombie has a leader of the past append: it is refused, and the log stays as it is.
func (m *logModel) zombie() {
	if len(m.zombies) == 0 {
		return
	}
	z := rapid.SampledFrom(m.zombies).Draw(m.t, "zombie")
	a, err := z.Append(context.Background(), rec(0, "zombie"))
	if err == nil {
		err = a.Wait(context.Background())
	}
	wantCode(m.t, err, kerr.NotLeaderForPartition)
}

func (m *logModel) all() {
	if got, want := values(m.t, m.p), slices.Concat(m.batches...); !slices.Equal(got, want) {
		m.t.Fatalf("log holds %q, want %q", got, want)
	}
}

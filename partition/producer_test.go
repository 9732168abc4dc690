package partition

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"kaas.dev/kaas/internal/substrate/nfssim"
)

// idem makes a batch of an idempotent producer.
func idem(id int64, epoch int16, seq int32, values ...string) []byte {
	b := batch(rec(0, values...))
	binary.BigEndian.PutUint64(b[43:], uint64(id))
	binary.BigEndian.PutUint16(b[51:], uint16(epoch))
	binary.BigEndian.PutUint32(b[53:], uint32(seq))
	return reseal(b)
}

func many(n int) []string { return strings.Split(strings.Repeat("v", n), "") }

// sent is one batch of a producer and what comes of it.
type sent struct {
	id     int64
	epoch  int16
	seq    int32
	n      int
	offset int64       // -1: refused
	code   *kerr.Error // with this
}

func send(t tb, p *Partition, x sent) {
	t.Helper()
	a, err := p.Append(context.Background(), idem(x.id, x.epoch, x.seq, many(x.n)...))
	if x.code != nil {
		wantCode(t, err, x.code)
		return
	}
	ok(t, err)
	ok(t, a.Wait(context.Background()))
	if a.BaseOffset != x.offset {
		t.Fatalf("%+v is at offset %d", x, a.BaseOffset)
	}
}

// P-04, P-05 and what a repeated batch is answered.
func TestProducerSequences(t *testing.T) {
	gap, fenced := kerr.OutOfOrderSequenceNumber, kerr.InvalidProducerEpoch
	const top = math.MaxInt32
	cases := map[string][]sent{
		"unknown producer, any sequence":     {{1, 0, 7, 1, 0, nil}, {1, 0, 8, 1, 1, nil}},
		"unknown producer, any epoch":        {{1, 9, 7, 2, 0, nil}, {1, 9, 9, 1, 2, nil}},
		"wrap within a batch":                {{1, 0, 2147483640, 10, 0, nil}, {1, 0, 2, 1, 10, nil}, {1, 0, 4, 1, -1, gap}, {1, 0, 3, 1, 11, nil}},
		"wrap between batches":               {{1, 0, top - 2, 3, 0, nil}, {1, 0, 0, 1, 3, nil}, {1, 0, 1, 1, 4, nil}},
		"a wrapping batch again":             {{1, 0, top, 2, 0, nil}, {1, 0, 1, 1, 2, nil}, {1, 0, top, 2, 0, nil}},
		"a gap":                              {{1, 0, 0, 1, 0, nil}, {1, 0, 2, 1, -1, gap}, {1, 0, 1, 1, 1, nil}},
		"new epoch begins at 0":              {{1, 0, 0, 3, 0, nil}, {1, 1, 5, 1, -1, gap}, {1, 1, 3, 1, -1, gap}, {1, 1, 0, 1, 3, nil}, {1, 1, 1, 1, 4, nil}},
		"stale epoch":                        {{1, 3, 0, 1, 0, nil}, {1, 2, 1, 1, -1, fenced}, {1, 2, 0, 1, -1, fenced}, {1, 3, 1, 1, 1, nil}},
		"stale epoch, though stored then":    {{1, 0, 0, 1, 0, nil}, {1, 1, 0, 1, 1, nil}, {1, 0, 0, 1, -1, fenced}},
		"same sequence in a new epoch":       {{1, 0, 0, 1, 0, nil}, {1, 1, 0, 1, 1, nil}, {1, 1, 0, 1, 1, nil}},
		"producers do not know each other":   {{1, 0, 0, 2, 0, nil}, {2, 0, 0, 1, 2, nil}, {1, 0, 2, 1, 3, nil}, {2, 0, 1, 1, 4, nil}, {2, 5, 0, 1, 5, nil}, {1, 0, 3, 1, 6, nil}},
		"the last batch again":               {{1, 0, 0, 3, 0, nil}, {1, 0, 0, 3, 0, nil}, {1, 0, 3, 1, 3, nil}},
		"same sequence, other count":         {{1, 0, 0, 3, 0, nil}, {1, 0, 0, 2, -1, gap}, {1, 0, 0, 4, -1, gap}, {1, 0, 1, 2, -1, gap}},
		"two batches again as one":           {{1, 0, 0, 1, 0, nil}, {1, 0, 1, 1, 1, nil}, {1, 0, 0, 2, -1, gap}},
		"the last five again, the sixth not": nil,
		"the highest epoch":                  {{1, math.MaxInt16, 0, 1, 0, nil}, {1, math.MaxInt16, 1, 1, 1, nil}, {1, 0, 2, 1, -1, fenced}},
		"a refused batch changes nothing":    {{1, 0, 0, 1, 0, nil}, {1, 4, 1, 1, -1, gap}, {1, 0, 1, 1, 1, nil}},
	}
	var five []sent
	for i := range int64(6) {
		five = append(five, sent{1, 0, int32(2 * i), 2, 2 * i, nil})
	}
	for i := int64(5); i > 0; i-- {
		five = append(five, sent{1, 0, int32(2 * i), 2, 2 * i, nil})
	}
	five = append(five, sent{1, 0, 0, 2, -1, gap}, sent{1, 0, 12, 1, 12, nil}, sent{1, 0, 2, 2, -1, gap}, sent{1, 0, 4, 2, 4, nil})
	cases["the last five again, the sixth not"] = five
	for name, steps := range cases {
		t.Run(name, func(t *testing.T) {
			for _, between := range []string{"nothing", "clean stop", "crash", "crash with recovery points"} {
				v := newVolume(t, nfssim.New(nfssim.Config{}).Server())
				cfg, epoch := testConfig(), int32(1)
				if between == "crash with recovery points" {
					cfg.RecoveryPointBytes = 1
				}
				p := open(t, newSession(t, v), epoch, cfg)
				for _, x := range steps {
					send(t, p, x)
					if between == "nothing" {
						continue
					}
					old := p
					if between == "clean stop" {
						ok(t, p.Relinquish(t.Context()))
					} else {
						abandon(t, old)
					}
					epoch++
					p = open(t, newSession(t, v), epoch, cfg)
				}
				ok(t, p.Abandon(t.Context()))
			}
		})
	}
}

// A batch that is sent again while its first copy is on its way waits for that copy.
func TestDuplicateWaits(t *testing.T) {
	for _, fails := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			l := &logFS{FS: nfssim.New(nfssim.Config{}).Server()}
			var hold atomic.Bool
			release := make(chan struct{})
			l.before = func(op string) error {
				if op == "sync log" && hold.Load() {
					<-release
					if fails {
						return fmt.Errorf("disk on fire")
					}
				}
				return nil
			}
			p := open(t, newSession(t, newVolume(t, l)), 1, testConfig())
			appendOne(t, p, idem(1, 0, 0, "a"))
			hold.Store(true)
			first, err := p.Append(t.Context(), idem(1, 0, 1, "b"))
			ok(t, err)
			synctest.Wait()
			later, err := p.Append(t.Context(), idem(1, 0, 2, "c")) // of the next commit
			ok(t, err)
			again, err := p.Append(t.Context(), idem(1, 0, 1, "b"))
			ok(t, err)
			done, err := p.Append(t.Context(), idem(1, 0, 0, "a"))
			ok(t, err)
			ok(t, done.Wait(t.Context()))
			if again.BaseOffset != 1 || done.BaseOffset != 0 || again.committed != first.committed || later.committed == first.committed {
				t.Fatalf("again %+v, done %+v", again, done)
			}
			short, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if err := again.Wait(short); err != context.DeadlineExceeded {
				t.Fatalf("answered before the commit: %v", err)
			}
			close(release)
			for _, a := range []*Appended{first, again, later} {
				if err := a.Wait(t.Context()); (err != nil) != fails {
					t.Fatalf("answered %v", err)
				}
			}
			if _, hw, _ := p.Offsets(); !fails && (hw != 3 || len(p.mu.flights) != 0) {
				t.Fatalf("high watermark %d, in flight %v", hw, p.mu.flights)
			}
			_ = p.Abandon(t.Context())
		})
	}
}

// A duplicate is answered with the time that the batch was stored with.
func TestDuplicateAppendTime(t *testing.T) {
	v := newVolume(t, nfssim.New(nfssim.Config{}).Server())
	cfg := testConfig()
	var minutes atomic.Int64 // the manifest's writer asks for the time after it has answered
	cfg.LogAppendTime, cfg.Now = true, func() time.Time { return testTime.Add(time.Duration(minutes.Load()) * time.Minute) }
	p := open(t, newSession(t, v), 1, cfg)
	appendOne(t, p, idem(1, 0, 0, "a", "b"))
	for epoch := int32(2); epoch < 5; epoch++ {
		minutes.Add(1)
		a, err := p.Append(t.Context(), idem(1, 0, 0, "a", "b"))
		ok(t, err)
		if a.LogAppendTime != testTime.UnixMilli() {
			t.Fatalf("append time %d", a.LogAppendTime)
		}
		if epoch == 2 {
			_ = p.Abandon(t.Context())
		} else {
			ok(t, p.Relinquish(t.Context()))
		}
		p = open(t, newSession(t, v), epoch, cfg)
	}
	_ = p.Abandon(t.Context())
}

// A producer that appended nothing for producer.id.expiration.ms is unknown, in memory,
// in the manifest and after a takeover; one with a batch in flight is not.
func TestProducerExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &logFS{FS: nfssim.New(nfssim.Config{}).Server()}
		var hold atomic.Bool
		release := make(chan struct{})
		l.before = func(op string) error {
			if op == "sync log" && hold.Load() {
				<-release
			}
			return nil
		}
		v := newVolume(t, l)
		cfg := testConfig()
		cfg.RecoveryPointIdle, cfg.ProducerExpiry = time.Second, time.Hour
		p := open(t, newSession(t, v), 1, cfg)
		send(t, p, sent{1, 0, 0, 1, 0, nil})
		send(t, p, sent{2, 0, 0, 1, 1, nil})
		time.Sleep(30 * time.Minute)
		send(t, p, sent{2, 0, 1, 1, 2, nil})
		time.Sleep(30*time.Minute - time.Millisecond)
		send(t, p, sent{1, 0, 5, 1, -1, kerr.OutOfOrderSequenceNumber})
		time.Sleep(time.Millisecond)
		send(t, p, sent{1, 0, 5, 1, 3, nil}) // forgotten
		send(t, p, sent{2, 0, 5, 1, -1, kerr.OutOfOrderSequenceNumber})
		time.Sleep(31 * time.Minute)
		if n := len(committed(t, p).Producers); n != 2 {
			t.Fatalf("%d producers in the manifest", n)
		}
		hold.Store(true)
		a, err := p.Append(t.Context(), idem(1, 0, 6, "x"))
		ok(t, err)
		time.Sleep(3 * time.Hour) // nobody appends
		p.mu.Lock()
		n := len(p.mu.producers.byID)
		p.mu.Unlock()
		if n != 1 {
			t.Fatalf("%d producers, want the one whose batch is in flight", n)
		}
		send := func(seq int32, code *kerr.Error) {
			_, err := p.Append(t.Context(), idem(1, 0, seq, "y"))
			wantCode(t, err, code)
		}
		send(9, kerr.OutOfOrderSequenceNumber)
		hold.Store(false)
		close(release)
		ok(t, a.Wait(t.Context()))
		time.Sleep(2 * time.Second)
		if ps := committed(t, p).Producers; len(ps) != 1 || ps[0].ID != 1 {
			t.Fatalf("manifest has %+v", ps)
		}
		_ = p.Abandon(t.Context())
		time.Sleep(time.Hour)
		p = open(t, newSession(t, v), 2, cfg)
		if ps := committed(t, p).Producers; len(ps) != 0 || len(p.mu.producers.byID) != 0 {
			t.Fatalf("manifest has %+v after the takeover", ps)
		}
		_ = p.Abandon(t.Context())
	})
}

// What 10,000 producers cost in memory, in the manifest and at a takeover.
func TestManyProducers(t *testing.T) {
	const count = 10_000
	v := newVolume(t, nfssim.New(nfssim.Config{}).Server())
	p := open(t, newSession(t, v), 1, testConfig())
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	var ps producers
	before := heap()
	for n := range int64(7) {
		for id := range int64(count) {
			b := batch(idem(id+1000, 0, int32(n), "x"))
			b.place(n*count+id, 1)
			ps.note(b, testTime.UnixMilli(), b.base())
		}
	}
	each := int64(heap()-before) / count
	e := ps.advance(math.MaxInt64)
	raw, err := encodeFacts(e)
	ok(t, err)
	t.Logf("a producer takes %d bytes of memory and %d of a manifest", each, len(raw[0].Data)/count)
	if each > 400 || len(raw[0].Data)/count > 200 {
		t.Fatal("that is too much")
	}
	for n := range int64(6) {
		var a *Appended
		for id := range int64(count) {
			a, err = p.Append(t.Context(), idem(id, 0, int32(n), "x"))
			ok(t, err)
		}
		ok(t, a.Wait(t.Context()))
	}
	began := time.Now()
	ok(t, p.Relinquish(t.Context()))
	closed := time.Since(began)
	p = open(t, newSession(t, v), 2, testConfig())
	t.Logf("stopped in %v, opened in %v", closed, time.Since(began)-closed)
	send(t, p, sent{4711, 0, 3, 1, 3*count + 4711, nil})
	ok(t, p.Relinquish(t.Context()))
}

// BenchmarkJudge is what idempotence costs a batch at the point that orders it.
func BenchmarkJudge(b *testing.B) {
	var ps producers
	x := batch(idem(7, 0, 0, "x"))
	b.ReportAllocs()
	for i := range int64(b.N) {
		binary.BigEndian.PutUint32(x[53:], uint32(i)&math.MaxInt32)
		x.place(i, 1)
		if s, err := ps.judge(x); s != nil || err != nil {
			b.Fatal(s, err)
		}
		ps.note(x, i, i)
	}
}

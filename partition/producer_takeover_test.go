package partition

import (
	"context"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"pgregory.net/rapid"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/internal/substrate/nfssim"
)

// windows is what a partition knows of its producers.
func (ps *producers) windows() map[int64][]seenBatch {
	out := map[int64][]seenBatch{}
	for id, p := range ps.byID {
		out[id] = slices.Clone(lastFive(p.seen))
	}
	return out
}

// replayed is what reading a log gives, in the simplest way.
func replayed(log []seenLog) map[int64][]seenBatch {
	out := map[int64][]seenBatch{}
	for _, x := range log {
		w := append(out[x.id], x.seenBatch)
		w = slices.DeleteFunc(w, func(s seenBatch) bool { return s.epoch != x.epoch })
		out[x.id] = w[max(0, len(w)-5):]
	}
	return out
}

type seenLog struct {
	id int64
	seenBatch
}

// replayLog reads the whole log through the partition.
func replayLog(t tb, p *Partition) map[int64][]seenBatch {
	t.Helper()
	var log []seenLog
	_, hw, _ := p.Offsets()
	for at := int64(0); at < hw; {
		for _, b := range read(t, p, at) {
			if b.producer() >= 0 {
				log = append(log, seenLog{b.producer(), seenOf(b)})
			}
			at = b.next()
		}
	}
	return replayed(log)
}

func wantWindows(t tb, got, want map[int64][]seenBatch) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("the window is\n%v\nthe log gives\n%v", got, want)
	}
}

// opens counts what is opened.
type opens struct {
	substrate.FS
	logs int
}

func (o *opens) Open(name string) (substrate.File, error) {
	if strings.HasSuffix(name, logExt) {
		o.logs++
	}
	return o.FS.Open(name)
}

// V-02: after a takeover of any kind the window is what replaying the log gives. After a
// clean stop no segment is read for that.
func TestWindowAfterTakeover(t *testing.T) {
	for _, segment := range []int64{1 << 20, 300} {
		for _, points := range []int64{1, 500, 1 << 20} {
			for _, clean := range []bool{true, false} {
				t.Run(fmt.Sprintf("segment %d, recovery points %d, clean %v", segment, points, clean), func(t *testing.T) {
					o := &opens{FS: nfssim.New(nfssim.Config{}).Server()}
					v := newVolume(t, o)
					cfg := testConfig()
					cfg.SegmentBytes, cfg.RecoveryPointBytes = segment, points
					var p *Partition
					next := map[int64]int32{}
					for epoch := int32(1); epoch < 6; epoch++ {
						o.logs = 0
						p = open(t, newSession(t, v), epoch, cfg)
						if clean && o.logs > 0 {
							t.Fatalf("%d segments opened", o.logs)
						}
						wantWindows(t, p.mu.producers.windows(), replayLog(t, p))
						var as []*Appended
						for i := range int64(40) {
							id := i * i % 7
							if id == 3 { // not idempotent
								appendN(t, p, 1)
								continue
							}
							a, err := p.Append(t.Context(), idem(id, int16(id), next[id], many(int(1+i%3))...))
							ok(t, err)
							next[id] += int32(1 + i%3)
							if as = append(as, a); i%4 == 0 {
								ok(t, a.Wait(t.Context()))
							}
						}
						for _, a := range as {
							ok(t, a.Wait(t.Context()))
						}
						if clean {
							ok(t, p.Relinquish(t.Context()))
						} else {
							abandon(t, p)
						}
					}
					_ = p.Abandon(t.Context())
				})
			}
		}
	}
}

// After a crash that lost the end of the tail, what is sent again is stored once: at its
// old place if it was adopted, else at the end.
func TestRetryAfterTornTail(t *testing.T) {
	for _, points := range []int64{1, 1 << 20} {
		v := dirVolume(t)
		cfg := testConfig()
		cfg.RecoveryPointBytes = points
		p := open(t, newSession(t, v), 1, cfg)
		appendOne(t, p, idem(1, 0, 0, "a"))
		cfg.RecoveryPointBytes = 1 << 20 // no more of them: the committer is idle
		p.Reconfigure(cfg)
		for i := range int32(3) {
			appendOne(t, p, idem(1, 0, 1+2*i, "b", "c"))
		}
		size := int64(len(idem(1, 0, 0, "a")))
		step := int64(len(idem(1, 0, 1, "b", "c")))
		for cut := size; cut <= size+3*step; cut += step / 3 {
			v := copyVolume(t, v)
			ok(t, os.Truncate(logPath(t, v, p.active.id), cut))
			q := open(t, newSession(t, v), 2, testConfig())
			kept := (cut - size) / step
			wantWindows(t, q.mu.producers.windows(), replayLog(t, q))
			send(t, q, sent{1, 0, 0, 1, 0, nil})
			if kept < 2 {
				send(t, q, sent{1, 0, 5, 2, -1, kerr.OutOfOrderSequenceNumber})
			}
			for i := range int32(3) {
				send(t, q, sent{1, 0, 1 + 2*i, 2, int64(1 + 2*i), nil})
			}
			send(t, q, sent{1, 0, 7, 1, 7, nil})
			ok(t, q.Relinquish(context.Background()))
		}
		ok(t, p.Abandon(context.Background()))
	}
}

// Word of batches beyond the log is not believed.
func TestSnapshotAheadIsCut(t *testing.T) {
	m := &Manifest{Recovery: RecoveryPoint{Offset: 5}, Producers: []ProducerState{
		{ID: 1, Batches: []ProducerBatch{{Sequence: 0, LastDelta: 3, Offset: 0}, {Sequence: 4, Offset: 4}, {Sequence: 5, Offset: 5}}},
		{ID: 2, Batches: []ProducerBatch{{Sequence: 0, LastDelta: 1, Offset: 4}}},
	}}
	var ps producers
	ps.restore(m, m.Recovery.Offset)
	wantWindows(t, ps.windows(), map[int64][]seenBatch{1: {{base: 0, lastDelta: 3}, {base: 4, sequence: 4}}})
	if e := ps.advance(5); e == nil || !slices.Equal(e.Dropped, []int64{2}) {
		t.Fatalf("news %+v", e)
	}
	if err := (&ProducersAdvanced{Offset: 6}).apply(m); err == nil {
		t.Fatal("a manifest takes producers ahead of its recovery point")
	}
	for _, bad := range [][]ProducerState{{{ID: 1}}, {{ID: 2, Batches: make([]ProducerBatch, 1)}, {ID: 1, Batches: make([]ProducerBatch, 1)}}, {{ID: 1, Batches: make([]ProducerBatch, 6)}}} {
		if _, err := decodeManifest(must(encodeManifest(&Manifest{Producers: bad}))(t)); err == nil {
			t.Errorf("%+v was taken", bad)
		}
	}
}

// modelJudge is Kafka's rule, read off the log.
func modelJudge(log []seenLog, x seenLog) (base int64, err *kerr.Error) {
	w := replayed(log)[x.id]
	if len(w) == 0 {
		return -1, nil
	}
	last := w[len(w)-1]
	for _, s := range w {
		if s.epoch == x.epoch && s.sequence == x.sequence && s.lastDelta == x.lastDelta {
			return s.base, nil
		}
	}
	due := int64(last.sequence) + int64(last.lastDelta) + 1
	if due >= 1<<31 {
		due -= 1 << 31
	}
	switch {
	case x.epoch < last.epoch:
		return -1, kerr.InvalidProducerEpoch
	case x.epoch > last.epoch && x.sequence != 0, x.epoch == last.epoch && int64(x.sequence) != due:
		return -1, kerr.OutOfOrderSequenceNumber
	}
	return -1, nil
}

// TestProducersAgainstModel has producers send anything, with commits, recovery points,
// expiry and takeovers that lose any part of what was not committed. At each point the
// answer is the model's, and the manifest with the tail is what the log gives.
func TestProducersAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var (
			ps   producers
			log  []seenLog
			m    = &Manifest{}
			hw   int64
			next int64
			idle = map[int64]int64{} // since which offset
		)
		advance := func(end int64) {
			m = m.clone()
			m.Recovery.Offset = end
			if e := ps.advance(end); e != nil {
				before := slices.Clone(m.Producers)
				old := m.clone()
				ok(t, e.apply(m))
				if !reflect.DeepEqual(old.Producers, before) {
					t.Fatalf("an older state changed")
				}
			}
			raw := must(encodeManifest(m))(t)
			m = must(decodeManifest(raw))(t)
		}
		boundary := func(from int64, name string) int64 {
			ends := []int64{from}
			for _, x := range log {
				if x.next() > from {
					ends = append(ends, x.next())
				}
			}
			return rapid.SampledFrom(ends).Draw(t, name)
		}
		send := func(t *rapid.T) {
			id := rapid.Int64Range(0, 2).Draw(t, "producer")
			x := seenLog{id, seenBatch{base: next, appendTime: -1, lastDelta: rapid.Int32Range(0, 2).Draw(t, "delta")}}
			mine := slices.DeleteFunc(slices.Clone(log), func(y seenLog) bool { return y.id != id })
			if len(mine) > 0 {
				last := mine[len(mine)-1]
				x.epoch, x.sequence = last.epoch, last.follows()
				switch rapid.IntRange(0, 5).Draw(t, "kind") {
				case 0:
					x.sequence = rapid.SampledFrom([]int32{0, 1, last.sequence, last.follows() + 1, 1<<31 - 1}).Draw(t, "sequence") & (1<<31 - 1)
				case 1:
					x.epoch += int16(rapid.IntRange(-1, 1).Draw(t, "epoch"))
					x.sequence = rapid.Int32Range(0, 1).Draw(t, "sequence")
				case 2:
					old := mine[len(mine)-1-rapid.IntRange(0, min(6, len(mine)-1)).Draw(t, "again")]
					x.epoch, x.sequence, x.lastDelta = old.epoch, old.sequence, old.lastDelta
				}
			} else {
				x.sequence = rapid.SampledFrom([]int32{0, 7, 1<<31 - 2}).Draw(t, "sequence")
				x.epoch = int16(rapid.IntRange(0, 1).Draw(t, "epoch"))
			}
			x.epoch = max(0, x.epoch)
			b := batch(idem(id, x.epoch, x.sequence, many(int(x.lastDelta)+1)...))
			b.place(x.base, 1)
			base, code := modelJudge(log, x)
			s, err := ps.judge(b)
			switch {
			case code != nil:
				wantCode(t, err, code)
			case err != nil || (s == nil) != (base < 0) || s != nil && s.base != base:
				t.Fatalf("%+v: %+v, %v, want %d", x, s, err, base)
			case s == nil:
				ps.note(b, 0, hw)
				log, next = append(log, x), x.next()
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"send": send, "send more": send, "send still more": send,
			"commit":         func(t *rapid.T) { hw = boundary(hw, "high watermark") },
			"recovery point": func(t *rapid.T) { advance(boundary(max(hw, m.Recovery.Offset), "end")) },
			"forget": func(t *rapid.T) { // as if idle
				p := ps.byID[rapid.Int64Range(0, 2).Draw(t, "producer")]
				if p == nil || p.newest().next() > hw {
					return
				}
				idle[p.id] = p.newest().next()
				ps.forget(p)
				log = slices.DeleteFunc(log, func(x seenLog) bool { return x.id == p.id })
			},
			"takeover": func(t *rapid.T) {
				// What has a recovery point, or is committed, is there; of the rest a prefix.
				end := boundary(max(hw, m.Recovery.Offset), "end")
				log = slices.DeleteFunc(log, func(x seenLog) bool { return x.next() > end })
				var fresh producers
				fresh.restore(m, m.Recovery.Offset)
				for id, since := range idle {
					if p := fresh.byID[id]; p != nil && p.newest().next() <= since {
						fresh.forget(p)
					}
				}
				for _, x := range log {
					if x.base >= m.Recovery.Offset {
						b := batch(idem(x.id, x.epoch, x.sequence, many(int(x.lastDelta)+1)...))
						b.place(x.base, 1)
						fresh.note(b, 0, 1<<62)
					}
				}
				ps, hw, next = fresh, end, end
				advance(end)
				if end > 0 && m.Recovery.Offset != end {
					t.Fatalf("recovery point %d, want %d", m.Recovery.Offset, end)
				}
			},
			"": func(t *rapid.T) { wantWindows(t, ps.windows(), replayed(log)) },
		})
	})
}

// The manifest's news of producers stay small: one of many that goes on costs what it is.
func TestProducerNewsAreBounded(t *testing.T) {
	v := newVolume(t, nfssim.New(nfssim.Config{}).Server())
	p := open(t, newSession(t, v), 1, testConfig())
	for id := range int64(1000) {
		_, err := p.Append(t.Context(), idem(id, 0, 0, "x"))
		ok(t, err)
	}
	appendOne(t, p, idem(5000, 0, 0, "x"))
	p.mu.Lock()
	e := p.mu.producers.advance(p.mu.next)
	p.mu.Unlock()
	if e == nil {
		e = &ProducersAdvanced{}
	}
	if told := len(committed(t, p).Producers); told+len(e.Changed) != 1001 {
		t.Fatalf("%d changed, %d were told", len(e.Changed), told)
	}
	appendOne(t, p, idem(7, 0, 1, "x"))
	p.mu.Lock()
	e, none := p.mu.producers.advance(p.mu.next), p.mu.producers.advance(p.mu.next)
	p.mu.Unlock()
	if len(e.Changed) != 1 || none != nil {
		t.Fatalf("news %+v, then %+v", e, none)
	}
	_ = p.Abandon(t.Context())
}

package partition

import (
	"context"
	"errors"
	"hash/fnv"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"kaas.dev/kaas/internal/sleep"
	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/internal/substrate/nfssim/sweep"
)

// TestSweepClean is TestSweep with retention, DeleteRecords and compaction going on. No
// key may lose its newest record, nothing above the log start may be lost, and every
// fetch gets somewhere.
func TestSweepClean(t *testing.T) {
	var total sweepStats
	sweep.Run(t, 300, func(seed int64) error {
		st, err := simulateWith(t, seed, breaks{}, substrate.Breaks{}, cleaned)
		total.add(st)
		return err
	})
	t.Logf("%+v", total)
	if total.Deleted == 0 || total.Retained == 0 || total.Compacted == 0 {
		t.Fatalf("the sweep did nothing: %+v", total)
	}
}

// TestSweepCleanCatches takes the sacred order away: the sweep must fail.
func TestSweepCleanCatches(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	for name, b := range map[string]breaks{
		"unlinked before the manifest's Check":  {unlinkEarly: true},
		"compacted without an fdatasync":        {noCompactSync: true},
		"high watermark left in an old segment": {staleMarks: true},
	} {
		t.Run(name, func(t *testing.T) {
			sweep.Catches(t, 3000, func(seed int64) error {
				_, err := simulateWith(t, seed, b, substrate.Breaks{}, cleaned)
				return err
			})
		})
	}
}

// keyOracle knows what cleaning may take away.
type keyOracle struct {
	start int64 // the largest log start that anybody was shown
}

// cleaned makes a world's log one that is cleaned up.
func cleaned(w *world) {
	w.keys = &keyOracle{}
	w.cfg.Cleanup = Cleanup{Delete: true, Compact: true, RetentionAge: -1, DeleteRetention: time.Second,
		RetentionBytes: []int64{-1, 500, 3000}[w.rng.IntN(3)],
		DeleteDelay:    time.Duration([]int64{0, 0, 777}[w.rng.IntN(3)]) * time.Millisecond}
	w.cfg.SegmentBytes = []int64{200, 600, 2000}[w.rng.IntN(3)]
}

// keyOf is the key of a value of the sweep.
func keyOf(value string) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(value)) // never fails
	return string(rune('a' + h.Sum32()%6))
}

// batch makes a producer's batch, with keys where the log is cleaned.
func (w *world) batch(values []string) []byte {
	if w.keys == nil {
		return rec(0, values...)
	}
	var recs []kv
	for i, v := range values {
		recs = append(recs, kv{str(keyOf(v)), str(v), int64(i)})
	}
	return kvBatch(w.o, uint16(len(values[0])%5), 1, recs...)
}

// idem is batch for an idempotent producer.
func (w *world) idem(id int64, sequence int32, values []string) []byte {
	if w.keys == nil {
		return idem(id, 0, sequence, values...)
	}
	b := batch(w.batch(values))
	copy(b[43:57], idem(id, 0, sequence, values...)[43:57])
	return reseal(b)
}

// observeBatch takes the records that a batch has, which may not be all it had.
func (o *oracle) observeBatch(who string, b batch) {
	if b.attrs()&attrControl != 0 {
		return
	}
	var l looked
	it, err := l.records(b)
	var r record
	for err == nil && it.next(&r) {
		o.observe(who, b.base()+r.offset, []string{string(r.value)})
	}
	if err != nil || it.err != nil {
		o.violate("%s: batch at %d cannot be read: %v, %v", who, b.base(), err, it.err)
	}
}

// tooOld reports that a read was below the log start, as it may be.
func (k *keyOracle) tooOld(o *oracle, err error, at int64, f Fetched) bool {
	if k == nil || !errors.Is(err, kerr.OffsetOutOfRange) {
		return false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if at >= f.LogStart {
		o.violate("read at %d is refused, log is from %d to %d", at, f.LogStart, f.HighWatermark)
	}
	k.start = max(k.start, f.LogStart)
	return true
}

// clean does what a cleaner does, and deletes records now and then.
func (b *simBroker) clean(ctx context.Context, p *Partition, rng *rand.Rand) {
	o, k := b.w.o, b.w.keys
	for range 1 + rng.IntN(6) {
		sleep.For(ctx, time.Duration(rng.IntN(400))*time.Millisecond+100*time.Nanosecond)
		var err error
		var done *int
		switch n := rng.IntN(8); {
		case n < 1:
			start, hw, _ := p.Offsets()
			_, err = p.DeleteRecords(ctx, start+rng.Int64N(hw-start+1)/3)
			done = &o.Deleted
		case n < 4:
			err = p.Retain(ctx)
			done = &o.Retained
		default:
			var st Compacted
			if st, err = p.Compact(ctx, CompactOptions{Force: true, Memory: []int64{0, 12 * keySlotSize}[rng.IntN(2)]}); st.Kept < st.Records {
				done = &o.Compacted
			}
		}
		start, _, _ := p.Offsets()
		o.mu.Lock()
		k.start = max(k.start, start)
		if err == nil && done != nil {
			*done++
		}
		o.mu.Unlock()
		if err != nil {
			b.corruption(err)
			if p.Err() != nil {
				return
			}
		}
	}
}

// final reads the whole log through a fresh leader.
func (k *keyOracle) final(o *oracle, p *Partition) {
	start, hw, _ := p.Offsets()
	if start < k.start {
		o.violate("a fresh leader's log starts at %d, but %d was shown", start, k.start)
	}
	newest, want := map[string]int64{}, map[string]int64{}
	for at := start; at < hw && o.bad == nil; {
		f, err := p.Read(context.Background(), at, 300, true)
		bs := batches(o, f.Records)
		if err != nil || len(bs) == 0 || bs[0].next() <= at {
			o.violate("a fresh leader's read at %d of %d to %d: %d batches, %w", at, start, hw, len(bs), err)
			return
		}
		for _, b := range bs {
			o.observeBatch("a fresh leader", b)
			var l looked
			it, _ := l.records(b) // observeBatch has told
			for r := (record{}); it.next(&r); {
				newest[string(r.key)] = b.base() + r.offset
			}
			at = b.next()
		}
	}
	for off, v := range o.value {
		if o.txnOf[v].goes() {
			continue
		}
		want[keyOf(v)] = max(want[keyOf(v)], off)
	}
	for key, off := range want {
		if newest[key] < off && off >= start {
			o.violate("the newest record of %s was at %d; a fresh leader, from %d to %d, has its newest at %d", key, off, start, hw, newest[key])
		}
	}
}

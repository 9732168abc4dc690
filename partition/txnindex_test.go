package partition

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"kaas.dev/kaas/internal/substrate/nfssim"
)

// An entry is byte for byte Kafka's.
func TestTxnIndexEntry(t *testing.T) {
	x := AbortedTxn{Producer: 7, First: 1, Last: 1 << 40, Stable: 258}
	want := "0000" + "0000000000000007" + "0000000000000001" + "0000010000000000" + "0000000000000102"
	if got := fmt.Sprintf("%x", x.append(nil)); got != want || len(want) != 2*abortedSize {
		t.Fatalf("got %s, want %s", got, want)
	}
	if back := readAborted(x.append(nil)); back != x {
		t.Fatalf("read back as %+v", back)
	}
}

// abortSome fills several segments with three producers' transactions, every third of
// which is aborted, and returns those.
func abortSome(t *testing.T, p *Partition, n int) (want []AbortedTxn) {
	t.Helper()
	first := map[int64]int64{}
	epoch := map[int64]int16{}
	for i := range n {
		id := int64(i*i%3 + 1)
		if at, open := first[id]; open && i%2 == 0 {
			delete(first, id)
			epoch[id]++
			m := Marker{ProducerID: id, ProducerEpoch: epoch[id], Commit: i%3 > 0, Version: 2}
			last := mark1(t, p, m)
			if !m.Commit {
				want = append(want, AbortedTxn{id, at, last, stableBeside(first, last+1)})
			}
			continue
		}
		p.mu.Lock()
		seq := int32(0)
		if x := p.mu.producers.byID[id]; x != nil {
			seq = x.due()
		}
		p.mu.Unlock()
		at := appendTxn(t, p, txnBatch(id, epoch[id], seq, "a", "b"))
		if _, open := first[id]; !open {
			first[id] = at
		}
	}
	slices.SortFunc(want, func(a, b AbortedTxn) int { return int(a.First - b.First) })
	return want
}

// wantAborted reads what is committed from every offset, in small answers and in large
// ones, by Read and by Cut.
func wantAborted(t *testing.T, p *Partition, all []AbortedTxn) {
	t.Helper()
	ctx := context.Background()
	start, _, stable := p.Offsets()
	for _, most := range []int{1, 300, 1 << 20} {
		for at := start; at < stable; at++ {
			f, err := p.ReadCommitted(ctx, at, most, true)
			ok(t, err)
			got, err := p.CutCommitted(ctx, At(at), most, true)
			ok(t, err)
			recs, err := got.Region.Bytes(ctx)
			ok(t, err)
			got.Region.Release()
			for i, x := range []struct {
				recs []byte
				list []AbortedTxn
			}{{f.Records, f.Aborted}, {recs, got.Aborted}} {
				bs := batches(t, x.recs)
				next := bs[len(bs)-1].next()
				want := []AbortedTxn{}
				for _, a := range all {
					if a.Last >= at && a.First < next {
						want = append(want, a)
					}
				}
				if !slices.Equal(x.list, want) || next > stable {
					t.Fatalf("%d: from %d to %d, stable to %d: aborted are %+v, want %+v", i, at, next, stable, x.list, want)
				}
			}
			if u, err := p.Read(ctx, at, most, true); err != nil || u.Aborted != nil {
				t.Fatalf("read_uncommitted: %v, %v", u.Aborted, err)
			}
		}
	}
	f, err := p.ReadCommitted(ctx, stable, 1000, true)
	if err != nil || len(f.Records) > 0 || f.Aborted == nil {
		t.Fatalf("at the last stable offset: %d bytes, %v, %v", len(f.Records), f.Aborted, err)
	}
}

// T-01: the list is whole and in order over roll, eviction, takeover, and with files that
// are lost or damaged.
func TestAbortedLists(t *testing.T) {
	for _, clean := range []bool{true, false} {
		t.Run(fmt.Sprintf("clean %v", clean), func(t *testing.T) {
			v := dirVolume(t)
			cfg := testConfig()
			cfg.SegmentBytes = 500
			p := open(t, newSession(t, v), 1, cfg)
			want := abortSome(t, p, 160)
			if n := len(committed(t, p).Segments); len(want) < 10 || n < 2*cachedSegments {
				t.Fatalf("%d aborted, %d segments", len(want), n)
			}
			wantAborted(t, p, want)
			epoch := int32(1)
			again := func() {
				t.Helper()
				if clean {
					ok(t, p.Relinquish(context.Background()))
				} else {
					ok(t, p.Abandon(context.Background()))
				}
				epoch++
				p = open(t, newSession(t, v), epoch, cfg)
				wantAborted(t, p, want)
			}
			again()
			files := must(filepath.Glob(filepath.Join(filepath.Dir(logPath(t, v, SegmentID{})), "*"+txnExt)))(t)
			if len(files) < 5 {
				t.Fatalf("%d files", len(files))
			}
			for i, name := range files {
				b := must(os.ReadFile(name))(t)
				switch i % 4 {
				case 0:
					ok(t, os.Remove(name))
				case 1:
					ok(t, os.Truncate(name, int64(len(b)-1)))
				case 2:
					ok(t, os.Truncate(name, 0))
					ok(t, os.Truncate(name, int64(len(b)))) // zeros, as after a power loss
				default:
					b[12] ^= 1
					ok(t, os.WriteFile(name, b, 0o600))
				}
			}
			before := len(files)
			again()
			again()
			if files = must(filepath.Glob(filepath.Join(filepath.Dir(files[0]), "*"+txnExt)))(t); len(files) < before {
				t.Errorf("%d files, there were %d: what is lost is not made again", len(files), before)
			}
			_, hw, _ := p.Offsets()
			_, err := p.DeleteRecords(context.Background(), hw/2)
			ok(t, err)
			wantAborted(t, p, want)
			again()
			ok(t, p.Relinquish(context.Background()))
		})
	}
}

// The files of a segment go with it.
func TestTxnIndexGoesWithItsSegment(t *testing.T) {
	v := dirVolume(t)
	cfg := testConfig()
	cfg.SegmentBytes, cfg.Cleanup = 300, Cleanup{Delete: true, RetentionAge: -1, RetentionBytes: 0}
	p := open(t, newSession(t, v), 1, cfg)
	abortSome(t, p, 60)
	ok(t, p.Retain(context.Background()))
	glob := filepath.Join(filepath.Dir(logPath(t, v, SegmentID{})), "*")
	for try := 0; ; try++ {
		left := must(filepath.Glob(glob + "[gx]"))(t)
		if len(left) == 0 {
			break
		}
		if try == 6000 { // a minute
			t.Fatalf("still there: %v", left)
		}
		time.Sleep(10 * time.Millisecond)
	}
	ok(t, p.Relinquish(context.Background()))
}

// C-01 and T-01: what a reader of committed records sees stays the same when the log is
// compacted, and a takeover after it knows the same.
func TestAbortedListsOverCompaction(t *testing.T) {
	v := newVolume(t, nfssim.New(nfssim.Config{}).Server())
	cfg := compactConfig()
	p := open(t, newSession(t, v), 1, cfg)
	want := map[string]string{}
	for i := range 60 {
		id, key := int64(i%3+1), fmt.Sprintf("k%d", i%7)
		text := fmt.Sprintf("v%d", i)
		putTxn(t, p, id, 0, str(key), str(text))
		end := commitKey
		if i%4 == 1 {
			end = abortKey
		} else {
			want[key] = text
		}
		putTxn(t, p, id, attrControl, end, nil)
	}
	k := &txnOracle{}
	visible := func() map[string]string {
		t.Helper()
		out := map[string]string{}
		start, _, stable := p.Offsets()
		for at := start; at < stable; {
			f, err := p.ReadCommitted(context.Background(), at, 400, true)
			ok(t, err)
			hidden := k.hidden(f)
			bs := batches(t, f.Records)
			for _, b := range bs {
				if b.attrs()&attrControl != 0 || hidden[b.base()] {
					continue
				}
				for _, r := range kvs(t, b) {
					out[string(r.key)] = string(r.value)
				}
			}
			at = bs[len(bs)-1].next()
		}
		return out
	}
	same := func(when string) {
		t.Helper()
		if got := visible(); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("%s: %v, want %v", when, got, want)
		}
	}
	same("before")
	for pass := range 3 {
		compact(t, p)
		same(fmt.Sprintf("pass %d", pass))
		p.mu.Lock()
		p.mu.cleaned = 0
		p.mu.Unlock()
	}
	ok(t, p.Abandon(context.Background()))
	p = open(t, newSession(t, v), 2, cfg)
	same("after a takeover")
	ok(t, p.Relinquish(context.Background()))
}

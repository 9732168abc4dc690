package history_test

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/projections"
	"kaas.dev/kaas/tools/kaas-meta/history"
)

// countingFS counts the files that are opened, and how many are open at once. It makes
// nothing durable, so that a long history is made in a short time.
type countingFS struct {
	*substrate.DirFS
	opened, open, most atomic.Int64
}

type countedFile struct {
	substrate.File
	fs *countingFS
}

func (f *countingFS) Open(name string) (substrate.File, error) {
	file, err := f.DirFS.Open(name)
	if err != nil {
		return nil, err
	}
	f.opened.Add(1)
	n := f.open.Add(1)
	for old := f.most.Load(); n > old && !f.most.CompareAndSwap(old, n); old = f.most.Load() {
	}
	return &countedFile{file, f}, nil
}

func (f *countingFS) Glance(name string) (substrate.File, error) { return f.Open(name) }

func (f *countingFS) CreateExclusive(name string) (substrate.File, error) {
	file, err := f.DirFS.CreateExclusive(name)
	f.open.Add(1)
	return &countedFile{file, f}, err
}

func (f *countingFS) SyncDir(string) error { return nil }

func (f *countedFile) Datasync() error { return nil }

func (f *countedFile) Close() error {
	f.fs.open.Add(-1)
	return f.File.Close()
}

// many is a cluster's stream with n entries in ten epochs, one entry a minute: leaders of a
// hundred partitions that move, and producers that are fenced.
func many(t testing.TB, n int) (*cluster, *countingFS) {
	t.Helper()
	c := newCluster(t)
	fs := &countingFS{DirFS: c.v.FS.(*substrate.DirFS)}
	c.v.FS = fs
	made := 0
	for e := 1; e <= 10; e++ {
		x := c.claim(t, int32(e), substrate.Epoch(e))
		if e == 1 {
			x.publish(&projections.TopicCreated{ID: orders, Name: "orders", Partitions: 100})
			made++
		}
		for ; made < n*e/10; made++ {
			if made%10 == 0 {
				x.publish(&projections.ProducerFenced{ProducerID: int64(made % 1000), Epoch: int16(made / 1000), Time: int64(made)})
			} else {
				x.publish(&projections.PartitionLeaderChanged{TopicID: orders, Partition: int32(made % 100), Leader: int32(made % 7), Epoch: int32(made)})
			}
		}
		x.abandon()
	}
	fs.opened.Store(0)
	fs.most.Store(0)
	return c, fs
}

// minute is the text of a time by the clock of many's entries.
func minute(n int) string { return start.Add(time.Duration(n) * time.Minute).Format(time.RFC3339) }

func count(t testing.TB, c *cluster, f history.Filter) (n int) {
	t.Helper()
	for r, err := range history.Cluster(c.v).Records(context.Background(), f) {
		check(t, err)
		if r.Err != nil {
			t.Fatal(r.Err)
		}
		n++
	}
	return n
}

func statesAt(t testing.TB, c *cluster, minutes ...int) []history.State {
	t.Helper()
	var texts []string
	for _, m := range minutes {
		texts = append(texts, minute(m))
	}
	sts, err := history.Cluster(c.v).StatesAt(context.Background(), start, texts...)
	check(t, err)
	return sts
}

func diffAt(t testing.TB, c *cluster, from, to int) []history.Change {
	t.Helper()
	sts := statesAt(t, c, from, to)
	return history.Diff(sts[0], sts[1])
}

// TestIndexOfNamesSuffices: what is asked for by time or position opens few files of many (an
// index, a search, the newest state for the names of topics), and
// what reads them all has few open at once.
func TestIndexOfNamesSuffices(t *testing.T) {
	const n = 3000
	c, fs := many(t, n)
	few := func(what string, most int64, do func()) {
		t.Helper()
		fs.opened.Store(0)
		do()
		if got := fs.opened.Load(); got > most {
			t.Errorf("%s opened %d files, the most is %d", what, got, most)
		}
	}
	few("log --since", 250, func() {
		if got := count(t, c, history.Filter{Since: start.Add((n - 99) * time.Minute)}); got != 100 {
			t.Errorf("the last 100 entries are %d", got)
		}
	})
	few("dump at a time", 200, func() {
		if got := statesAt(t, c, n/2)[0]; !got.Position.Less(substrate.Position{Epoch: 6, Seq: 1}) {
			t.Errorf("half way is %s", got.Position)
		}
	})
	few("diff", 400, func() {
		if got := len(diffAt(t, c, 1000, 1010)); got == 0 || got > 10 {
			t.Errorf("ten entries made %d changes", got)
		}
	})
	fs.most.Store(0)
	if got, want := count(t, c, history.Filter{}), n+1+9; got != want { // the birth, and a plug after each epoch but the last
		t.Errorf("%d entries, want %d", got, want)
	}
	if most := fs.most.Load(); most > 20 {
		t.Errorf("%d files were open at once", most)
	}
}

// TestPrunedWhileRead: entries that go while they are read are left out and are no error.
func TestPrunedWhileRead(t *testing.T) {
	c, _ := many(t, 500)
	ctx := context.Background()
	s := history.Cluster(c.v)
	var got []substrate.Position
	for r, err := range s.Records(ctx, history.Filter{}) {
		check(t, err)
		if r.Err != nil {
			t.Fatalf("%s: %v", r.Position, r.Err)
		}
		if len(got) == 0 { // epochs 0 to 5 go
			for e := 0; e <= 5; e++ {
				names, err := filepath.Glob(filepath.Join(c.dir, c.path(), substrate.EpochName(substrate.Epoch(e)), "*.snap"))
				check(t, err)
				for _, n := range names {
					check(t, os.Remove(n))
				}
			}
		}
		got = append(got, r.Position)
	}
	if n := len(got); n < 200 || n > 300 || got[n-1] != (substrate.Position{Epoch: 10, Seq: 50}) {
		t.Errorf("%d records, the last %v", len(got), got[len(got)-1])
	}
	if !slices.IsSortedFunc(got, func(a, b substrate.Position) int {
		if a.Less(b) {
			return -1
		}
		return 1
	}) {
		t.Error("records are out of order")
	}
}

// BenchmarkHistory asks a history of 100,000 entries. All but the last read few files.
func BenchmarkHistory(b *testing.B) {
	const n = 100_000
	c, fs := many(b, n)
	for _, x := range []struct {
		name string
		do   func()
	}{
		{"log=last-1000", func() {
			if got := count(b, c, history.Filter{Since: start.Add((n - 999) * time.Minute)}); got != 1000 {
				b.Fatal(got)
			}
		}},
		{"log=hour-by-topic", func() {
			count(b, c, history.Filter{Since: start.Add(n / 2 * time.Minute), Until: start.Add((n/2 + 60) * time.Minute), Topic: "orders"})
		}},
		{"dump=latest", func() {
			_, err := history.Cluster(c.v).At(context.Background(), substrate.Position{})
			check(b, err)
		}},
		{"dump=time", func() { statesAt(b, c, n/3) }},
		{"diff=times", func() { diffAt(b, c, n/3, n/2) }},
		{"log=all", func() { count(b, c, history.Filter{}) }},
	} {
		b.Run(x.name, func(b *testing.B) {
			var peak atomic.Uint64
			stop := watchHeap(&peak)
			fs.opened.Store(0)
			b.ReportAllocs()
			for b.Loop() {
				x.do()
			}
			stop()
			b.ReportMetric(float64(peak.Load())/(1<<20), "MiB-heap")
			b.ReportMetric(float64(fs.opened.Load())/float64(b.N), "files/op")
		})
	}
}

// watchHeap notes the largest heap until it is stopped.
func watchHeap(peak *atomic.Uint64) (stop func()) {
	runtime.GC()
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		t := time.NewTicker(10 * time.Millisecond)
		defer t.Stop()
		for {
			select {
			case <-done:
				return
			case <-t.C:
			}
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			peak.Store(max(peak.Load(), m.HeapAlloc))
		}
	}()
	return func() { close(done); <-ended }
}

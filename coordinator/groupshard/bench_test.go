package groupshard

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/projections/groups"
)

// BenchmarkOffsetCommit: 1,000 groups of 10 partitions commit once a second, spread over the
// second, to one shard each of 16 under one session. Reported are the time of a commit and
// the bytes that came onto the volume for it, beside the bytes of its event.
func BenchmarkOffsetCommit(b *testing.B) {
	const nGroups, shards, seconds = 1000, 16, 10
	for b.Loop() {
		bn := newBench(b)
		topic := bn.topic("t", 10)
		ctx := context.Background()
		s, err := bn.v.OpenSession(substrate.Identity{Role: substrate.RoleData})
		if err != nil {
			b.Fatal(err)
		}
		var own []*Shard
		for i := range shards {
			opt := bn.opt
			opt.Check, opt.View = s.Check, bn.viewOf
			sh, err := Open(ctx, s, fmt.Sprintf("groups/%02d", i), 1, opt)
			if err != nil {
				b.Fatal(err)
			}
			own = append(own, sh)
		}
		before := written(b, bn.v)
		var mu sync.Mutex
		var took []time.Duration
		var wg sync.WaitGroup
		for g := range nGroups {
			wg.Go(func() {
				time.Sleep(time.Duration(g) * time.Second / nGroups)
				tick := time.NewTicker(time.Second)
				defer tick.Stop()
				for n := range seconds {
					began := time.Now()
					c := Commit{Group: fmt.Sprintf("group-%04d", g), Generation: -1,
						Topics: offsets(topic, int64(1_000_000+n*1000), 0, 1, 2, 3, 4, 5, 6, 7, 8, 9)}
					if err := own[g%shards].Commit(ctx, c); err != nil {
						b.Error(err)
						return
					}
					mu.Lock()
					took = append(took, time.Since(began))
					mu.Unlock()
					<-tick.C
				}
			})
		}
		wg.Wait()
		slices.Sort(took)
		b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
		b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
		perCommit := float64(written(b, bn.v)-before) / float64(len(took))
		ev, err := groups.NewEvent(&groups.OffsetsCommitted{Group: "group-0000", Time: time.Now().UnixMilli(),
			Topics: offsets(topic, 1_000_000, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9)})
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(perCommit, "B/commit")
		b.ReportMetric(perCommit/float64(len(ev.Type)+len(ev.Data)), "times-events")
		for _, sh := range own {
			_ = sh.Relinquish(ctx)
		}
		_ = s.Close(ctx)
	}
}

// written is the size of all entries; nothing is pruned in the time of a benchmark.
func written(b *testing.B, v *substrate.Volume) (n int64) {
	root := v.FS.(*substrate.DirFS).Root()
	err := filepath.WalkDir(filepath.Join(root, "groups"), func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			var i os.FileInfo
			if i, err = d.Info(); err == nil {
				n += i.Size()
			}
		}
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	return n
}

// BenchmarkOpen is a new owner's time with 100,000 groups of 10 partitions, a tenth of which
// have committed since the newest base.
func BenchmarkOpen(b *testing.B) {
	bn := newBench(b)
	topic := bn.topic("t", 10)
	sh := bn.owner(1)
	ctx := context.Background()
	var wg sync.WaitGroup
	for w := range 64 {
		wg.Go(func() {
			for g := w; g < 100_000; g += 64 {
				c := Commit{Group: fmt.Sprintf("group-%06d", g), Generation: -1, Topics: offsets(topic, int64(g), 0, 1, 2, 3, 4, 5, 6, 7, 8, 9)}
				if err := sh.Commit(ctx, c); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	epoch := int32(1)
	for b.Loop() {
		epoch++
		sh = bn.owner(epoch)
	}
	b.StopTimer()
	bn.expect(sh, "group-099999", topic, 9, 99999)
}

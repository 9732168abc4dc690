package coordinator

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"kaas.dev/kaas/internal/sleep"
	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/internal/substrate/nfssim"
	"kaas.dev/kaas/projections"
)

// CASES N-01: whoever deletes has closed before. A topic that is deleted while it is
// written to and read leaves no hidden .nfs file on the server, and no directory.
func TestDeletionLeavesNoSillyFiles(t *testing.T) {
	for seed := range int64(10) {
		synctest.Test(t, func(t *testing.T) {
			sim := nfssim.New(nfssim.Config{Seed: seed, Delegations: seed%2 == 0})
			defer sim.Stop()
			w := &simWorld{living: map[projections.TopicID]string{}}
			var done atomic.Bool
			var err error
			go func() {
				defer done.Store(true)
				err = w.deleteWhileUsed(sim)
			}()
			if rerr := sim.Run(done.Load); rerr != nil || err != nil {
				t.Fatalf("seed %d: %v, %v", seed, rerr, err)
			}
			for _, name := range serverNames(t, sim.Server(), ".") {
				if strings.Contains(name, ".nfs") || strings.HasPrefix(name, "topics/") {
					t.Errorf("seed %d: %s is left", seed, name)
				}
			}
		})
	}
}

func (w *simWorld) deleteWhileUsed(sim *nfssim.Sim) error {
	v, err := w.volume(sim.Host("a").Process())
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	b, err := Start(ctx, v, w.options())
	if err != nil {
		return err
	}
	topic, err := b.CreateTopic(ctx, TopicSpec{Name: "a", Partitions: 2}, false)
	if err != nil {
		return errors.Join(err, b.Stop(ctx))
	}
	var wg sync.WaitGroup
	use, stop := context.WithCancel(ctx)
	for i := range 3 {
		wg.Go(func() {
			for n := 0; use.Err() == nil; n++ {
				sleep.For(use, time.Duration(1+i)*time.Millisecond)
				if i > 0 {
					_, _ = produce(use, b, topic.ID, fmt.Sprint(n))
				} else if p, err := b.Partition(topic.ID, 0); err == nil {
					_, _ = p.Read(use, 0, 1000, true)
				}
			}
		})
	}
	sleep.For(ctx, 3*time.Second)
	err = b.DeleteTopic(ctx, topic.ID)
	for err == nil && len(b.View().Removing()) > 0 {
		sleep.For(ctx, 100*time.Millisecond)
		err = ctx.Err()
	}
	stop()
	wg.Wait()
	return errors.Join(err, b.Stop(ctx))
}

func serverNames(t *testing.T, fs substrate.FS, dir string) (out []string) {
	t.Helper()
	es, err := fs.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range es {
		name := e.Name
		if dir != "." {
			name = dir + "/" + e.Name
		}
		out = append(out, name)
		if e.Dir {
			out = append(out, serverNames(t, fs, name)...)
		}
	}
	return out
}

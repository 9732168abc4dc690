package history_test

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/projections"
	"kaas.dev/kaas/tools/kaas-meta/history"
)

// TestFollow: a sealed owner's late entry is told while nobody has decided about it, and again
// when its successor has not taken it over.
func TestFollow(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	c := life(t)
	old := c.claim(t, 1, 3)
	old.publish(&projections.BrokerRegistered{ID: 5, Epoch: 5})
	old.publish(&projections.BrokerFenced{ID: 5, Epoch: 5})
	late := filepath.Join(c.dir, substrate.EntryPath(c.path(), substrate.Position{Epoch: 3, Seq: 2}))
	check(t, os.Rename(late, late+".late"))
	check(t, c.v.Seal(ctx, old.s.ID()))
	next := c.claim(t, 2, 4)
	check(t, os.Rename(late+".late", late))

	told := make(chan string)
	var done sync.WaitGroup
	done.Go(func() {
		f := history.Filter{From: substrate.Position{Epoch: 2, Seq: 2}}
		for r, err := range history.Cluster(c.v).Follow(ctx, f, time.Millisecond) {
			text := r.Position.String() + mark(r)
			if err != nil {
				text = err.Error()
			}
			select {
			case told <- text:
			case <-ctx.Done():
				return
			}
		}
	})
	expect := func(want ...string) {
		t.Helper()
		for _, w := range want {
			if got := <-told; got != w {
				t.Errorf("told %q, want %q", got, w)
			}
		}
	}
	expect("2-2", "2-3 plug", "3-1", "3-2 undecided", "4-0 taken over")
	next.publish(&projections.BrokerUnfenced{ID: 5, Epoch: 5})
	expect("3-2 disowned", "4-1")
	next.publish(&projections.BrokerFenced{ID: 5, Epoch: 5})
	expect("4-2")
	cancel()
	done.Wait()
	next.abandon()
	old.abandon()
}

// TestFollowWithAFilter: what is chosen at the end of a history is chosen of what comes.
func TestFollowWithAFilter(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	c := life(t)
	told := make(chan history.Record)
	var done sync.WaitGroup
	done.Go(func() {
		f := history.Filter{Topic: "orders", Since: start.Add(4 * time.Minute)}
		for r, err := range history.Cluster(c.v).Follow(ctx, f, time.Millisecond) {
			if err != nil {
				r.Err = err
			}
			select {
			case told <- r:
			case <-ctx.Done():
				return
			}
		}
	})
	if r := <-told; r.Position.String() != "2-1" {
		t.Errorf("told %s, %v", r.Position, r.Err)
	}
	x := c.claim(t, 3, 3)
	x.publish(&projections.ProducerFenced{ProducerID: 9, Epoch: 4, Time: 6})
	x.publish(&projections.TopicDeleted{ID: orders, Name: "orders"})
	if r := <-told; r.Position.String() != "3-2" {
		t.Errorf("told %s, %v", r.Position, r.Err)
	}
	cancel()
	done.Wait()
	x.abandon()
}

package server

import (
	"context"
	"time"

	"kaas.dev/kaas/partition"
)

// awaitRecords looks every partition up and returns when there is enough to answer, or
// an error to tell, when the time is over, or when the broker or the connection stops. It reads no
// records: where they lie tells how many bytes there are.
func (c *fetchCall) awaitRecords(ctx context.Context) {
	if c.enough(ctx) {
		return
	}
	limit := min(time.Duration(max(c.req.MaxWaitMillis, 0))*time.Millisecond, maxFetchWait)
	if limit == 0 {
		return
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	w := watcher{news: make(chan struct{}, 1), parts: map[*partition.Partition]struct{}{}}
	defer w.close()
	for w.watch(c.from); !c.enough(ctx); w.watch(c.from) {
		select {
		case <-w.news:
		case <-timer.C:
			return
		case <-c.asker.hurry:
			return
		case <-c.s.stop:
			return
		case <-ctx.Done():
			return
		}
	}
}

// watcher is told of news by any number of partitions.
type watcher struct {
	news  chan struct{}
	parts map[*partition.Partition]struct{}
}

// watch adds the partitions that it does not watch yet.
func (w *watcher) watch(from []fetchFrom) {
	for i := range from {
		p := from[i].found.part
		if p == nil {
			continue
		}
		if _, ok := w.parts[p]; !ok {
			w.parts[p] = struct{}{}
			p.Watch(w.news)
		}
	}
}

func (w *watcher) close() {
	for p := range w.parts {
		p.Unwatch(w.news)
	}
}

// enough reports that an answer need not wait.
func (c *fetchCall) enough(ctx context.Context) bool {
	if view := c.s.backend.View(); view != c.view {
		c.view = view
		for i := range c.from {
			c.find(&c.from[i])
		}
	}
	bytes, known := int64(0), false
	for i := range c.from {
		f := &c.from[i]
		n, ok := c.ahead(ctx, f)
		if !ok && f.found.part != nil { // it has ended, or what was there is gone: once more
			c.find(f)
			n, ok = c.ahead(ctx, f)
		}
		if !ok && !f.found.unknown {
			return true
		}
		known = known || !f.found.unknown
		bytes += min(n, int64(f.maxBytes))
		if n > 0 && c.minBytes <= 1 {
			return true
		}
	}
	return !known || bytes >= int64(c.minBytes)
}

// ahead is how many bytes a partition could answer with, or just 1 where nobody asks
// how many. ok is false where there is an error.
func (c *fetchCall) ahead(ctx context.Context, f *fetchFrom) (n int64, ok bool) {
	t := &f.found
	if t.part == nil {
		return 0, false
	}
	start, high, end := t.part.Offsets()
	if !c.committed {
		end = high
	}
	switch {
	case t.part.Err() != nil || f.offset < start || f.offset > high:
		return 0, false
	case f.offset >= end:
		return 0, true
	case c.minBytes <= 1:
		return 1, true
	}
	if !t.located {
		var err error
		if t.place, err = t.part.Locate(ctx, f.offset); err != nil {
			return 0, false
		}
		t.located = true
	}
	if c.committed {
		return t.part.AheadCommitted(ctx, t.place)
	}
	return t.part.Ahead(t.place)
}

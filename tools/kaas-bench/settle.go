package main

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/procfs"

	"kaas.dev/kaas/internal/substrate"
)

// What a load leaves behind is the next one's burden: pages to write, files to
// free, and on some disks blocks to discard. So between loads we wait, for a
// bounded time, until the disk does as little and answers as fast as it can.
const (
	settleTime  = 6 * time.Second
	settleDirty = 64 << 20 // bytes that are still to be written
	settleSync  = 8 * time.Millisecond
	settleCount = 5 // syncs in a row that are no slower
)

func (c *comparison) settle(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	until(ctx, 20*time.Millisecond, func() bool { return dirty() < settleDirty })
	_ = c.scratch.probe(func(f substrate.File) error { // a disk that is never calm shows in the load average
		quick := 0
		until(ctx, 5*time.Millisecond, func() bool {
			began := time.Now()
			if _, err := f.WriteAt(make([]byte, 4096), 0); err != nil {
				return true
			}
			if f.Datasync() != nil {
				return true
			}
			if quick++; time.Since(began) > settleSync {
				quick = 0
			}
			return quick >= settleCount
		})
		return nil
	})
}

// remove deletes a topic and waits until its files are gone.
func (c *comparison) remove(ctx context.Context, s *server, t target) error {
	if err := t.deleteTopic(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	until(ctx, 20*time.Millisecond, func() bool { return !s.with.deleting(c.scratch, s.dir) })
	return nil
}

// until asks again and again, until done or the end of ctx.
func until(ctx context.Context, every time.Duration, done func() bool) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for !done() {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// dirty is the bytes that the kernel has yet to write, 0 if it does not tell.
func dirty() uint64 {
	proc, err := procfs.NewDefaultFS()
	if err != nil {
		return 0
	}
	m, err := proc.Meminfo()
	if err != nil || m.DirtyBytes == nil || m.WritebackBytes == nil {
		return 0
	}
	return *m.DirtyBytes + *m.WritebackBytes
}

// probe lends a file of the disk.
func (s *scratch) probe(use func(substrate.File) error) error {
	name := s.name + "/probe"
	f, err := s.parent.CreateExclusive(name)
	if err != nil {
		return err
	}
	return errors.Join(use(f), f.Close(), s.parent.Remove(name))
}

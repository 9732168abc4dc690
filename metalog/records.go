package metalog

import (
	"context"
	"io"
	"iter"
	"sync"

	"golang.org/x/sync/semaphore"

	"kaas.dev/kaas/internal/substrate"
)

// Record is an entry of the history as a tool shows it.
type Record struct {
	Pos    substrate.Position
	Entry  *Entry // nil for a plug or an unreadable file; State is left out
	Plug   bool
	Status Status
	Err    error
}

// recordBytes bounds the bytes of entry files that are held while they are decoded, but
// for a single file that is larger.
const recordBytes = 64 << 20

// Records reads the files from number from on, below number to, oldest first. Some are
// read ahead side by side; what is held does not grow with the history. A damaged file is
// a record with Err; one that was pruned since the index was made is left out. The error
// is that of ctx, and ends it.
func (x *Index) Records(ctx context.Context, from, to int) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		var wg sync.WaitGroup
		defer wg.Wait()
		defer cancel()
		ahead := make(chan chan Record, readAhead)
		budget := semaphore.NewWeighted(recordBytes)
		wg.Go(func() {
			defer close(ahead)
			for i := from; i < to; i++ {
				slot := make(chan Record, 1)
				select {
				case ahead <- slot:
				case <-ctx.Done():
					return
				}
				wg.Go(func() { slot <- x.record(ctx, budget, x.positions[i]) })
			}
		})
		for slot := range ahead {
			r := <-slot
			if err := ctx.Err(); err != nil {
				yield(Record{}, err)
				return
			}
			if isNotExist(r.Err) {
				continue
			}
			if !yield(r, nil) {
				return
			}
		}
		if err := ctx.Err(); err != nil {
			yield(Record{}, err)
		}
	}
}

func (x *Index) record(ctx context.Context, budget *semaphore.Weighted, p substrate.Position) Record {
	r := Record{Pos: p}
	b, release, err := x.read(ctx, budget, substrate.EntryPath(x.Stream, p))
	defer release()
	if r.Err = err; err != nil {
		return r
	}
	if r.Plug = len(b) == 0; r.Plug {
		return r
	}
	r.Status = x.Status(p)
	if r.Entry, r.Err = DecodeEntry(x.Stream, p, b); r.Err == nil {
		r.Entry.State = nil
	}
	return r
}

// read reads a file when there is room for it. What goes wrong is tried again by ReadFile,
// which knows stale handles and names what is wrong.
func (x *Index) read(ctx context.Context, budget *semaphore.Weighted, name string) (b []byte, release func(), err error) {
	nothing := func() {}
	f, err := glance(x.v, name)
	if err != nil {
		b, err = x.v.ReadFile(name)
		return b, nothing, err
	}
	defer f.Close()
	n, err := f.Size()
	if err == nil && n <= substrate.MaxFrame {
		room := min(n, recordBytes)
		if err := budget.Acquire(ctx, room); err != nil {
			return nil, nothing, err
		}
		release := func() { budget.Release(room) }
		b := make([]byte, n)
		if m, err := f.ReadAt(b, 0); err == nil || err == io.EOF {
			return b[:m], release, nil
		}
		release()
	}
	b, err = x.v.ReadFile(name)
	return b, nothing, err
}

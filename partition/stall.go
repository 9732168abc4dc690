package partition

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"kaas.dev/kaas/internal/substrate"
)

// readPlaces is how many reads of a partition may be under way, those that nobody waits
// for any more included.
const readPlaces = 32

// errStalled is what becomes of who waits for a volume that hangs.
var errStalled = errors.New("the volume does not answer")

func (p *Partition) stallError(what string) error {
	return fmt.Errorf("%w: %s of %s: %w for %v", kerr.KafkaStorageError, what, p.name, errStalled, p.cfg().StallAfter)
}

// startWatch begins to look whether what is under way comes to an end. The caller holds mu.
func (p *Partition) startWatch() {
	if p.mu.watch == nil && p.mu.err == nil {
		p.mu.watched = p.mu.commits
		p.mu.watch = time.AfterFunc(p.cfg().StallAfter, p.lookAtStall)
	}
}

// progressed has the time that the volume may take begin anew.
func (p *Partition) progressed() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.commits++
}

// lookAtStall fails a partition whose volume has left a commit without an answer for so
// long. The call that hangs stays, and nothing that it may yet do counts.
func (p *Partition) lookAtStall() {
	p.mu.Lock()
	p.mu.watch = nil
	busy := p.mu.open > 0 || p.mu.committing
	// Who waits for another partition's recovery point does not wait for the volume.
	stalled := busy && p.mu.commits == p.mu.watched && !p.cfg().Recovery.waits(p)
	if busy && !stalled {
		p.startWatch()
	}
	p.mu.Unlock()
	if stalled {
		p.fail(p.stallError("a commit"))
	}
}

// beside runs a reader's call beside the reader, who stops waiting with ctx, or when the
// volume has not answered for too long. While a call that was given up so hangs, others
// are not begun: one partition of a fetch is not to keep the rest waiting again and again.
func beside[T any](ctx context.Context, p *Partition, call func(view) (T, error)) (T, error) {
	return besideWith(ctx, p, call, func(T) {})
}

// besideWith has drop let go of what a call brings after its reader has left.
func besideWith[T any](ctx context.Context, p *Partition, call func(view) (T, error), drop func(T)) (T, error) {
	var zero T
	if p.hung.Load() > 0 {
		return zero, p.stallError("a read")
	}
	limit, cancel := context.WithTimeout(ctx, p.cfg().StallAfter)
	defer cancel()
	if err := p.reads.Enter(limit); err != nil {
		if err := ctx.Err(); err != nil {
			return zero, err
		}
		return zero, p.stallError("a read")
	}
	var left atomic.Int32 // 1: given up first, 2: returned first
	v, err := substrate.Run(limit, p.reads, func() (T, error) {
		v, err := p.beginRead(ctx)
		if err != nil {
			return zero, err
		}
		defer p.endRead()
		return call(v)
	}, func(v T, _ error) {
		drop(v)
		if !left.CompareAndSwap(0, 2) {
			p.hung.Add(-1)
		}
	})
	if limit.Err() == nil || !errors.Is(err, limit.Err()) {
		return v, err
	}
	if err := ctx.Err(); err != nil {
		return zero, err
	}
	if left.CompareAndSwap(0, 1) {
		p.hung.Add(1)
	}
	return zero, p.stallError("a read")
}

// find is beside for what answers with an offset, a timestamp and a leader epoch.
func (p *Partition) find(ctx context.Context, call func() (place, error)) (offset, timestamp int64, leaderEpoch int32, err error) {
	at, err := beside(ctx, p, func(view) (at place, err error) {
		err = again(func() error {
			at, err = call()
			return err
		})
		return at, err
	})
	if err != nil {
		at = nowhere
	}
	return at.offset, at.time, at.epoch, err
}

// besideSession runs an opening in a goroutine of the session. One that nobody waits for
// any more is let go of again.
func besideSession(ctx context.Context, s *substrate.Session, open func() (*Partition, error)) (*Partition, error) {
	if ctx.Done() == nil {
		return open()
	}
	return substrate.Beside(ctx, func(f func()) {
		if !s.Go(f) {
			go f() // it finds the session closed
		}
	}, open, func(p *Partition, err error) {
		if err == nil {
			_ = p.Abandon(context.Background())
		}
	})
}

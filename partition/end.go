package partition

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

// mostPause is the most between two tries of what the volume has failed.
const mostPause = 200 * time.Millisecond

// Relinquish commits what is pending, gives the newest segment its end, closes the
// manifest, so that the successor neither scans nor seals, and closes every file. When
// it returns nil, the partition may be opened again, here or elsewhere, under a higher
// epoch. On an error it has ended without a closed manifest; if that error is ctx's, a
// call on the volume may still be under way, and [Partition.Abandon] waits for it.
func (p *Partition) Relinquish(ctx context.Context) error {
	p.mu.Lock()
	p.mu.closing = true
	p.startCommitter()
	p.mu.Unlock()
	select {
	case <-p.gone:
	case <-ctx.Done():
		p.fail(fmt.Errorf("%w: %s epoch %d: relinquish: %w", kerr.NotLeaderForPartition, p.name, p.epoch, ctx.Err()))
		return ctx.Err()
	}
	if err := p.Err(); !errors.Is(err, ErrRelinquished) {
		return err
	}
	return nil
}

// Abandon ends the leadership without a closed manifest and waits, or until ctx ends,
// for its calls on the volume to return and its files to be closed. The same session may
// lead the partition again only after that.
func (p *Partition) Abandon(ctx context.Context) error {
	p.fail(fmt.Errorf("%w: %s epoch %d is abandoned", kerr.NotLeaderForPartition, p.name, p.epoch))
	select {
	case <-p.gone:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// closeManifest is the committer's last act.
func (p *Partition) closeManifest() error {
	if err := p.w.Close(p.ctx); err != nil {
		return err
	}
	p.mu.Lock()
	p.mu.closed = true
	p.mu.Unlock()
	return ErrRelinquished
}

// fail ends the partition: from here on nothing is acknowledged. What is under way on
// the volume returns when it does.
func (p *Partition) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.err != nil {
		return
	}
	p.mu.err = p.classify(err)
	close(p.done)
	p.cancel()
	p.wake()
	for _, t := range []*time.Timer{p.mu.timer, p.mu.watch} {
		if t != nil {
			t.Stop()
		}
	}
	if p.mu.producers.timer != nil {
		p.mu.producers.timer.Stop()
	}
	p.cfg().Recovery.leave(p)
	if !errors.Is(err, ErrRelinquished) {
		p.cfg().Log.Warn("partition ended", "partition", p.name, "epoch", p.epoch, "err", err)
	}
	go p.bury() // Relinquish and Abandon wait for it
}

// bury waits until nothing of the partition runs, and closes what is open.
func (p *Partition) bury() {
	defer close(p.gone)
	p.wg.Wait()
	p.readers.Wait()
	p.mu.Lock()
	closed := p.mu.closed
	var open []*handle
	for _, s := range p.mu.segs {
		switch {
		case s.file == nil:
			continue
		case s.file.refs > 0: // a region is being sent: its release closes the file
			s.file.gone = true
		default:
			open = append(open, s.file)
		}
		s.file = nil
	}
	p.mu.Unlock()
	closeAll(open)
	if !closed {
		_ = p.w.Abandon(context.Background()) // its only error is ctx's
	}
}

package partition

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"syscall"
	"time"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/metalog"
)

// Cleanup says what removes records. The zero value removes none; a zero field is a
// zero, not a default.
type Cleanup struct {
	Delete  bool // cleanup.policy has delete
	Compact bool // cleanup.policy has compact

	RetentionAge   time.Duration // retention.ms; negative is no limit
	RetentionBytes int64         // retention.bytes; negative is no limit
	// DeleteDelay is file.delete.delay.ms: how long a file stays that is no part of the
	// log any more, for who still reads it.
	DeleteDelay time.Duration

	MinDirtyRatio    float64       // min.cleanable.dirty.ratio
	MinCompactionLag time.Duration // min.compaction.lag.ms
	MaxCompactionLag time.Duration // max.compaction.lag.ms; 0 is no limit
	DeleteRetention  time.Duration // delete.retention.ms
}

// upkeep is what retention and compaction of a partition share. Only who holds turn
// looks at the rest.
type upkeep struct {
	once         sync.Once
	turn         chan struct{}
	sweptOrphans bool
}

// beginUpkeep gives the caller the one turn at the partition's ended segments, and
// keeps its files from being closed until end is called. The context ends with the
// partition too.
func (p *Partition) beginUpkeep(ctx context.Context) (_ context.Context, end func(), err error) {
	select {
	case p.upkeepTurn() <- struct{}{}:
	case <-p.done:
		return nil, nil, p.Err()
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
	return p.holdUpkeep(ctx)
}

// tryUpkeep is beginUpkeep for who has other partitions to see to: it does not wait
// while somebody has the turn, and end is nil then.
func (p *Partition) tryUpkeep(ctx context.Context) (_ context.Context, end func(), err error) {
	select {
	case p.upkeepTurn() <- struct{}{}:
		return p.holdUpkeep(ctx)
	default:
		return nil, nil, p.Err()
	}
}

func (p *Partition) upkeepTurn() chan struct{} {
	p.upkeep.once.Do(func() { p.upkeep.turn = make(chan struct{}, 1) })
	return p.upkeep.turn
}

// holdUpkeep is what follows when the caller has the turn.
func (p *Partition) holdUpkeep(ctx context.Context) (_ context.Context, end func(), err error) {
	if _, err := p.beginRead(ctx); err != nil {
		<-p.upkeep.turn
		return nil, nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(p.ctx, cancel)
	return ctx, func() {
		stop()
		cancel()
		p.endRead()
		<-p.upkeep.turn
	}, nil
}

// publish has facts committed, and then settle called. A caller whose context ends
// stops waiting, but what he asked for goes on: it would be open otherwise whether it has
// happened. Where it ends the manifest's epoch, it ends the partition.
func (p *Partition) publish(ctx context.Context, reason string, decide func(*Manifest) ([]fact, error), settle func()) error {
	done := make(chan error, 1)
	p.mu.Lock()
	if err := p.mu.err; err != nil {
		p.mu.Unlock()
		return err
	}
	p.wg.Go(func() {
		err := p.publishFacts(reason, decide)
		if err == nil {
			settle()
		}
		done <- err
	})
	p.mu.Unlock()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return p.cause(fmt.Errorf("%w: %w", substrate.ErrUnknown, ctx.Err()))
	}
}

// cause is why what a caller waited for is given up: the partition's end, which ends the
// context of its upkeep too and is told in any order, or else err.
func (p *Partition) cause(err error) error { return cmp.Or(p.Err(), err) }

func (p *Partition) publishFacts(reason string, decide func(*Manifest) ([]fact, error)) error {
	_, err := p.w.Publish(p.ctx, reason, func(m *Manifest) ([]metalog.Event, error) {
		fs, err := decide(m)
		if err != nil || len(fs) == 0 {
			return nil, err
		}
		return encodeFacts(fs...)
	})
	if err == nil {
		return nil
	}
	if p.w.Err() != nil && !errors.Is(err, metalog.ErrClosed) {
		p.fail(err)
	}
	return p.classify(err)
}

// again repeats what found a file gone: retention or compaction may have taken it away
// since the view of the log was taken, and the next view has what is in its place.
func again(f func() error) (err error) {
	for range 4 {
		if err = f(); err == nil || !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ESTALE) {
			return err
		}
	}
	return err
}

// freezeLocked ends the active segment for whoever asked; the committer publishes its
// end, and the next append makes a new one. The writer calls it, holding mu.
func (p *Partition) freezeLocked() {
	if len(p.mu.freeze) == 0 {
		return
	}
	if p.active != nil {
		p.active.frozen = true
		p.active = nil
	}
	p.mu.pending = append(p.mu.pending, p.mu.freeze...)
	p.mu.freeze = nil
	p.startCommitter()
}

// freeze ends the active segment, so that it can be cleaned up, and waits until that
// is committed.
func (p *Partition) freeze(ctx context.Context) error {
	return p.await(ctx, func(done chan struct{}) {
		p.mu.freeze = append(p.mu.freeze, done)
		if !p.mu.writing {
			p.mu.writing = true
			p.wg.Go(p.runWriter)
		}
	})
}

// recoverTo has the recovery point reach an offset that is committed. The log start
// never passes it: a takeover would find the log to end below its start.
func (p *Partition) recoverTo(ctx context.Context, offset int64) error {
	for {
		p.mu.Lock()
		reached := p.mu.recovered >= offset
		p.mu.Unlock()
		if reached {
			return nil
		}
		err := p.await(ctx, func(done chan struct{}) {
			p.mu.recover = true
			p.mu.pending = append(p.mu.pending, done)
			p.startCommitter()
		})
		if err != nil {
			return err
		}
	}
}

// await asks for something, holding mu, and waits for the commit that does it.
func (p *Partition) await(ctx context.Context, ask func(done chan struct{})) error {
	done := make(chan struct{})
	p.mu.Lock()
	if p.mu.err != nil || p.mu.closing {
		p.mu.Unlock()
		return p.classify(ErrRelinquished)
	}
	ask(done)
	p.mu.Unlock()
	select {
	case <-done:
		return nil
	case <-p.done:
		return p.Err()
	case <-ctx.Done():
		return p.cause(ctx.Err())
	}
}

// fileOf tells a segment's file or one of its indexes by its name.
func fileOf(e substrate.DirEntry) (SegmentID, bool) {
	name := e.Name
	for _, ext := range []string{indexExt, txnExt} {
		if stem, ok := strings.CutSuffix(name, ext); ok {
			name = stem + logExt
		}
	}
	id, err := ParseSegmentName(name)
	return id, err == nil && !e.Dir
}

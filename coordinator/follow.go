package coordinator

import (
	"context"
	"errors"
	"path"
	"sync"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/metalog"
	"kaas.dev/kaas/projections"
)

type (
	clusterSnapshot = metalog.Snapshot[*projections.Cluster]
	clusterReader   = metalog.Reader[*projections.Cluster]
)

// follow shows what the cluster stream commits, whoever writes it. It wakes early by what
// this host sees happen on the volume, and by a position that the controller told.
func (b *Broker) follow() {
	w := &streamWatch{fs: b.v.FS, stream: b.stream, wake: b.news, epoch: -1}
	defer w.stop()
	w.at(0)
	b.reader.Follow(b.run, b.opt.FollowInterval, b.news, func(s clusterSnapshot) {
		b.show(s)
		w.at(s.Pos.Epoch)
	}, func(err error) {
		b.log.Warn("cluster stream cannot be followed", "err", err)
	})
}

// hint has the follower look at once.
func (b *Broker) hint() {
	select {
	case b.news <- struct{}{}:
	default:
	}
}

// expect has the follower look for a position that the controller has told, at once.
func (b *Broker) expect(p substrate.Position) {
	if b.Shown().Less(p) {
		b.reader.Expect(p)
		b.hint()
	}
}

// show makes a committed state the view, unless a newer one is, and starts and ends what
// follows from it.
func (b *Broker) show(s clusterSnapshot) {
	b.mu.Lock()
	if !b.mu.shown.Less(s.Pos) {
		b.mu.Unlock()
		return
	}
	old := b.view.Load()
	b.mu.shown = s.Pos
	b.followLocked(old, s.State)
	b.view.Store(s.State)
	b.viewChangedLocked()
	replaced := b.replacedIn(s.State)
	if me, ok := s.State.Broker(b.opt.NodeID); ok && me.Incarnation == b.opt.Incarnation {
		b.registered.Store(me.Epoch)
	}
	b.movedLocked()
	b.mu.Unlock()
	if replaced != nil {
		b.end(b.fencedBy(replaced))
	}
	b.report()
	b.kick()
}

// movedLocked wakes who waits for the view, or for what comes with it.
func (b *Broker) movedLocked() {
	close(b.mu.moved)
	b.mu.moved = make(chan struct{})
}

// Shown is the position of the view.
func (b *Broker) Shown() substrate.Position {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mu.shown
}

// AwaitShown waits until the view is at p or later, or for ctx.
func (b *Broker) AwaitShown(ctx context.Context, p substrate.Position) error {
	b.expect(p)
	return b.awaitView(ctx, func() bool { return !b.Shown().Less(p) })
}

// awaitView waits until ok, which is asked after each change of the view.
func (b *Broker) awaitView(ctx context.Context, ok func() bool) error {
	for {
		b.mu.Lock()
		moved := b.mu.moved
		b.mu.Unlock()
		if ok() {
			return nil
		}
		select {
		case <-moved:
		case <-b.done:
			return b.whyEnded()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// streamWatch hints at changes of the stream that happen on this host: to the epoch that
// is followed, and to the stream, for its successor. Others' hosts tell nothing; that
// only costs the poll's interval.
type streamWatch struct {
	fs     substrate.FS
	stream string
	wake   chan struct{}
	epoch  substrate.Epoch
	ends   []func()
}

func (w *streamWatch) at(e substrate.Epoch) {
	fs, ok := w.fs.(interface {
		Watch(dir string) (<-chan struct{}, func(), error)
	})
	if !ok || e == w.epoch {
		return
	}
	w.stop()
	w.epoch = e
	for _, dir := range []string{w.stream, path.Join(w.stream, substrate.EpochName(e))} {
		ch, stop, err := fs.Watch(dir)
		if err != nil {
			continue // a hint, nothing more
		}
		quit := make(chan struct{})
		var wg sync.WaitGroup
		wg.Go(func() {
			for {
				select {
				case <-ch:
					select {
					case w.wake <- struct{}{}:
					default:
					}
				case <-quit:
					return
				}
			}
		})
		w.ends = append(w.ends, func() { stop(); close(quit); wg.Wait() })
	}
}

func (w *streamWatch) stop() {
	for _, end := range w.ends {
		end()
	}
	w.ends = nil
}

// isDamage reports an error that only a person can mend.
func isDamage(err error) bool {
	var damage *substrate.DamageError
	var name *substrate.NameError
	return errors.As(err, &damage) || errors.As(err, &name)
}

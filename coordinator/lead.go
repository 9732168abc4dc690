package coordinator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/metalog"
	"kaas.dev/kaas/projections"
)

type clusterWriter = metalog.Writer[*projections.Cluster]

// lead is the ownership of one epoch of the cluster stream.
type lead struct {
	s         *substrate.Session
	w         *clusterWriter
	succeeded chan struct{} // closed when this process owns a later epoch
}

func newLead(s *substrate.Session, w *clusterWriter) *lead {
	return &lead{s: s, w: w, succeeded: make(chan struct{})}
}

func (b *Broker) leading() *lead {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mu.lead
}

func (b *Broker) claim(ctx context.Context, s *substrate.Session, e substrate.Epoch) (*clusterWriter, error) {
	return metalog.Claim(ctx, s, b.stream, e, projections.ClusterSchema(), metalog.Options{
		Node: b.opt.NodeID, Followed: true, Now: b.opt.Now,
		RetentionAge: b.opt.HistoryAge, RetentionEntries: b.opt.HistoryEntries})
}

// publish has decide's events committed and shown. Where an epoch of the stream
// ends under it, it is driven on in the next (rule 2): decide runs again, on a
// state that may hold its events already, and must say nothing then.
//
// An error of a later epoch, unless it is decide's, tells nothing of what an earlier
// one has left in place, and so comes with that one's.
func (b *Broker) publish(ctx context.Context, reason string, decide metalog.Decide[*projections.Cluster]) error {
	var earlier error
	for {
		l := b.leading()
		err := attempts(ctx, func() error {
			_, err := l.w.Publish(ctx, reason, decide)
			return err
		})
		if err == nil {
			b.show(l.w)
			return nil
		}
		if isClient(err) {
			return err
		}
		err = errors.Join(err, earlier)
		switch {
		case errors.Is(err, substrate.ErrFenced):
			return err
		case b.run.Err() != nil:
			return fmt.Errorf("%w: %w", b.whyEnded(), err)
		case l.w.Err() == nil:
			return err
		}
		earlier = err
		select {
		case <-l.succeeded:
		case <-b.run.Done():
			return fmt.Errorf("%w: %w", b.whyEnded(), err)
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		}
	}
}

// show makes a writer's committed state the view, unless a newer one is, and
// starts and ends what follows from it.
func (b *Broker) show(w *clusterWriter) {
	snap := w.Committed()
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.mu.shown.Less(snap.Pos) {
		return
	}
	old := b.view.Load()
	b.mu.shown = snap.Pos
	b.view.Store(snap.State)
	b.followLocked(old, snap.State)
}

// control keeps the cluster stream ours: it notices a fence when nothing else
// goes on, and claims the stream anew where an epoch ended without one.
func (b *Broker) control() {
	t := time.NewTicker(b.opt.CheckInterval)
	defer t.Stop()
	for {
		l := b.leading()
		var err error
		select {
		case <-b.run.Done():
			return
		case <-l.s.Fenced():
			err = substrate.ErrFenced
		case <-l.w.Done():
			err = b.leadAgain(l)
		case <-t.C:
			if err = l.s.Check(b.run); !errors.Is(err, substrate.ErrFenced) {
				err = nil // unknown: the next tick asks again
			}
		}
		if err != nil {
			if b.run.Err() == nil {
				b.end(fmt.Errorf("broker %d on %s: %w", b.opt.NodeID, dirOf(b.v), err))
			}
			return
		}
	}
}

// settle is how long an ownership that has ended may take to get its calls back.
const settle = 5 * time.Second

// leadAgain claims the stream anew after an epoch that ended without a fence. It
// returns an error only when this process is to end.
//
// A newcomer must win at once, so this never goes above an epoch that somebody
// else took: its own session is asked first, then exactly the next number is
// claimed, and finding that taken counts as being fenced.
func (b *Broker) leadAgain(l *lead) error {
	cause := l.w.Err()
	if errors.Is(cause, substrate.ErrFenced) || errors.Is(cause, metalog.ErrClosed) {
		return cause
	}
	b.log.Warn("cluster stream is claimed anew", "epoch", l.w.Epoch(), "err", cause)
	ctx, cancel := context.WithTimeout(b.run, settle)
	_ = l.w.Abandon(ctx) // without an answer the session may not lead again, and a new one is opened
	cancel()
	s, e := l.s, l.w.Epoch()
	var p pace
	for p.wait(b.run) {
		err := l.s.Check(b.run) // the one that a newcomer seals
		if err == nil {
			e++
			var w *clusterWriter
			if w, err = b.claimAgain(s, e); err == nil {
				b.succeed(l, newLead(s, w))
				return nil
			}
		}
		switch {
		case errors.Is(err, substrate.ErrFenced):
			return err
		case errors.Is(err, substrate.ErrEpochTaken):
			return fmt.Errorf("%w: %w", substrate.ErrFenced, err)
		case errors.Is(err, substrate.ErrStillLeading):
			e-- // it was not tried
			if next, serr := b.openSession(substrate.RoleController); serr == nil {
				s = next
			}
		}
		b.log.Warn("cluster stream cannot be claimed yet", "epoch", e, "err", err)
	}
	return b.run.Err()
}

// claimAgain claims epoch e and commits its first entry, so that what it
// continues from may be shown.
func (b *Broker) claimAgain(s *substrate.Session, e substrate.Epoch) (*clusterWriter, error) {
	w, err := b.claim(b.run, s, e)
	if err != nil {
		return nil, err
	}
	nothing := func(*projections.Cluster) ([]metalog.Event, error) { return nil, nil }
	if _, err := w.Publish(b.run, fmt.Sprintf("broker %d claimed the stream anew", b.opt.NodeID), nothing); err != nil {
		ctx, cancel := context.WithTimeout(b.run, settle)
		defer cancel()
		return nil, errors.Join(err, w.Abandon(ctx))
	}
	return w, nil
}

func (b *Broker) succeed(old, l *lead) {
	b.mu.Lock()
	b.mu.lead = l
	b.mu.Unlock()
	b.show(l.w)
	close(old.succeeded)
}

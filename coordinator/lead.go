package coordinator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/metalog"
	"kaas.dev/kaas/projections"
)

type clusterWriter = metalog.Writer[*projections.Cluster]

// lead is the ownership of one epoch of the cluster stream.
type lead struct {
	s    *substrate.Session
	w    *clusterWriter
	over chan struct{} // closed when this process owns a later epoch, or none
}

func newLead(s *substrate.Session, w *clusterWriter) *lead {
	return &lead{s: s, w: w, over: make(chan struct{})}
}

// leading is nil while another broker, or nobody, is controller.
func (b *Broker) leading() *lead {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mu.lead
}

// setLead replaces what this process owns, nil for nothing, and wakes who waits.
func (b *Broker) setLead(l *lead) {
	b.mu.Lock()
	defer b.mu.Unlock()
	old := b.mu.lead
	b.mu.lead = l
	b.movedLocked()
	if old != nil {
		close(old.over)
	}
}

// IsController reports whether this process owns the cluster stream, as far as it knows.
func (b *Broker) IsController() bool { return b.leading() != nil }

func (b *Broker) claim(ctx context.Context, s *substrate.Session, e substrate.Epoch) (*clusterWriter, error) {
	return metalog.Claim(ctx, s, b.stream, e, projections.ClusterSchema(), metalog.Options{
		Node: b.opt.NodeID, Followed: true, Now: b.opt.Now,
		RetentionAge: b.opt.HistoryAge, RetentionEntries: b.opt.HistoryEntries})
}

// claimNext claims the stream above whatever is there, until it has it.
func (b *Broker) claimNext(ctx context.Context, s *substrate.Session) (*clusterWriter, error) {
	for e := substrate.Epoch(0); ; {
		next, err := metalog.NextEpoch(b.v, b.stream)
		if err != nil {
			return nil, err
		}
		e = max(e+1, next)
		w, err := b.claim(ctx, s, e)
		if err == nil || !errors.Is(err, substrate.ErrEpochTaken) || ctx.Err() != nil {
			return w, err
		}
	}
}

// errNotController is what is told while another broker is controller.
var errNotController = fmt.Errorf("%w: another broker is controller, or none", kerr.NotController)

// errUndecided means that an entry may be in place, or come to be, that a term which has
// ended left behind.
var errUndecided = errors.New("it may have been published")

// publish has decide's events committed and shown, and returns the position after them.
// Where an epoch of the stream ends under it, it is driven on in the next while this
// process stays controller (rule 2): decide runs again, on a state that may hold its
// events already, and must say nothing then.
//
// An error of a later epoch, unless it is decide's, tells nothing of what an earlier
// one has left in place, and so comes with that one's.
func (b *Broker) publish(ctx context.Context, reason string, decide metalog.Decide[*projections.Cluster]) (substrate.Position, error) {
	var earlier error
	for {
		l := b.leading()
		if l == nil && earlier != nil {
			return substrate.Position{}, errors.Join(errNotController, errUndecided, earlier)
		}
		if l == nil {
			return substrate.Position{}, errNotController
		}
		var pos substrate.Position
		err := attempts(ctx, func() (err error) {
			pos, err = l.w.Publish(ctx, reason, decide)
			return err
		})
		if err == nil {
			b.show(l.w.Committed())
			return pos, nil
		}
		if isClient(err) {
			return substrate.Position{}, err
		}
		err = errors.Join(err, earlier)
		switch {
		case b.run.Err() != nil:
			return substrate.Position{}, fmt.Errorf("%w: %w", b.whyEnded(), err)
		case l.w.Err() == nil:
			return substrate.Position{}, err
		}
		earlier = err
		select {
		case <-l.over:
		case <-b.run.Done():
			return substrate.Position{}, fmt.Errorf("%w: %w", b.whyEnded(), err)
		case <-ctx.Done():
			return substrate.Position{}, errors.Join(err, ctx.Err())
		}
	}
}

// settle is how long an ownership that has ended may take to get its calls back.
const settle = 5 * time.Second

// errDeposed ends a term whose successor has written.
var errDeposed = errors.New("another controller has taken over")

// reclaim claims the stream anew within a term, after an epoch that ended without a
// fence, and commits a first entry, so that what it continues from may be shown.
func (c *controller) reclaim(l *lead) (*lead, error) {
	b := c.b
	b.log.Warn("cluster stream is claimed anew", "epoch", l.w.Epoch(), "err", l.w.Err())
	ctx, cancel := context.WithTimeout(c.ctx, settle)
	_ = l.w.Abandon(ctx) // without an answer the session may not lead again, and a new one is opened
	cancel()
	s := l.s
	var p pace
	for p.wait(c.ctx) {
		w, err := b.claimNext(c.ctx, s)
		if err == nil {
			if err = c.begin(w, fmt.Sprintf("broker %d claimed the stream anew", b.opt.NodeID)); err == nil {
				return newLead(s, w), nil
			}
			ctx, cancel := context.WithTimeout(b.hard, settle)
			_ = w.Abandon(ctx)
			cancel()
		}
		switch {
		case errors.Is(err, substrate.ErrFenced), errors.Is(err, errDeposed), errors.Is(err, errReplaced):
			return nil, err
		case errors.Is(err, substrate.ErrStillLeading):
			if next, serr := b.openSession(substrate.RoleController); serr == nil {
				s = next
			}
		}
		b.log.Warn("cluster stream cannot be claimed yet", "err", err)
	}
	return nil, c.ctx.Err()
}

// begin commits nothing but that the stream is still this controller's.
func (c *controller) begin(w *clusterWriter, reason string) error {
	_, err := w.Publish(c.ctx, reason, func(v *projections.Cluster) ([]metalog.Event, error) {
		if v.Controller() != c.b.opt.NodeID {
			return nil, errDeposed
		}
		return nil, c.b.replacedIn(v)
	})
	return err
}

package coordinator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/metalog"
	"kaas.dev/kaas/projections"
)

// errNotClosed means that a leader that lives has not handed its partition over in time.
// Sealing its session would cost it all that it leads, so the move is given up.
var errNotClosed = errors.New("its leader has not closed it in time (handover.wait.ms)")

const (
	// closingPoll is how often a successor looks for the closing.
	closingPoll = 5 * time.Millisecond
	// listingLag is for how long a listing that lacks the epoch before is taken for an old
	// one. That epoch may also never have been claimed.
	listingLag = 500 * time.Millisecond
)

// awaitClosing waits until the epoch that want continues from needs no seal that would cost
// anybody anything: until its owner has closed it, was sealed, is this very session, or none
// that a living broker has registered. A listing that lags for longer
// than listingLag costs the owner its session, and nothing else: the claim that follows
// decides for itself (rule 3).
func (b *Broker) awaitClosing(ctx context.Context, s *slot, t *tenure, want projections.Partition) error {
	deadline, cancel := context.WithTimeout(ctx, b.opt.HandoverWait)
	defer cancel()
	pause, began := closingPoll, time.Now()
	if b.opt.breaks.noClosing {
		return nil
	}
	for {
		open, err := substrate.Beside(deadline, func(look func()) { go look() }, func() (bool, error) {
			owner, newest, err := metalog.NeedsSeal(b.v, b.streamOf(s.place), substrate.Epoch(want.Epoch), t.s.ID())
			old := newest < substrate.Epoch(want.Epoch)-1 && time.Since(began) < min(listingLag, b.opt.HandoverWait/2)
			return b.lives(owner) || old, err
		}, nil)
		if err == nil && !open || unmade(s.place, err) {
			return nil
		}
		select {
		case <-time.After(pause):
			pause = min(2*pause, 20*closingPoll)
		case <-s.retarget:
			if s.want.Load().Epoch != want.Epoch {
				return errRetargeted
			}
		case <-t.s.Fenced():
			return substrate.ErrFenced
		case <-deadline.Done():
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err != nil {
				return fmt.Errorf("%w: %w", errNotClosed, err)
			}
			return errNotClosed
		}
	}
}

// lives reports the data session of a broker that serves, as far as the view goes.
func (b *Broker) lives(session string) bool {
	return session != "" && slices.ContainsFunc(b.View().Brokers(), func(r projections.Broker) bool {
		return !r.Fenced && r.Session == session
	})
}

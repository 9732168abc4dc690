package coordinator

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/metalog"
	"kaas.dev/kaas/partition"
	"kaas.dev/kaas/projections"
)

// errGone means that the topic is not in the view any more.
var errGone = fmt.Errorf("%w: the topic is gone", kerr.UnknownTopicOrPartition)

// errRetargeted ends a leadership that the view has given a higher epoch.
var errRetargeted = errors.New("the view has another epoch for it")

// keep drives one place to being served until ctx ends (rule 2): whatever
// cannot be opened, or fails, is reported, given a higher epoch and opened again.
func (b *Broker) keep(ctx context.Context, s *slot) {
	defer b.leftBehind(s)
	defer close(s.ended)
	if s.before != nil {
		// The session can lead the place again only when its earlier time has ended.
		<-s.before.ended
		s.before = nil
	}
	var p pace
	for ctx.Err() == nil {
		want := *s.want.Load()
		served, err := b.term(ctx, s, want)
		if ctx.Err() != nil || errors.Is(err, errGone) {
			return
		}
		if served >= sound {
			p.reset()
		}
		if s.want.Load().Epoch != want.Epoch {
			continue // there is a newer one to try
		}
		b.log.Warn("not served", "what", b.name(s.place), "epoch", want.Epoch, "err", err)
		b.awaitRetarget(ctx, s, want, err, &p)
	}
}

// awaitRetarget tells the controller of what has failed under want, when it is time for
// another try, and waits for the epoch of that try.
func (b *Broker) awaitRetarget(ctx context.Context, s *slot, want projections.Partition, cause error, p *pace) {
	for s.want.Load().Epoch == want.Epoch {
		if !p.waitAfter(ctx, cause) {
			return
		}
		next, err := b.nextEpoch(ctx, s)
		if err != nil {
			b.log.Warn("epochs cannot be listed", "what", b.name(s.place), "err", err)
			continue
		}
		s.failed.Store(&unserved{place: s.place, epoch: want.Epoch, next: max(int32(next), want.Epoch+1)})
		b.report()
		for s.want.Load().Epoch == want.Epoch {
			select {
			case <-s.retarget:
			case <-ctx.Done():
				return
			}
		}
	}
}

// nextEpoch is above all epochs that the place's stream shows. Whether it is free,
// the next claim decides.
func (b *Broker) nextEpoch(ctx context.Context, s *slot) (substrate.Epoch, error) {
	return substrate.Beside(ctx, func(look func()) { go look() }, func() (substrate.Epoch, error) {
		e, err := metalog.NextEpoch(b.v, b.streamOf(s.place))
		if unmade(s.place, err) {
			return 0, nil
		}
		return e, err
	}, nil)
}

// unmade reports the error of looking for a shard's stream that its first owner has yet to
// make, or to see; a partition's is made with its topic.
func unmade(at place, err error) bool { return at.kind != "" && errors.Is(err, fs.ErrNotExist) }

func (b *Broker) nameOf(id projections.TopicID) string {
	if t := b.View().TopicByID(id); t != nil {
		return t.Name
	}
	return id.String()
}

// sound is how long a place is served before its next failure counts as the first:
// each leadership leaves a claim behind for good.
const sound = 10 * time.Second

// term is one leadership: open, serve, let go. It returns how long it served and why it
// ended.
func (b *Broker) term(ctx context.Context, s *slot, want projections.Partition) (served time.Duration, err error) {
	t, err := b.awaitTenure(ctx)
	if err != nil {
		return 0, err
	}
	h, err := b.open(ctx, s, t, want)
	if err != nil {
		// A session that is sealed, or still bound to an earlier leadership, opens
		// nothing; another has to.
		if errors.Is(err, substrate.ErrFenced) && t.s.IsFenced() || errors.Is(err, substrate.ErrStillLeading) {
			b.retire(t, err)
		}
		if isVolumes(err) {
			s.fail(err)
		}
		return 0, err
	}
	if !b.admit(t, func() { b.serveLocked(s, h); s.trouble.Store(nil); s.failed.Store(nil) }) {
		return 0, errors.Join(errors.New("the data session was replaced meanwhile"), b.abandon(ctx, h))
	}
	began := time.Now()
	b.report()
	err = b.serve(ctx, s, t, h, want)
	if errors.Is(err, kerr.KafkaStorageError) {
		s.fail(err)
		s.last = h
	}
	s.held.Store(nil)
	t.served.Done()
	if ctx.Err() != nil || errors.Is(err, errRetargeted) {
		b.relinquish(h, s)
		return time.Since(began), err
	}
	return time.Since(began), errors.Join(err, b.abandon(ctx, h))
}

// serve returns why what is served is so no more.
func (b *Broker) serve(ctx context.Context, s *slot, t *tenure, h held, want projections.Partition) error {
	for {
		select {
		case <-h.Done():
			return fmt.Errorf("ended: %w", orUnsaid(h.Err()))
		case <-t.s.Fenced():
			return substrate.ErrFenced
		case <-ctx.Done():
			return ctx.Err()
		case <-s.retarget:
			if s.want.Load().Epoch != want.Epoch {
				return errRetargeted
			}
		}
	}
}

// isVolumes reports an error of opening that is the volume's: not that of a leadership
// which another epoch, session or process has ended, nor of who waited for it.
func isVolumes(err error) bool {
	for _, e := range []error{substrate.ErrFenced, substrate.ErrStillLeading, substrate.ErrEpochTaken, errGone, errRetargeted, errNotClosed, context.Canceled} {
		if errors.Is(err, e) {
			return false
		}
	}
	return true
}

func orUnsaid(err error) error {
	if err == nil {
		return errors.New("for no stated reason")
	}
	return err
}

// open opens the place under the epoch that the view gives it, after its leader has closed
// it, where that was asked to.
func (b *Broker) open(ctx context.Context, s *slot, t *tenure, want projections.Partition) (held, error) {
	if want.Handover {
		if err := b.awaitClosing(ctx, s, t, want); err != nil {
			return nil, err
		}
	}
	back, ok := takePlace(ctx, b.transit)
	if !ok {
		return nil, ctx.Err()
	}
	defer back()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	var h held
	var err error
	if s.kind != "" {
		h, err = b.openShard(s, t, want)
	} else {
		h, err = b.openPartition(s, t, want)
	}
	if err != nil {
		return nil, fmt.Errorf("open in epoch %d: %w", want.Epoch, err)
	}
	return h, nil
}

// streamOf is where a place's epochs are claimed.
func (b *Broker) streamOf(at place) string {
	if at.kind != "" {
		return shardStream(b.v, at.kind, at.index)
	}
	return partition.ManifestStream(at.topic, at.index)
}

// name is how people know a place.
func (b *Broker) name(at place) string {
	if at.kind != "" {
		return fmt.Sprintf("%s-%d", at.kind, at.index)
	}
	return fmt.Sprintf("%s-%d", b.nameOf(at.topic), at.index)
}

// relinquish hands a place over cleanly, or at least lets go of its files.
func (b *Broker) relinquish(h held, s *slot) {
	if back, ok := takePlace(b.hard, b.transit); ok {
		defer back()
	}
	if err := h.Relinquish(b.hard); err != nil {
		b.log.Info("left without a closed entry", "what", b.name(s.place), "err", err)
		_ = h.Abandon(b.hard)
	}
}

// letGo is how long the calls of what has ended may take to return before its session is
// taken for lost. While they hang, it would hang under any session.
const letGo = 2 * time.Minute

// abandon waits for the files of what has ended to be closed. Where that takes too long its
// session cannot lead it again, and opening will say so. When the
// keeper is to end, there is less time.
func (b *Broker) abandon(ctx context.Context, h held) error {
	ctx, cancel := context.WithTimeout(ctx, letGo)
	defer cancel()
	err := h.Abandon(ctx)
	if err == nil || errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return err
	}
	end, cancel := context.WithTimeout(b.hard, settle)
	defer cancel()
	return h.Abandon(end)
}

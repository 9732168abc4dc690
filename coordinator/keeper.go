package coordinator

import (
	"context"
	"errors"
	"fmt"
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

// keep drives one partition to being served until ctx ends (rule 2): whatever
// cannot be opened, or fails, is reported, given a higher epoch and opened again.
func (b *Broker) keep(ctx context.Context, s *slot) {
	defer b.leftBehind(s)
	defer close(s.ended)
	if s.before != nil {
		// The session can lead the partition again only when its earlier time has ended.
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
		b.log.Warn("partition is not served", "topic", b.nameOf(s.topic), "partition", s.index, "epoch", want.Epoch, "err", err)
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
			b.log.Warn("epochs of a partition cannot be listed", "topic", b.nameOf(s.topic), "partition", s.index, "err", err)
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

// nextEpoch is above all epochs that the partition's stream shows. Whether it is free,
// the next claim decides.
func (b *Broker) nextEpoch(ctx context.Context, s *slot) (substrate.Epoch, error) {
	return substrate.Beside(ctx, func(look func()) { go look() }, func() (substrate.Epoch, error) {
		return metalog.NextEpoch(b.v, partition.ManifestStream(s.topic, s.index))
	}, nil)
}

func (b *Broker) nameOf(id projections.TopicID) string {
	if t := b.View().TopicByID(id); t != nil {
		return t.Name
	}
	return id.String()
}

// sound is how long a partition is served before its next failure counts as the first:
// each leadership leaves a claim behind for good.
const sound = 10 * time.Second

// term is one leadership: open, serve, let go. It returns how long it served and why it
// ended.
func (b *Broker) term(ctx context.Context, s *slot, want projections.Partition) (served time.Duration, err error) {
	t, err := b.awaitTenure(ctx)
	if err != nil {
		return 0, err
	}
	p, err := b.open(ctx, s, t, want)
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
	if !b.admit(t, func() { b.serveLocked(s, p); s.trouble.Store(nil); s.failed.Store(nil) }) {
		return 0, errors.Join(errors.New("the data session was replaced meanwhile"), b.abandon(ctx, p))
	}
	began := time.Now()
	b.report()
	err = b.serve(ctx, s, t, p, want)
	if errors.Is(err, kerr.KafkaStorageError) {
		s.fail(err)
		s.last = p
	}
	s.p.Store(nil)
	t.served.Done()
	if ctx.Err() != nil || errors.Is(err, errRetargeted) {
		b.relinquish(p, s)
		return time.Since(began), err
	}
	return time.Since(began), errors.Join(err, b.abandon(ctx, p))
}

// serve returns why a partition that is served is so no more.
func (b *Broker) serve(ctx context.Context, s *slot, t *tenure, p *partition.Partition, want projections.Partition) error {
	for {
		select {
		case <-p.Done():
			return fmt.Errorf("ended: %w", orUnsaid(p.Err()))
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

// serveLocked shows a partition, under the configuration that the view has now: it
// was opened under an earlier one, perhaps, and changes reach only what is shown.
func (b *Broker) serveLocked(s *slot, p *partition.Partition) {
	view := b.View()
	if t := view.TopicByID(s.topic); t != nil {
		p.Reconfigure(b.partitionConfig(view, t))
	}
	s.p.Store(p)
}

func orUnsaid(err error) error {
	if err == nil {
		return errors.New("for no stated reason")
	}
	return err
}

// open opens the partition under the epoch that the view gives it, after its leader has
// closed it, where that was asked to.
func (b *Broker) open(ctx context.Context, s *slot, t *tenure, want projections.Partition) (*partition.Partition, error) {
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
	view := b.View()
	topic := view.TopicByID(s.topic)
	if topic == nil {
		return nil, errGone
	}
	cfg := b.partitionConfig(view, topic)
	cfg.After = s.last
	// Not ctx: an opening that is given up halfway leaves an epoch that nobody has closed,
	// and who is to lead next would wait for that.
	p, err := b.opt.open(b.run, t.s, s.topic, topic.Name, s.index, want.Epoch, cfg)
	if err != nil {
		return nil, fmt.Errorf("open in epoch %d: %w", want.Epoch, err)
	}
	s.last = nil
	return p, nil
}

func (b *Broker) partitionConfig(view *projections.Cluster, t *projections.Topic) partition.Config {
	cfg := b.opt.PartitionConfig(view, t)
	cfg.Node = b.opt.NodeID
	cfg.Room, cfg.Recovery = b.space.room, b.recovery
	if cfg.Now == nil {
		cfg.Now = b.opt.Now
	}
	if cfg.Log == nil {
		cfg.Log = b.log
	}
	return cfg
}

// relinquish hands a partition over cleanly, or at least lets go of its files.
func (b *Broker) relinquish(p *partition.Partition, s *slot) {
	if back, ok := takePlace(b.hard, b.transit); ok {
		defer back()
	}
	if err := p.Relinquish(b.hard); err != nil {
		b.log.Info("partition was left without a closed manifest", "topic", b.nameOf(s.topic), "partition", s.index, "err", err)
		_ = p.Abandon(b.hard)
	}
}

// letGo is how long the calls of a partition that has ended may take to return before its
// session is taken for lost. While they hang, the partition would hang under any session.
const letGo = 2 * time.Minute

// abandon waits for the files of a partition that has ended to be closed. Where that
// takes too long its session cannot lead it again, and opening will say so. When the
// keeper is to end, there is less time.
func (b *Broker) abandon(ctx context.Context, p *partition.Partition) error {
	ctx, cancel := context.WithTimeout(ctx, letGo)
	defer cancel()
	err := p.Abandon(ctx)
	if err == nil || errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return err
	}
	end, cancel := context.WithTimeout(b.hard, settle)
	defer cancel()
	return p.Abandon(end)
}

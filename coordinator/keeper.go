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

// keep drives one partition to being served until ctx ends (rule 2): whatever
// cannot be opened, or fails, is given a higher epoch and opened again.
func (b *Broker) keep(ctx context.Context, s *slot) {
	defer close(s.ended)
	var p pace
	for ctx.Err() == nil {
		served, err := b.term(ctx, s)
		if ctx.Err() != nil || errors.Is(err, errGone) {
			return
		}
		if served >= sound {
			p.reset()
		}
		b.log.Warn("partition is not served", "topic", b.nameOf(s.id), "partition", s.index, "err", err)
		for p.waitAfter(ctx, err) {
			if err = b.raise(ctx, s); err == nil || errors.Is(err, errGone) {
				break
			}
		}
	}
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
func (b *Broker) term(ctx context.Context, s *slot) (served time.Duration, err error) {
	t, err := b.awaitTenure(ctx)
	if err != nil {
		return 0, err
	}
	p, err := b.open(ctx, s, t)
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
	if !b.admit(t, func() { b.serveLocked(s, p); s.trouble.Store(nil) }) {
		return 0, errors.Join(errors.New("the data session was replaced meanwhile"), b.abandon(ctx, p))
	}
	began := time.Now()
	s.markOpened()
	select {
	case <-p.Done():
		err = fmt.Errorf("ended: %w", orUnsaid(p.Err()))
	case <-t.s.Fenced():
		err = substrate.ErrFenced
	case <-ctx.Done():
		err = ctx.Err()
	}
	if errors.Is(err, kerr.KafkaStorageError) {
		s.fail(err)
		s.last = p
	}
	s.p.Store(nil)
	t.served.Done()
	if ctx.Err() != nil {
		b.relinquish(p, s)
		return 0, err
	}
	return time.Since(began), errors.Join(err, b.abandon(ctx, p))
}

// isVolumes reports an error of opening that is the volume's: not that of a leadership
// which another epoch, session or process has ended, nor of who waited for it.
func isVolumes(err error) bool {
	for _, e := range []error{substrate.ErrFenced, substrate.ErrStillLeading, substrate.ErrEpochTaken, errGone, context.Canceled} {
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
	if t := view.TopicByID(s.id); t != nil {
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

func (s *slot) markOpened() {
	select {
	case <-s.opened:
	default:
		close(s.opened) // only the keeper does
	}
}

// open opens the partition under the epoch that the view gives it.
func (b *Broker) open(ctx context.Context, s *slot, t *tenure) (*partition.Partition, error) {
	back, ok := place(ctx, b.transit)
	if !ok {
		return nil, ctx.Err()
	}
	defer back()
	view := b.View()
	topic := view.TopicByID(s.id)
	if topic == nil || int(s.index) >= len(topic.Partitions) {
		return nil, errGone
	}
	epoch := topic.Partitions[s.index].Epoch
	cfg := b.partitionConfig(view, topic)
	cfg.After = s.last
	p, err := b.opt.open(ctx, t.s, s.id, topic.Name, s.index, epoch, cfg)
	if err != nil {
		return nil, fmt.Errorf("open in epoch %d: %w", epoch, err)
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

// raise gives the partition an epoch above all that its stream shows. One that no
// claim has reached yet is kept: whether it is free, the next claim decides.
func (b *Broker) raise(ctx context.Context, s *slot) error {
	next, err := substrate.Beside(ctx, func(look func()) { go look() }, func() (substrate.Epoch, error) {
		return metalog.NextEpoch(b.v, partition.ManifestStream(s.id, s.index))
	}, nil)
	if err != nil {
		return err
	}
	gone := false
	decide := func(c *projections.Cluster) ([]metalog.Event, error) {
		t := c.TopicByID(s.id)
		if gone = t == nil; gone || t.Partitions[s.index].Epoch >= int32(next) {
			return nil, nil
		}
		return projections.NewEvents(&projections.PartitionLeaderChanged{TopicID: s.id, Partition: s.index,
			Leader: b.opt.NodeID, Epoch: int32(next)})
	}
	reason := fmt.Sprintf("partition %s-%d is opened anew", b.nameOf(s.id), s.index)
	if err := b.publish(ctx, reason, decide); err != nil {
		return err
	}
	if gone {
		return errGone
	}
	return nil
}

// relinquish hands a partition over cleanly, or at least lets go of its files.
func (b *Broker) relinquish(p *partition.Partition, s *slot) {
	if back, ok := place(b.hard, b.transit); ok {
		defer back()
	}
	if err := p.Relinquish(b.hard); err != nil {
		b.log.Info("partition was left without a closed manifest", "topic", b.nameOf(s.id), "partition", s.index, "err", err)
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

// awaitOpen waits until each partition of a topic from an index on was served once.
func (b *Broker) awaitOpen(ctx context.Context, id projections.TopicID, from int32) error {
	for _, s := range (*b.slots.Load())[id] {
		if s == nil || s.index < from {
			continue
		}
		select {
		case <-s.opened:
		case <-s.ended:
			select {
			case <-s.opened:
			default:
				return fmt.Errorf("%w: partition %d of %s", errGone, s.index, b.nameOf(id))
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// awaitEnded waits until the keepers of these slots have let go.
func awaitEnded(ctx context.Context, ss []*slot) error {
	for _, s := range ss {
		if s == nil {
			continue
		}
		select {
		case <-s.ended:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

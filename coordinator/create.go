package coordinator

import (
	"context"
	"fmt"
	"maps"

	"github.com/twmb/franz-go/pkg/kerr"

	"kaas.dev/kaas/metalog"
	"kaas.dev/kaas/partition"
	"kaas.dev/kaas/projections"
)

// TopicSpec is a topic to be made. Defaults are the caller's to fill in.
type TopicSpec struct {
	Name       string
	Partitions int32
	Configs    map[string]string // only what is set for the topic
}

// creation is a topic being made, for all who ask for its name meanwhile.
type creation struct {
	done  chan struct{} // closed when topic and err are set
	topic *projections.Topic
	err   error
}

// CreateTopic makes a topic and returns when its partitions are open. With
// validateOnly it changes nothing and returns what would be made, without an ID.
//
// Whoever asks for a name that is being made waits for the outcome and, if it was
// made, gets kerr.TopicAlreadyExists when its partitions are open. Other errors
// wrap InvalidTopicException, InvalidPartitions, InvalidConfig, KafkaStorageError,
// NotController when the broker ends, and RequestTimedOut with ctx, when the topic
// may be made nevertheless.
func (b *Broker) CreateTopic(ctx context.Context, spec TopicSpec, validateOnly bool) (*projections.Topic, error) {
	spec.Configs = maps.Clone(spec.Configs)
	for {
		if err := spec.validate(b.View()); err != nil {
			return nil, err
		}
		if validateOnly {
			return spec.preview(), nil
		}
		c, mine := b.beginCreation(spec)
		if c == nil {
			return nil, clientError(b.whyEnded())
		}
		select {
		case <-c.done:
		case <-ctx.Done():
			return nil, clientError(fmt.Errorf("create topic %s: %w", spec.Name, ctx.Err()))
		}
		if c.err != nil {
			if mine {
				return nil, clientError(fmt.Errorf("create topic %s: %w", spec.Name, c.err))
			}
			continue // it failed for another; for us it may not
		}
		if err := b.awaitServed(ctx, c.topic.ID, 0); err != nil {
			return nil, clientError(fmt.Errorf("topic %s is made, but not open: %w", spec.Name, err))
		}
		if now := b.View().TopicByID(c.topic.ID); mine && now != nil {
			return now, nil
		} else if mine {
			return c.topic, nil // made, opened, and deleted meanwhile
		}
		return nil, fmt.Errorf("%w: %s", kerr.TopicAlreadyExists, spec.Name)
	}
}

// validate refuses what cannot be made beside the topics of the view.
func (s TopicSpec) validate(c *projections.Cluster) error {
	if err := projections.ValidateTopicName(s.Name); err != nil {
		return err
	}
	if c.Topic(s.Name) != nil {
		return fmt.Errorf("%w: %s", kerr.TopicAlreadyExists, s.Name)
	}
	if err := c.CheckCollision(s.Name); err != nil {
		return err
	}
	if s.Partitions < 1 || s.Partitions > projections.MaxPartitions {
		return fmt.Errorf("%w: %d partitions for %s; a topic has from 1 to %d", kerr.InvalidPartitions, s.Partitions, s.Name, projections.MaxPartitions)
	}
	return projections.ValidateTopicConfigs(s.Configs)
}

func (s TopicSpec) preview() *projections.Topic {
	return &projections.Topic{Name: s.Name, Configs: s.Configs, Partitions: make([]projections.Partition, s.Partitions)}
}

// beginCreation joins the creation of the name that is under way, or begins one
// that belongs to the broker. It returns nil when the broker stops.
func (b *Broker) beginCreation(spec TopicSpec) (c *creation, mine bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if c := b.mu.creating[spec.Name]; c != nil {
		return c, false
	}
	c = &creation{done: make(chan struct{})}
	if !b.spawnLocked(func() { b.runCreation(c, spec) }) {
		return nil, false
	}
	b.mu.creating[spec.Name] = c
	return c, true
}

func (b *Broker) runCreation(c *creation, spec TopicSpec) {
	c.topic, c.err = b.create(b.run, spec)
	b.mu.Lock()
	delete(b.mu.creating, spec.Name)
	b.mu.Unlock()
	close(c.done)
}

// create builds the topic's directory, which nobody knows, then publishes it. The
// directory goes again only if the publish was refused for good: otherwise the
// topic may be in the stream, and its files with it.
func (b *Broker) create(ctx context.Context, spec TopicSpec) (*projections.Topic, error) {
	made, err := b.space.roomForPartitions(spec.Partitions)
	if err != nil {
		return nil, err // what is left is for what frees some
	}
	defer made()
	session, err := b.leadingSession()
	if err != nil {
		return nil, err
	}
	id, now := b.opt.NewTopicID(), b.opt.Now()
	about := &partition.About{Partitions: spec.Partitions, Configs: spec.Configs, Created: now.UnixMilli()}
	err = attempts(ctx, func() error {
		return partition.BuildTopicAs(b.v, session, id, spec.Name, about, now)
	})
	if err != nil {
		b.discard(id, spec.Name)
		return nil, err
	}
	var topic *projections.Topic
	decide := func(c *projections.Cluster) ([]metalog.Event, error) {
		if c.TopicByID(id) != nil {
			return nil, nil // an earlier epoch of the stream had it published
		}
		if err := spec.validate(c); err != nil {
			return nil, err
		}
		return spec.events(id, now.UnixMilli(), spread(c, id, spec.Partitions, b.mayLead(c)))
	}
	if _, err := b.publish(ctx, "topic "+spec.Name+" created", decide); err != nil {
		if refused(err) {
			b.discard(id, spec.Name)
		}
		return nil, err
	}
	if topic = b.View().TopicByID(id); topic == nil {
		return nil, fmt.Errorf("%w: %s was deleted at once", kerr.UnknownTopicOrPartition, spec.Name)
	}
	b.log.Info("topic created", "topic", spec.Name, "id", id, "partitions", spec.Partitions)
	return topic, nil
}

func (s TopicSpec) events(id projections.TopicID, now int64, leaders []int32) ([]metalog.Event, error) {
	fs := make([]projections.Fact, 0, 1+s.Partitions)
	fs = append(fs, &projections.TopicCreated{ID: id, Name: s.Name, Partitions: s.Partitions, Configs: s.Configs, CreatedAt: now})
	for i, leader := range leaders {
		fs = append(fs, &projections.PartitionLeaderChanged{TopicID: id, Partition: int32(i), Leader: leader, Epoch: 1})
	}
	return projections.NewEvents(fs...)
}

// mayLead are the brokers that new partitions are given to.
func (b *Broker) mayLead(v *projections.Cluster) []int32 {
	if c := b.ctl.Load(); c != nil {
		return c.eligible(v)
	}
	return living(v)
}

// leadingSession is under what the controller builds; its leftovers go when it is sealed.
func (b *Broker) leadingSession() (string, error) {
	if l := b.leading(); l != nil {
		return l.s.ID(), nil
	}
	return "", errNotController
}

// awaitServed waits until the leaders of a topic's partitions, from an index on, serve
// what the view has now.
func (b *Broker) awaitServed(ctx context.Context, id projections.TopicID, from int32) error {
	c := b.ctl.Load()
	if c == nil {
		return errNotController
	}
	return c.awaitServed(ctx, id, from, b.Shown())
}

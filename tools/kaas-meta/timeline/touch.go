package timeline

import (
	"fmt"
	"strconv"

	"kaas.dev/kaas/partition"
	"kaas.dev/kaas/projections"
	"kaas.dev/kaas/projections/groups"
	"kaas.dev/kaas/projections/txns"
)

// touch is a lane that an event is about.
type touch struct {
	lane laneKey
	kind Kind
	// span is what the lane shows of a state; nil for nothing. nil as a func where the
	// event changes none.
	span func(state any) *Span
}

// touchesOf are the lanes of a fact, given the state before it; none for what is about its
// stream. all is set where it may be about anything.
func touchesOf(b *builder, before, fact any) (ts []touch, all bool) {
	if ts, ok := touchesOfCluster(b, before, fact); ok {
		return ts, false
	}
	switch f := fact.(type) {
	case *groups.OffsetsCommitted:
		return []touch{groupTouch(f.Group, KindCommit)}, false
	case *groups.OffsetsRemoved:
		return []touch{groupTouch(f.Group, KindCommit)}, false
	case *groups.TxnOffsetsStaged:
		return []touch{groupTouch(f.Group, KindTxn)}, false
	case *groups.TxnOffsetsEnded:
		return []touch{groupTouch(f.Group, KindTxn)}, false
	case *groups.ClassicGroupChanged:
		return []touch{groupTouch(f.Group, KindMembers)}, false
	case *groups.ConsumerGroupChanged:
		return []touch{groupTouch(f.Group, KindMembers)}, false
	case *groups.ConsumerMemberChanged:
		return []touch{groupTouch(f.Group, KindMembers)}, false
	case *groups.ConsumerMemberLeft:
		return []touch{groupTouch(f.Group, KindMembers)}, false
	case *groups.ConsumerTargetChanged:
		return []touch{groupTouch(f.Group, KindMembers)}, false
	case *groups.GroupDeleted:
		return []touch{groupTouch(f.Group, KindMembers)}, false
	case *txns.TxnChanged:
		return []touch{txnTouch(f.Txn.ID)}, false
	case *txns.TxnRemoved:
		return []touch{txnTouch(f.ID)}, false
	}
	_, manifest := before.(*partition.Manifest)
	return nil, !manifest
}

func touchesOfCluster(b *builder, before, fact any) (ts []touch, ok bool) {
	one := func(t touch) ([]touch, bool) { return []touch{t}, true }
	switch f := fact.(type) {
	case *projections.ControllerChanged:
		return one(controllerTouch())
	case *projections.BrokerRegistered:
		return one(brokerTouch(f.ID))
	case *projections.BrokerFenced:
		return one(brokerTouch(f.ID))
	case *projections.BrokerUnfenced:
		return one(brokerTouch(f.ID))
	case *projections.BrokerUnregistered:
		return one(brokerTouch(f.ID))
	case *projections.TopicCreated:
		return one(topicTouch(f.Name))
	case *projections.PartitionsAdded:
		return one(topicTouch(f.Topic))
	case *projections.TopicRemoved:
		return one(touch{lane: topicLane(b.topicName(f.ID)), kind: KindChange})
	case *projections.TopicDeleted:
		ts = append(ts, topicTouch(f.Name))
		if c, ok := before.(*projections.Cluster); ok {
			ts = append(ts, partitionTouches(c.Topic(f.Name))...)
		}
		return ts, true
	case *projections.PartitionLeaderChanged:
		return one(partitionTouch(b.topicName(f.TopicID), f.Partition))
	case *projections.ShardOwnerChanged:
		return one(shardTouch(f.Kind, f.Shard))
	case *projections.ConfigChanged:
		return one(touch{lane: configLane(f), kind: KindChange})
	case *projections.ShardsMade, *projections.ProducerIDsAllocated, *projections.QuotasChanged:
		return one(touch{lane: clusterLane(), kind: KindChange})
	case *projections.ProducerFenced, *projections.ProducerFencesExpired:
		return one(touch{lane: clusterLane(), kind: KindTxn})
	}
	return nil, false
}

// everything are the lanes of all that a state has.
func everything(state any) (ts []touch) {
	switch s := state.(type) {
	case *projections.Cluster:
		if s.Controller() != projections.NoLeader {
			ts = append(ts, controllerTouch())
		}
		for _, b := range s.Brokers() {
			ts = append(ts, brokerTouch(b.ID))
		}
		for _, t := range s.Topics() {
			ts = append(append(ts, topicTouch(t.Name)), partitionTouches(t)...)
		}
		for _, kind := range []projections.ShardKind{projections.ShardGroups, projections.ShardTxns} {
			for i := range s.Shards(kind) {
				ts = append(ts, shardTouch(kind, int32(i)))
			}
		}
	case *groups.Shard:
		for g := range s.Groups() {
			ts = append(ts, groupTouch(g.ID, KindMembers))
		}
	case *txns.Shard:
		for t := range s.Txns() {
			ts = append(ts, txnTouch(t.ID))
		}
	}
	return ts
}

func configLane(f *projections.ConfigChanged) laneKey {
	switch f.Resource {
	case projections.ResourceTopic:
		return topicLane(f.Name)
	case projections.ResourceGroup:
		return groupLane(f.Name)
	}
	if id, err := strconv.ParseInt(f.Name, 10, 32); err == nil {
		return brokerLane(int32(id))
	}
	return clusterLane()
}

// of has a span look at states of one type.
func of[S any](show func(S) *Span) func(any) *Span {
	return func(state any) *Span {
		if s, ok := state.(S); ok {
			return show(s)
		}
		return nil
	}
}

func controllerTouch() touch {
	return touch{controllerLane(), KindLeader, of(func(c *projections.Cluster) *Span {
		if c.Controller() == projections.NoLeader {
			return &Span{Style: StyleNobody, Label: "nobody"}
		}
		return &Span{Style: StyleBroker, Broker: c.Controller(), Label: fmt.Sprintf("broker %d", c.Controller())}
	})}
}

func brokerTouch(id int32) touch {
	return touch{brokerLane(id), KindChange, of(func(c *projections.Cluster) *Span {
		b, ok := c.Broker(id)
		switch {
		case !ok:
			return nil
		case b.Fenced:
			return &Span{Style: StyleFenced, Label: "fenced"}
		}
		return &Span{Style: StyleBroker, Broker: id, Label: fmt.Sprintf("up, epoch %d", b.Epoch)}
	})}
}

func topicTouch(name string) touch {
	return touch{topicLane(name), KindChange, of(func(c *projections.Cluster) *Span {
		t := c.Topic(name) // whatever its ID: one after the other has the name
		if t == nil {
			return nil
		}
		return &Span{Style: StyleExists, Label: counted(len(t.Partitions), "partition")}
	})}
}

func partitionTouches(t *projections.Topic) (ts []touch) {
	if t == nil {
		return nil
	}
	for i := range t.Partitions {
		ts = append(ts, partitionTouch(t.Name, int32(i)))
	}
	return ts
}

func partitionTouch(topic string, index int32) touch {
	return touch{partitionLane(topic, index), KindLeader, of(func(c *projections.Cluster) *Span {
		if t := c.Topic(topic); t != nil {
			return owned(t.Partitions, index)
		}
		return nil
	})}
}

func shardTouch(kind projections.ShardKind, n int32) touch {
	return touch{shardLane(kind, n), KindLeader, of(func(c *projections.Cluster) *Span { return owned(c.Shards(kind), n) })}
}

// owned is who has one of several. What never had anybody shows nothing.
func owned(all []projections.Partition, i int32) *Span {
	if i < 0 || int(i) >= len(all) || all[i].Epoch == 0 {
		return nil
	}
	p := all[i]
	if p.Leader == projections.NoLeader {
		return &Span{Style: StyleNobody, Label: "nobody"}
	}
	return &Span{Style: StyleBroker, Broker: p.Leader, Label: fmt.Sprintf("broker %d, epoch %d", p.Leader, p.Epoch)}
}

func groupTouch(id string, kind Kind) touch {
	return touch{groupLane(id), kind, of(func(s *groups.Shard) *Span {
		g := s.Group(id)
		switch {
		case g == nil:
			return nil
		case g.Classic != nil:
			return members(len(g.Classic.Members), "generation", g.Classic.Generation)
		case g.Consumer != nil:
			return members(len(g.Consumer.Members), "epoch", g.Consumer.Epoch)
		}
		return &Span{Style: StyleIdle, Label: "offsets only"}
	})}
}

func members(n int, word string, epoch int32) *Span {
	if n == 0 {
		return &Span{Style: StyleIdle, Label: "empty"}
	}
	return &Span{Style: StyleActive, Label: fmt.Sprintf("%s, %s %d", counted(n, "member"), word, epoch)}
}

func txnTouch(id string) touch {
	return touch{txnLane(id), KindTxn, of(func(s *txns.Shard) *Span {
		t := s.Txn(id)
		switch {
		case t == nil:
			return nil
		case t.State == txns.Ongoing:
			return &Span{Style: StyleOngoing, Label: "open"}
		case t.State.Ending():
			return &Span{Style: StyleEnding, Label: t.State.String()}
		}
		return &Span{Style: StyleIdle, Label: t.State.String()}
	})}
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

package coordinator

import (
	"slices"

	"kaas.dev/kaas/coordinator/balance"
	"kaas.dev/kaas/projections"
)

// led is what has a leader: a partition, or a coordinator's shard.
type led struct {
	place
	now projections.Partition
}

// give is the fact that leader has it from now on.
func (l led) give(leader int32, handover bool) projections.Fact {
	return l.giveAt(leader, l.now.Epoch+1, handover)
}

func (l led) giveAt(leader, epoch int32, handover bool) projections.Fact {
	if l.kind != "" {
		return &projections.ShardOwnerChanged{Kind: l.kind, Shard: l.index, Owner: leader, Epoch: epoch, Handover: handover}
	}
	return &projections.PartitionLeaderChanged{TopicID: l.topic, Partition: l.index, Leader: leader, Epoch: epoch, Handover: handover}
}

// pool is what is kept even as a whole: all partitions, or the shards of a kind.
type pool struct {
	all    []led
	places []balance.Place
}

// pools are everything that has a leader in a view, each in one order. unled are brokers
// whose leadership has ended: what they led has no leader any more.
func pools(c *projections.Cluster, unled ...int32) []pool {
	leader := func(p projections.Partition) int32 {
		if slices.Contains(unled, p.Leader) {
			return projections.NoLeader
		}
		return p.Leader
	}
	var parts pool
	for g, t := range c.Topics() {
		for i, p := range t.Partitions {
			parts.all = append(parts.all, led{place: place{topic: t.ID, index: int32(i)}, now: p})
			parts.places = append(parts.places, balance.Place{Group: g, Leader: leader(p)})
		}
	}
	out := []pool{parts}
	for _, kind := range []projections.ShardKind{projections.ShardGroups, projections.ShardTxns} {
		var shards pool
		for i, p := range c.Shards(kind) {
			shards.all = append(shards.all, led{place: place{kind: kind, index: int32(i)}, now: p})
			shards.places = append(shards.places, balance.Place{Leader: leader(p)})
		}
		out = append(out, shards)
	}
	return out
}

// orphans are the facts that give everything without a living leader one of live, and
// what unled led a leader of live under a new epoch. Nothing if live is empty: then
// nobody leads, and who comes back is given it all. Who lives and is not of live, such as one
// that stops, keeps what it leads, to hand it over.
func orphans(c *projections.Cluster, live []int32, unled ...int32) (fs []projections.Fact) {
	if len(live) == 0 {
		return nil
	}
	for _, p := range pools(c, unled...) {
		for _, m := range balance.Assign(p.places, live) {
			if l := p.all[m.Place]; slices.Contains(unled, l.now.Leader) || !c.Alive(l.now.Leader) {
				fs = append(fs, l.give(m.To, false))
			}
		}
	}
	return fs
}

// living are the brokers that may lead, in order, without those in not.
func living(c *projections.Cluster, not ...int32) (ids []int32) {
	for _, b := range c.Brokers() {
		if !b.Fenced && !slices.Contains(not, b.ID) {
			ids = append(ids, b.ID)
		}
	}
	return ids
}

// spread gives n new places of one topic leaders of live.
func spread(c *projections.Cluster, group projections.TopicID, n int32, live []int32) []int32 {
	p := pools(c)[0]
	g := slices.IndexFunc(c.Topics(), func(t *projections.Topic) bool { return t.ID == group })
	if g < 0 {
		g = len(c.Topics())
	}
	first := len(p.places)
	for range n {
		p.places = append(p.places, balance.Place{Group: g, Leader: projections.NoLeader})
	}
	leaders := make([]int32, n)
	for i := range leaders {
		leaders[i] = projections.NoLeader
	}
	for _, m := range balance.Assign(p.places, live) {
		if m.Place >= first {
			leaders[m.Place-first] = m.To
		}
	}
	return leaders
}

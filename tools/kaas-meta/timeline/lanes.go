package timeline

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"kaas.dev/kaas/projections"
	"kaas.dev/kaas/projections/groups"
	"kaas.dev/kaas/projections/txns"
	"kaas.dev/kaas/tools/kaas-meta/history"
)

// laneKey is the identity of a lane, and its place.
type laneKey struct {
	section Section
	id      int64  // of a broker; orders the lanes of the cluster
	name    string // of a topic, group, transactional ID or kind of shard
	part    int32  // partition or shard; -1 for none
}

func (k laneKey) compare(o laneKey) int {
	return cmp.Or(cmp.Compare(k.section, o.section), cmp.Compare(k.id, o.id), cmp.Compare(k.name, o.name), cmp.Compare(k.part, o.part))
}

// label is what a lane is called.
func (k laneKey) label() string {
	switch k.section {
	case SectionBrokers:
		return "broker " + strconv.FormatInt(k.id, 10)
	case SectionShards:
		return fmt.Sprintf("%s/%02d", k.name, k.part)
	}
	if k.part >= 0 {
		return fmt.Sprintf("%s/%d", k.name, k.part)
	}
	return k.name
}

func controllerLane() laneKey       { return laneKey{SectionCluster, 0, "controller", -1} }
func clusterLane() laneKey          { return laneKey{SectionCluster, 1, "cluster-wide", -1} }
func brokerLane(id int32) laneKey   { return laneKey{SectionBrokers, int64(id), "", -1} }
func topicLane(name string) laneKey { return laneKey{SectionTopics, 0, name, -1} }
func groupLane(id string) laneKey   { return laneKey{SectionGroups, 0, id, -1} }
func txnLane(id string) laneKey     { return laneKey{SectionTxns, 0, id, -1} }
func partitionLane(topic string, i int32) laneKey {
	return laneKey{SectionTopics, 0, topic, i}
}
func shardLane(kind projections.ShardKind, n int32) laneKey {
	return laneKey{SectionShards, 0, string(kind), n}
}

// laneOfStream is where a stream's entries are marked that are about nothing in it.
func laneOfStream(b *builder, s *history.Stream) laneKey {
	kind, rest, _ := strings.Cut(s.Name, "/")
	switch kind {
	case groups.StreamsDir:
		return shardLane(projections.ShardGroups, s.Shard)
	case txns.StreamsDir:
		return shardLane(projections.ShardTxns, s.Shard)
	case "topics":
		topic, index := rest, int64(0)
		if i := strings.LastIndex(rest, "/"); i >= 0 {
			topic = rest[:i]
			index, _ = strconv.ParseInt(rest[i+1:], 10, 32) // the stream was found by it
		}
		if name, ok := b.names[topic]; ok {
			topic = name
		}
		return partitionLane(topic, int32(index))
	}
	return controllerLane()
}

// topicName is how a topic is called, or was.
func (b *builder) topicName(id projections.TopicID) string {
	if name, ok := b.names[id.String()]; ok {
		return name
	}
	return id.String()
}

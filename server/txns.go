package server

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/coordinator"
	"kaas.dev/kaas/coordinator/txnshard"
	"kaas.dev/kaas/projections"
	"kaas.dev/kaas/projections/txns"
)

// offsetsTopic stands for the shards of groups where Kafka has partitions of that topic.
const offsetsTopic = coordinator.OffsetsTopic

// txnShardOf is the shard that coordinates a transactional ID, if it is served here.
func (s *Server) txnShardOf(id string) (txnShard, error) {
	if id == "" || len(id) > maxString { // ListTransactions could not tell of it
		return nil, kerr.InvalidRequest
	}
	return s.backend.TxnShard(id)
}

// txnFailure is groupFailure for a producer. Clients before a version do not know
// PRODUCER_FENCED, which came for INVALID_PRODUCER_EPOCH (KIP-588).
func (s *Server) txnFailure(key kmsg.Key, knowsFenced bool, err error) int16 {
	if !knowsFenced && errors.Is(err, kerr.ProducerFenced) {
		err = kerr.InvalidProducerEpoch
	}
	return s.groupFailure(key, err)
}

// addPart puts a partition by name into what is to be added. Shards of groups come as
// partitions of their topic.
func addPart(view *projections.Cluster, a *txnshard.Add, topic string, index int32) error {
	if topic == offsetsTopic {
		if n := len(view.Shards(projections.ShardGroups)); index < 0 || int(index) >= n {
			return kerr.UnknownTopicOrPartition
		}
		a.Groups = append(a.Groups, index)
		return nil
	}
	t := view.Topic(topic)
	if t == nil || !hasPartition(t, index) {
		return kerr.UnknownTopicOrPartition
	}
	a.Partitions = append(a.Partitions, txns.Partition{Topic: t.ID, Index: index})
	return nil
}

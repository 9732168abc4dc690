package server

// WriteTxnMarkers, key 27, versions 1 and 2 (KIP-98).
//
// Sent by the coordinators of transactions to the leaders of their partitions, and by
// Admin.abortTransaction. Each partition has its own error, and none when its marker is
// committed. A marker may come again: one that finds nothing to end is written and harms
// nobody. INVALID_PRODUCER_EPOCH and TRANSACTION_COORDINATOR_FENCED tell a sender that he
// has been succeeded. A partition of __consumer_offsets is a shard of groups, where the
// marker ends what its producer has staged. From version 2 on (KIP-1228) the marker tells its transaction version,
// and one of version 2 has an epoch above its transaction's.

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/coordinator/groupshard"
	"kaas.dev/kaas/partition"
	"kaas.dev/kaas/server/acl"
)

var writeTxnMarkersAPI = api{key: kmsg.WriteTxnMarkers, min: 1, max: 2, access: checks(right{acl.Alter, acl.Cluster}, right{acl.ClusterAction, acl.Cluster}), start: (*Server).writeTxnMarkers}

// marking is a marker that was begun: wait returns when it is committed.
type marking struct {
	out  *kmsg.WriteTxnMarkersResponseMarkerTopicPartition
	wait func(context.Context) error
}

func (s *Server) writeTxnMarkers(ctx context.Context, r *request) (reply, error) {
	req := r.msg.(*kmsg.WriteTxnMarkersRequest)
	resp := kmsg.NewPtrWriteTxnMarkersResponse()
	resp.Markers = make([]kmsg.WriteTxnMarkersResponseMarker, len(req.Markers))
	var waiting []marking
	var denied error
	if !r.seesCluster(acl.Alter) {
		denied = r.deniedCluster(acl.ClusterAction)
	}
	s.excuse(r)
	for i := range req.Markers {
		in, out := &req.Markers[i], &resp.Markers[i]
		out.ProducerID = in.ProducerID
		m := partition.Marker{ProducerID: in.ProducerID, ProducerEpoch: in.ProducerEpoch, Commit: in.Committed,
			CoordinatorEpoch: in.CoordinatorEpoch, Version: in.TransactionVersion}
		out.Topics = make([]kmsg.WriteTxnMarkersResponseMarkerTopic, len(in.Topics))
		for j := range in.Topics {
			waiting = append(waiting, s.markTopic(ctx, m, &in.Topics[j], &out.Topics[j], denied)...)
		}
	}
	return later(func(ctx context.Context) (kmsg.Response, error) {
		ctx, cancel := context.WithTimeout(ctx, volumeWait)
		defer cancel()
		inParallel(len(waiting), func(i int) {
			waiting[i].out.ErrorCode = s.failure(kmsg.WriteTxnMarkers, waiting[i].wait(ctx))
		})
		return resp, nil
	})
}

// markTopic appends a marker to partitions of a topic.
func (s *Server) markTopic(ctx context.Context, m partition.Marker, in *kmsg.WriteTxnMarkersRequestMarkerTopic, out *kmsg.WriteTxnMarkersResponseMarkerTopic, denied error) (waiting []marking) {
	out.Topic = in.Topic
	out.Partitions = make([]kmsg.WriteTxnMarkersResponseMarkerTopicPartition, len(in.Partitions))
	t := s.backend.View().Topic(in.Topic)
	for i, index := range in.Partitions {
		o := &out.Partitions[i]
		o.Partition = index
		if denied != nil {
			o.ErrorCode = s.failure(kmsg.WriteTxnMarkers, denied)
			continue
		}
		if in.Topic == offsetsTopic {
			waiting = append(waiting, marking{o, s.endInGroups(m, index)})
			continue
		}
		var a *partition.Appended
		err := error(kerr.UnknownTopicOrPartition)
		if t != nil {
			var p *partition.Partition
			if p, err = s.backend.Partition(t.ID, index); err == nil {
				a, err = p.WriteMarker(ctx, m)
			}
		}
		if err == nil {
			waiting = append(waiting, marking{o, a.Wait})
			continue
		}
		o.ErrorCode = s.failure(kmsg.WriteTxnMarkers, err)
	}
	return waiting
}

// endInGroups ends a producer's transaction in a shard of groups.
func (s *Server) endInGroups(m partition.Marker, shard int32) func(context.Context) error {
	return func(ctx context.Context) error {
		g, err := s.backend.GroupShardAt(shard)
		if err != nil {
			return err
		}
		return g.EndTxn(ctx, groupshard.Producer{ID: m.ProducerID, Epoch: m.ProducerEpoch}, m.Commit, m.Version)
	}
}

package server

// FindCoordinator, key 10, versions 0 to 6.
//
// The owner of the shard that a group (type 0) or a transactional ID (type 1) falls into,
// COORDINATOR_NOT_AVAILABLE while it does not live, or there are no shards yet.
// Share-group keys (type 2) are between brokers, and refused. Many keys at once from
// version 4.

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/projections"
	"kaas.dev/kaas/server/acl"
)

var findCoordinatorAPI = api{key: kmsg.FindCoordinator, min: 0, max: 6, wide: true, access: checks(right{acl.Describe, acl.Group}, right{acl.Describe, acl.TransactionalID}, right{acl.ClusterAction, acl.Cluster}), start: (*Server).findCoordinator}

// The types of coordinators.
const coordinatorGroup, coordinatorTxn, coordinatorShare = 0, 1, 2

// coordinated are the shards by coordinator type.
var coordinated = map[int8]projections.ShardKind{coordinatorGroup: projections.ShardGroups, coordinatorTxn: projections.ShardTxns}

func (s *Server) findCoordinator(_ context.Context, r *request) (reply, error) {
	req := r.msg.(*kmsg.FindCoordinatorRequest)
	resp := kmsg.NewPtrFindCoordinatorResponse()
	if req.Version < 4 {
		c := s.coordinatorOf(r, req.CoordinatorType, req.CoordinatorKey)
		resp.ErrorCode, resp.ErrorMessage, resp.NodeID, resp.Host, resp.Port = c.ErrorCode, c.ErrorMessage, c.NodeID, c.Host, c.Port
		return now(resp)
	}
	for _, key := range distinct(req.CoordinatorKeys, itself) { // a key that stands twice is answered once
		if !r.room(3*elementBytes + len(key)) {
			break
		}
		resp.Coordinators = append(resp.Coordinators, s.coordinatorOf(r, req.CoordinatorType, key))
	}
	return now(resp)
}

func (s *Server) coordinatorOf(r *request, kind int8, key string) kmsg.FindCoordinatorResponseCoordinator {
	out := kmsg.NewFindCoordinatorResponseCoordinator()
	out.Key, out.NodeID, out.Port = key, -1, -1
	view := s.backend.View()
	shards, known := coordinated[kind]
	err := error(kerr.CoordinatorNotAvailable)
	if denied := deniedCoordinator(r, kind, key); denied != nil {
		err = denied
	} else if !known {
		err = kerr.InvalidRequest
	} else if b, ok := view.Broker(shardOwner(view, shards, key)); ok && !b.Fenced {
		if n, ok := s.nodeOf(b, r.conn); ok {
			out.NodeID, out.Host, out.Port = n.id, n.host, n.port
			err = nil
		}
	}
	out.ErrorCode, out.ErrorMessage = s.failure(kmsg.FindCoordinator, err), message(err)
	return out
}

// deniedCoordinator is why who asks may not know where something is coordinated, or nil.
func deniedCoordinator(r *request, kind int8, key string) error {
	switch {
	case kind == coordinatorGroup:
		return r.deniedGroup(acl.Describe, key)
	case kind == coordinatorTxn:
		return r.deniedTxn(acl.Describe, key)
	case kind == coordinatorShare && r.version >= 6 && !r.mayCluster(acl.ClusterAction):
		return kerr.ClusterAuthorizationFailed
	}
	return nil
}

func shardOwner(view *projections.Cluster, kind projections.ShardKind, key string) int32 {
	if shard, ok := view.ShardOf(kind, key); ok {
		return view.Shards(kind)[shard].Leader
	}
	return projections.NoLeader
}

package server

// DescribeQuorum, key 55, versions 0 to 2 (KIP-595, KIP-836, KIP-853).
//
// The controller is the quorum: its only voter and leader. What Kafka keeps in the log
// __cluster_metadata is the cluster's stream here: the leader's epoch is the stream's, and
// the high watermark the newest entry of that epoch as this broker sees it. Any other
// partition, or another beside it, is UNKNOWN_TOPIC_OR_PARTITION. While no controller
// lives the whole is NOT_LEADER_OR_FOLLOWER.

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/server/acl"
)

var describeQuorumAPI = api{key: kmsg.DescribeQuorum, min: 0, max: 2, access: onCluster(acl.Describe), start: (*Server).describeQuorum}

// metadataTopic is where Kafka keeps the cluster's metadata.
const metadataTopic = "__cluster_metadata"

func (s *Server) describeQuorum(_ context.Context, r *request) (reply, error) {
	req := r.msg.(*kmsg.DescribeQuorumRequest)
	resp := kmsg.NewPtrDescribeQuorumResponse()
	resp.ErrorMessage = new(string)
	if r.refused != nil {
		resp.ErrorCode, resp.ErrorMessage = s.failure(kmsg.DescribeQuorum, r.refused), message(r.refused)
		return now(resp)
	}
	known := len(req.Topics) == 1 && req.Topics[0].Topic == metadataTopic &&
		len(req.Topics[0].Partitions) == 1 && req.Topics[0].Partitions[0].Partition == 0
	if known {
		s.tellQuorum(r.conn, resp)
		return now(resp)
	}
	code, text := s.failure(kmsg.DescribeQuorum, kerr.UnknownTopicOrPartition), kerr.UnknownTopicOrPartition.Description
	for _, in := range req.Topics {
		out := kmsg.NewDescribeQuorumResponseTopic()
		out.Topic = in.Topic
		for _, p := range in.Partitions {
			o := kmsg.NewDescribeQuorumResponseTopicPartition()
			o.Partition, o.ErrorCode, o.ErrorMessage = p.Partition, code, &text
			out.Partitions = append(out.Partitions, o)
		}
		resp.Topics = append(resp.Topics, out)
	}
	return now(resp)
}

// tellQuorum tells of the controller, if it lives.
func (s *Server) tellQuorum(c *conn, resp *kmsg.DescribeQuorumResponse) {
	view, at := s.backend.View(), s.backend.Shown()
	controller := view.Controller()
	if !view.Alive(controller) {
		text := kerr.NotLeaderForPartition.Description
		resp.ErrorCode, resp.ErrorMessage = s.failure(kmsg.DescribeQuorum, kerr.NotLeaderForPartition), &text
		return
	}
	p := kmsg.NewDescribeQuorumResponseTopicPartition()
	p.ErrorMessage, p.LeaderID, p.LeaderEpoch, p.HighWatermark = new(string), controller, int32(at.Epoch), int64(at.Seq)
	voter := kmsg.NewDescribeQuorumResponseTopicPartitionReplicaState()
	voter.ReplicaID, voter.LogEndOffset = controller, p.HighWatermark
	voter.LastFetchTimestamp = time.Now().UnixMilli()
	voter.LastCaughtUpTimestamp = voter.LastFetchTimestamp
	p.CurrentVoters = append(p.CurrentVoters, voter)
	t := kmsg.NewDescribeQuorumResponseTopic()
	t.Topic = metadataTopic
	t.Partitions = append(t.Partitions, p)
	resp.Topics = append(resp.Topics, t)
	b, _ := view.Broker(controller)
	if n, ok := s.nodeOf(b, c); ok {
		node, l := kmsg.NewDescribeQuorumResponseNode(), kmsg.NewDescribeQuorumResponseNodeListener()
		node.NodeID, l.Name, l.Host, l.Port = n.id, c.listener.Name, n.host, uint16(n.port)
		node.Listeners = append(node.Listeners, l)
		resp.Nodes = append(resp.Nodes, node)
	}
}

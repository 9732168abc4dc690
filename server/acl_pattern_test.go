package server

import (
	"maps"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/server/acl"
)

// Members that subscribe by pattern are assigned the topics that they may describe, and as
// ACLs change others. A name that may not be described is refused.
func TestPatternsAreNarrowed(t *testing.T) {
	n := served(t, startAuthorized(t))
	admin, alice := dialAs(t, "admin", n.Addr()), dialAs(t, "alice", n.Addr())
	names := map[[16]byte]string{admin.create("open", 1): "open", admin.create("secret", 1): "secret"}
	admin.grant(allow("alice", acl.Read, acl.Group, "*"), allow("alice", acl.Describe, acl.Topic, "open"))
	epoch, owned := int32(0), []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	beat := func() []string {
		req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
		req.Version, req.Group, req.MemberID, req.MemberEpoch, req.RebalanceTimeoutMillis = 1, "g", "m", epoch, 60_000
		pattern := "open|secret"
		req.SubscribedTopicRegex, req.Topics = &pattern, owned
		got := alice.ask(req).(*kmsg.ConsumerGroupHeartbeatResponse)
		if got.ErrorCode != 0 {
			t.Fatalf("error %d, %s", got.ErrorCode, or(got.ErrorMessage, ""))
		}
		epoch = got.MemberEpoch
		topics := map[string]bool{}
		if got.Assignment != nil {
			owned = nil
			for _, a := range got.Assignment.Topics {
				topics[names[a.TopicID]] = true
				owned = append(owned, kmsg.ConsumerGroupHeartbeatRequestTopic{TopicID: a.TopicID, Partitions: a.Partitions})
			}
			if owned == nil {
				owned = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
			}
		}
		return slices.Sorted(maps.Keys(topics))
	}
	if got := beat(); !slices.Equal(got, []string{"open"}) {
		t.Errorf("assigned %v", got)
	}
	admin.grant(allow("alice", acl.Describe, acl.Topic, "secret"))
	awaitCluster(t, n, "both are assigned", func() bool { return slices.Equal(beat(), []string{"open", "secret"}) })
	admin.grant(deny("alice", acl.Describe, acl.Topic, "open"))
	awaitCluster(t, n, "one is taken away", func() bool { return slices.Equal(beat(), []string{"secret"}) })

	req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	req.Version, req.Group, req.MemberID, req.RebalanceTimeoutMillis = 1, "named", "m", 60_000
	req.SubscribedTopicNames, req.Topics = []string{"secret", "open"}, []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	if got := alice.ask(req).(*kmsg.ConsumerGroupHeartbeatResponse); got.ErrorCode != kerr.TopicAuthorizationFailed.Code {
		t.Errorf("a name that may not be described: error %d", got.ErrorCode)
	}
}

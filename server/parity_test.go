package server

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/server/acl"
)

// What stands twice among topics to be deleted is answered once and is not deleted.
func TestDeleteTopicsTwice(t *testing.T) {
	n := startNode(t, t.TempDir())
	c := dial(t, n.Addr())
	id := c.create("a", 1)
	c.create("b", 1)
	named := func(name string) kmsg.DeleteTopicsRequestTopic {
		return kmsg.DeleteTopicsRequestTopic{Topic: &name}
	}
	byID := kmsg.DeleteTopicsRequestTopic{TopicID: id}
	ask := func(version int16, topics ...kmsg.DeleteTopicsRequestTopic) (got string) {
		req := kmsg.NewPtrDeleteTopicsRequest()
		req.Version, req.TimeoutMillis, req.Topics = version, 20_000, topics
		for _, rt := range topics {
			req.TopicNames = append(req.TopicNames, or(rt.Topic, ""))
		}
		for _, rt := range c.ask(req).(*kmsg.DeleteTopicsResponse).Topics {
			got += fmt.Sprint(or(rt.Topic, "?"), " ", rt.ErrorCode, ", ")
		}
		return got
	}
	for _, tc := range []struct {
		version int16
		topics  []kmsg.DeleteTopicsRequestTopic
		want    string
	}{
		{6, []kmsg.DeleteTopicsRequestTopic{named("a"), named("a")}, "a 42, "},
		{5, []kmsg.DeleteTopicsRequestTopic{named("a"), named("a")}, "a 42, "},
		{6, []kmsg.DeleteTopicsRequestTopic{byID, byID}, "? 42, "},
		{6, []kmsg.DeleteTopicsRequestTopic{byID, named("none"), named("a")}, "a 42, none 3, "},
		{6, []kmsg.DeleteTopicsRequestTopic{named("none"), named("none")}, "none 42, "},
		{6, []kmsg.DeleteTopicsRequestTopic{{}, {}}, "? 42, ? 42, "},
		{6, []kmsg.DeleteTopicsRequestTopic{named("a"), named("b"), named("a")}, "a 42, b 0, "},
	} {
		if got := ask(tc.version, tc.topics...); got != tc.want {
			t.Errorf("version %d: %s, want %s", tc.version, got, tc.want)
		}
	}
	if view := n.broker.View(); view.Topic("a") == nil || view.Topic("b") != nil {
		t.Error("a topic that stood twice is deleted, or its neighbour is not")
	}
}

// That a topic is there is told before what else is wrong with the request for it; what
// stands twice is answered once.
func TestCreateTopicsAsKafka(t *testing.T) {
	n := startNode(t, t.TempDir())
	c := dial(t, n.Addr())
	c.create("there", 1)
	c.create("with.dot", 1)
	topic := func(name string, partitions int32, kv ...string) kmsg.CreateTopicsRequestTopic {
		out := kmsg.NewCreateTopicsRequestTopic()
		out.Topic, out.NumPartitions, out.ReplicationFactor = name, partitions, 1
		for i := 0; i < len(kv); i += 2 {
			out.Configs = append(out.Configs, kmsg.CreateTopicsRequestTopicConfig{Name: kv[i], Value: &kv[i+1]})
		}
		return out
	}
	for _, tc := range []struct {
		topics []kmsg.CreateTopicsRequestTopic
		want   string
	}{
		{[]kmsg.CreateTopicsRequestTopic{topic("there", 1, "no.such", "1")}, "there 36, "},
		{[]kmsg.CreateTopicsRequestTopic{topic("there", 0)}, "there 36, "},
		{[]kmsg.CreateTopicsRequestTopic{topic("with_dot", 0, "no.such", "1")}, "with_dot 17, "},
		{[]kmsg.CreateTopicsRequestTopic{topic("new", 0, "no.such", "1")}, "new 40, "},
		{[]kmsg.CreateTopicsRequestTopic{topic("new", 0)}, "new 37, "},
		{[]kmsg.CreateTopicsRequestTopic{topic("two", 1), topic("one", 1), topic("two", 1)}, "two 42, one 0, "},
		{[]kmsg.CreateTopicsRequestTopic{topic("new", 1, "retention.ms", "1", "retention.ms", "2")}, "new 0, "},
	} {
		req := kmsg.NewPtrCreateTopicsRequest()
		req.Version, req.TimeoutMillis, req.Topics = 7, 20_000, tc.topics
		got := ""
		for _, rt := range c.ask(req).(*kmsg.CreateTopicsResponse).Topics {
			got += fmt.Sprint(rt.Topic, " ", rt.ErrorCode, ", ")
		}
		if got != tc.want {
			t.Errorf("%s, want %s", got, tc.want)
		}
	}
	if got := n.broker.View().Topic("new").Configs["retention.ms"]; got != "2" {
		t.Errorf("of what stands twice %s counts", got)
	}
}

// What is told beside an error is what Kafka tells.
func TestErrorsAsKafka(t *testing.T) {
	n := startNode(t, t.TempDir())
	c := dial(t, n.Addr())
	c.create("t", 1)

	md := metadataReq(9, false, "none", "no name")
	md.IncludeTopicAuthorizedOperations = true
	for _, rt := range c.ask(md).(*kmsg.MetadataResponse).Topics {
		if rt.ErrorCode == 0 || rt.AuthorizedOperations != acl.Supported(acl.Topic) {
			t.Errorf("metadata: %+v", rt)
		}
	}

	dc := kmsg.NewPtrDescribeClusterRequest()
	for kind, want := range map[int8]int16{2: kerr.MismatchedEndpointType.Code, 3: kerr.UnsupportedEndpointType.Code} {
		dc.Version, dc.EndpointType = 2, kind
		if got := c.ask(dc).(*kmsg.DescribeClusterResponse); got.ErrorCode != want || got.EndpointType != 1 || got.ControllerID != -1 {
			t.Errorf("endpoints of type %d: %+v", kind, got)
		}
	}

	dp := kmsg.NewPtrDescribeProducersRequest()
	dp.Topics = []kmsg.DescribeProducersRequestTopic{{Topic: "no name", Partitions: []int32{0}}, {Topic: "none", Partitions: []int32{0}}}
	got := c.ask(dp).(*kmsg.DescribeProducersResponse)
	if a, b := got.Topics[0].Partitions[0].ErrorCode, got.Topics[1].Partitions[0].ErrorCode; a != 17 || b != 3 {
		t.Errorf("producers: errors %d and %d", a, b)
	}

	dt := kmsg.NewPtrDescribeTopicPartitionsRequest()
	dt.Topics = []kmsg.DescribeTopicPartitionsRequestTopic{{Topic: "t"}, {Topic: "none"}}
	dt.Cursor = &kmsg.DescribeTopicPartitionsRequestCursor{Topic: "t", Partition: -1}
	topics := c.ask(dt).(*kmsg.DescribeTopicPartitionsResponse).Topics
	if len(topics) != 2 || *topics[0].Topic != "t" || topics[0].ErrorCode != 42 {
		t.Errorf("with a bad cursor: %+v", topics)
	}
	dt.Cursor = nil
	if topics = c.ask(dt).(*kmsg.DescribeTopicPartitionsResponse).Topics; topics[0].ErrorCode != 3 || topics[0].AuthorizedOperations != acl.Supported(acl.Topic) {
		t.Errorf("%+v", topics[0])
	}

	od := kmsg.NewPtrOffsetDeleteRequest()
	od.Group = "none"
	if got := c.ask(od).(*kmsg.OffsetDeleteResponse).ErrorCode; got != kerr.GroupIDNotFound.Code {
		t.Errorf("no offsets of no group: error %d", got)
	}
	for version, want := range map[int16]int16{8: kerr.IllegalGeneration.Code, 9: kerr.GroupIDNotFound.Code} {
		req := kmsg.NewPtrOffsetCommitRequest()
		req.Version, req.Group, req.MemberID, req.Generation = version, "none", "m", 1
		rt := kmsg.NewOffsetCommitRequestTopic()
		rt.Topic, rt.Partitions = "t", []kmsg.OffsetCommitRequestTopicPartition{kmsg.NewOffsetCommitRequestTopicPartition()}
		req.Topics = append(req.Topics, rt)
		if got := c.ask(req).(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode; got != want {
			t.Errorf("commit of version %d to no group: error %d, want %d", version, got, want)
		}
	}
}

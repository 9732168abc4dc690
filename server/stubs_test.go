package server

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/server/auth"
)

func TestUpdateFeatures(t *testing.T) {
	n := startNode(t, t.TempDir())
	c := dial(t, n.Addr())
	for _, tc := range []struct {
		version int16
		name    string
		level   int16
		how     int8
		ok      bool
	}{
		{0, "group.version", 1, 9, true}, // there was no such field
		{1, "group.version", 1, 1, true},
		{1, "group.version", 1, 2, true},
		{1, "group.version", 1, 0, false},
		{1, "group.version", 1, 4, false},
		{2, "group.version", 0, 2, false},
		{2, "group.version", 2, 1, false},
		{2, "group.version", -1, 3, false},
		{2, "metadata.version", 33, 1, true},
		{2, "metadata.version", 30, 2, false},
		{2, "metadata.version", 34, 1, false},
		{2, "transaction.version", 1, 3, false},
		{2, "share.version", 1, 1, false},
		{2, "", 0, 1, false},
	} {
		req := kmsg.NewPtrUpdateFeaturesRequest()
		req.Version = tc.version
		req.FeatureUpdates = append(req.FeatureUpdates, featureUpdate("transaction.version", 2, 1), featureUpdate(tc.name, tc.level, tc.how))
		resp := c.ask(req).(*kmsg.UpdateFeaturesResponse)
		want := kerr.InvalidUpdateVersion.Code
		if tc.ok {
			want = 0
		}
		if resp.ErrorCode != want || (resp.ErrorMessage == nil) != tc.ok || !tc.ok && len(resp.Results) > 0 {
			t.Errorf("%+v: %+v", tc, resp)
		}
	}
}

func TestDescribeQuorum(t *testing.T) {
	n := startNode(t, t.TempDir(), "node.id=4")
	c := dial(t, n.Addr())
	ask := func(topics ...kmsg.DescribeQuorumRequestTopic) *kmsg.DescribeQuorumResponse {
		req := kmsg.NewPtrDescribeQuorumRequest()
		req.Version, req.Topics = 2, topics
		return c.ask(req).(*kmsg.DescribeQuorumResponse)
	}
	before := ask(quorumTopic(metadataTopic, 0))
	p := before.Topics[0].Partitions[0]
	if p.LeaderID != 4 || p.LeaderEpoch < 1 || p.HighWatermark < 1 || p.CurrentVoters[0].ReplicaID != 4 || p.CurrentVoters[0].LogEndOffset != p.HighWatermark {
		t.Errorf("%+v", p)
	}
	if l := before.Nodes[0].Listeners[0]; before.Nodes[0].NodeID != 4 || l.Name != "PLAINTEXT" || l.Port == 0 {
		t.Errorf("%+v", before.Nodes)
	}
	c.create("t", 1)
	if after := ask(quorumTopic(metadataTopic, 0)).Topics[0].Partitions[0]; after.HighWatermark <= p.HighWatermark {
		t.Errorf("after a change the high watermark is %d, before it %d", after.HighWatermark, p.HighWatermark)
	}
	for _, topics := range [][]kmsg.DescribeQuorumRequestTopic{
		{quorumTopic("t", 0)}, {quorumTopic(metadataTopic, 1)}, {quorumTopic(metadataTopic, 0, 1)}, {quorumTopic(metadataTopic, 0), quorumTopic("t", 0)},
	} {
		resp := ask(topics...)
		if resp.ErrorCode != 0 || len(resp.Topics) != len(topics) {
			t.Errorf("%+v", resp)
		}
		for _, rt := range resp.Topics {
			for _, rp := range rt.Partitions {
				if rp.ErrorCode != kerr.UnknownTopicOrPartition.Code {
					t.Errorf("%s-%d: error %d", rt.Topic, rp.Partition, rp.ErrorCode)
				}
			}
		}
	}
	if resp := ask(); resp.ErrorCode != 0 || len(resp.Topics) != 0 {
		t.Errorf("of nothing: %+v", resp)
	}
}

func TestAlterReplicaLogDirs(t *testing.T) {
	dir := t.TempDir()
	n := startNode(t, dir)
	c := dial(t, n.Addr())
	c.create("t", 1)
	for _, tc := range []struct {
		dir, topic string
		index      int32
		want       int16
	}{
		{dir, "t", 0, 0},
		{dir + "/", "t", 0, 0},
		{dir, "t", 1, kerr.UnknownTopicOrPartition.Code},
		{dir, "t", -1, kerr.UnknownTopicOrPartition.Code},
		{dir, "u", 0, kerr.UnknownTopicOrPartition.Code},
		{"/elsewhere", "t", 0, kerr.LogDirNotFound.Code},
		{"", "u", 7, kerr.LogDirNotFound.Code},
	} {
		req := kmsg.NewPtrAlterReplicaLogDirsRequest()
		req.Version = 2
		d := kmsg.NewAlterReplicaLogDirsRequestDir()
		d.Dir, d.Topics = tc.dir, []kmsg.AlterReplicaLogDirsRequestDirTopic{{Topic: tc.topic, Partitions: []int32{tc.index}}}
		req.Dirs = append(req.Dirs, d)
		resp := c.ask(req).(*kmsg.AlterReplicaLogDirsResponse)
		if got := resp.Topics[0].Partitions[0].ErrorCode; got != tc.want || resp.Topics[0].Topic != tc.topic {
			t.Errorf("%+v: error %d", tc, got)
		}
	}
}

// As soon as a listener tells who is there, its clients hear that there are no tokens.
func TestTokensAreRefused(t *testing.T) {
	for _, tc := range []struct {
		protocol string
		who      auth.Principal
		want     error
	}{
		{plaintext, auth.Anonymous, kerr.DelegationTokenRequestNotAllowed},
		{overTLS, auth.Anonymous, kerr.DelegationTokenRequestNotAllowed},
		{overTLS, auth.User("CN=a"), kerr.DelegationTokenAuthDisabled},
		{"SASL_SSL", auth.User("a"), kerr.DelegationTokenAuthDisabled},
	} {
		r := &request{conn: &conn{listener: &Endpoint{Protocol: tc.protocol}}, principal: tc.who}
		if err := r.tokensRefused(); err != tc.want {
			t.Errorf("%+v: %v", tc, err)
		}
	}
}

package server

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/coordinator"
	"kaas.dev/kaas/projections"
)

var elsewhere = projections.BrokerRegistered{ID: 5, Epoch: 1, Rack: "r", Listeners: []projections.Listener{{Name: "PLAINTEXT", Host: "five", Port: 5}}}

// movedAway is a server on a cluster whose topic "t", of three partitions, is led by broker
// 5 in epoch 9, but for partition 2.
func movedAway(t *testing.T, n *Node, b another, more ...projections.Fact) (*client, projections.TopicID) {
	t.Helper()
	id := projections.TopicID(dial(t, n.Addr()).create("t", 3))
	facts := append([]projections.Fact{&elsewhere,
		&projections.PartitionLeaderChanged{TopicID: id, Partition: 0, Leader: 5, Epoch: 9},
		&projections.PartitionLeaderChanged{TopicID: id, Partition: 1, Leader: 5, Epoch: 9}}, more...)
	view := withFacts(t, n.broker.View(), facts...)
	b.Backend, b.view = broker{n.broker}, func() *projections.Cluster { return view }
	return dial(t, serveAlso(t, &b, n.server.clusterID)[0]), id
}

// Clients that come to the wrong broker are told the right one and where it is, so that
// they need not ask; of a leader that does not live they are told nothing.
func TestLeaderHints(t *testing.T) {
	for _, lives := range []bool{true, false} {
		var more []projections.Fact
		wantLeader, wantEpoch, wantBrokers := int32(5), int32(9), 1
		if !lives {
			more = append(more, &projections.BrokerFenced{ID: 5, Epoch: 1})
			wantLeader, wantEpoch, wantBrokers = -1, -1, 0
		}
		c, id := movedAway(t, startNode(t, t.TempDir()), another{partition: kerr.NotLeaderForPartition}, more...)
		produce := produceReq(-1, "t", newBatch(nil, "v"))
		produce.Topics[0].TopicID = id
		produce.Topics[0].Partitions = append(produce.Topics[0].Partitions, produce.Topics[0].Partitions[0])
		produce.Topics[0].Partitions[1].Partition = 1
		fetch := fetchReq("t", 0, 0)
		fetch.Topics[0].TopicID = id
		for _, v := range []int16{9, 10, 13} {
			produce.Version = v
			resp := c.ask(produce).(*kmsg.ProduceResponse)
			p := resp.Topics[0].Partitions[1]
			leader, epoch, brokers := wantLeader, wantEpoch, wantBrokers
			if v < 10 {
				leader, epoch, brokers = -1, -1, 0
			}
			if p.ErrorCode != 6 || p.CurrentLeader.LeaderID != leader || p.CurrentLeader.LeaderEpoch != epoch || len(resp.Brokers) != brokers {
				t.Errorf("living %v, produce v%d: %+v", lives, v, resp)
			}
			if brokers == 1 && (resp.Brokers[0].Host != "five" || resp.Brokers[0].Port != 5 || *resp.Brokers[0].Rack != "r") {
				t.Errorf("%+v", resp.Brokers)
			}
		}
		for _, v := range []int16{11, 12, 16, 18} {
			fetch.Version = v
			resp := c.ask(fetch).(*kmsg.FetchResponse)
			p := resp.Topics[0].Partitions[0]
			leader, epoch, brokers := wantLeader, wantEpoch, wantBrokers
			if v < 12 {
				leader, epoch = -1, -1
			}
			if v < 16 {
				brokers = 0
			}
			if p.ErrorCode != 6 || p.CurrentLeader.LeaderID != leader || p.CurrentLeader.LeaderEpoch != epoch || len(resp.Brokers) != brokers {
				t.Errorf("living %v, fetch v%d: %+v", lives, v, resp)
			}
		}
	}
}

func TestLeaderHintOfAnOldEpoch(t *testing.T) {
	n := startNode(t, t.TempDir())
	c := dial(t, n.Addr())
	c.create("t", 1)
	_, epoch := leaderOf(n.broker.View(), n.broker.View().Topic("t"), 0)
	fetch := fetchReq("t", 0, 0)
	fetch.Topics[0].TopicID, fetch.Version = n.broker.View().Topic("t").ID, 16
	for asked, want := range map[int32]int16{epoch - 1: kerr.FencedLeaderEpoch.Code, epoch + 1: kerr.UnknownLeaderEpoch.Code} {
		fetch.Topics[0].Partitions[0].CurrentLeaderEpoch = asked
		resp := c.ask(fetch).(*kmsg.FetchResponse)
		p := resp.Topics[0].Partitions[0]
		hinted := p.CurrentLeader.LeaderID == 0 && p.CurrentLeader.LeaderEpoch == epoch && len(resp.Brokers) == 1
		if p.ErrorCode != want || hinted != (want == kerr.FencedLeaderEpoch.Code) {
			t.Errorf("epoch %d of %d: %+v", asked, epoch, resp)
		}
	}
}

// A fenced broker leads nothing for clients, and is not there but for who asks for it.
func TestFencedBrokerIsNotShown(t *testing.T) {
	c, _ := movedAway(t, startNode(t, t.TempDir()), another{}, &projections.BrokerFenced{ID: 5, Epoch: 1})
	m := kmsg.NewPtrMetadataRequest()
	m.Version = 12
	resp := c.ask(m).(*kmsg.MetadataResponse)
	ps := resp.Topics[0].Partitions
	if p := ps[0]; len(resp.Brokers) != 1 || p.ErrorCode != kerr.LeaderNotAvailable.Code || p.Leader != -1 || !slices.Equal(p.OfflineReplicas, []int32{5}) || len(p.ISR) != 0 {
		t.Errorf("%+v", resp)
	}
	if p := ps[2]; p.ErrorCode != 0 || p.Leader != 0 {
		t.Errorf("%+v", p)
	}
	d := kmsg.NewPtrDescribeClusterRequest()
	for _, fenced := range []bool{false, true} {
		d.Version, d.IncludeFencedBrokers = 2, fenced
		bs := c.ask(d).(*kmsg.DescribeClusterResponse).Brokers
		if len(bs) != 1 && !fenced || fenced && (len(bs) != 2 || bs[0].IsFenced || !bs[1].IsFenced) {
			t.Errorf("fenced %v: %+v", fenced, bs)
		}
	}
}

func TestReassignments(t *testing.T) {
	var got []coordinator.LeaderMove
	move := func(ms []coordinator.LeaderMove) []error {
		got = append(got, ms...)
		return make([]error, len(ms))
	}
	c, id := movedAway(t, startNode(t, t.TempDir()), another{move: move}, &projections.BrokerRegistered{ID: 6, Epoch: 1}, &projections.BrokerFenced{ID: 6, Epoch: 1})
	for _, tc := range []struct {
		topic    string
		index    int32
		replicas []int32
		change   bool // of the number of replicas is allowed
		want     *kerr.Error
		to       int32 // -1: nothing moves
	}{
		{"t", 0, []int32{0}, true, nil, 0},
		{"t", 0, []int32{0, 5}, true, nil, 0},
		{"t", 0, []int32{0, 5}, false, kerr.InvalidReplicationFactor, -1},
		{"t", 2, []int32{5}, false, nil, 5},
		{"t", 2, []int32{0}, true, nil, -1},
		{"t", 2, nil, true, kerr.NoReassignmentInProgress, -1},
		{"t", 2, []int32{}, true, kerr.InvalidReplicaAssignment, -1},
		{"t", 2, []int32{5, 5}, true, kerr.InvalidReplicaAssignment, -1},
		{"t", 2, []int32{77}, true, kerr.InvalidReplicaAssignment, -1},
		{"t", 2, []int32{6}, true, kerr.InvalidReplicaAssignment, -1},
		{"t", 3, []int32{5}, true, kerr.UnknownTopicOrPartition, -1},
		{"t", -1, nil, true, kerr.UnknownTopicOrPartition, -1},
		{"u", 0, []int32{5}, true, kerr.UnknownTopicOrPartition, -1},
	} {
		got = nil
		req := kmsg.NewPtrAlterPartitionAssignmentsRequest()
		req.Version, req.TimeoutMillis, req.AllowReplicationFactorChange = 1, 10_000, tc.change
		req.Topics = []kmsg.AlterPartitionAssignmentsRequestTopic{{Topic: tc.topic, Partitions: []kmsg.AlterPartitionAssignmentsRequestTopicPartition{{Partition: tc.index, Replicas: tc.replicas}}}}
		resp := c.ask(req).(*kmsg.AlterPartitionAssignmentsResponse)
		want := int16(0)
		if tc.want != nil {
			want = tc.want.Code
		}
		if p := resp.Topics[0].Partitions[0]; p.ErrorCode != want || resp.ErrorCode != 0 || p.Partition != tc.index {
			t.Errorf("%+v: %+v", tc, resp)
		}
		moved := len(got) == 1 && got[0].TopicID == id && got[0].Partition == tc.index && got[0].To == tc.to
		if moved != (tc.to >= 0) || len(got) > 1 {
			t.Errorf("%+v: moved %+v", tc, got)
		}
	}
}

// Admin clients move leaders, watch the moves, and elect.
func TestKadmLeaders(t *testing.T) {
	n := startNode(t, t.TempDir())
	b := another{move: func(ms []coordinator.LeaderMove) []error { return make([]error, len(ms)) }}
	raw, id := movedAway(t, n, b)
	var view atomic.Pointer[projections.Cluster]
	view.Store(n.broker.View())
	b.moving = []coordinator.LeaderMove{{TopicID: id, Partition: 1, From: 5, To: 0}, {TopicID: id, Partition: 2, From: 0, To: 5}, {TopicID: projections.NewTopicID(), From: 0, To: 5}}
	b.Backend, b.view = broker{n.broker}, view.Load
	addr := serveAlso(t, &b, n.server.clusterID)[0]
	view.Store(withFacts(t, n.broker.View(), listening(addr), &projections.PartitionLeaderChanged{TopicID: id, Partition: 1, Leader: projections.NoLeader, Epoch: 9}))
	adm := kadm.NewClient(kgoClient(t, addr))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()

	var assign kadm.AlterPartitionAssignmentsReq
	assign.Assign("t", 0, []int32{0})
	assign.CancelAssign("t", 1)
	alt, err := adm.AlterPartitionAssignments(ctx, assign)
	if err != nil || alt["t"][0].Err != nil || alt["t"][1].Err != kerr.NoReassignmentInProgress { //nolint:errorlint
		t.Error(alt, err)
	}
	for _, tc := range []struct {
		set  kadm.TopicsSet
		want int
	}{{kadm.TopicsSet{"t": {0: {}, 1: {}, 2: {}}}, 2}, {kadm.TopicsSet{"t": {2: {}}}, 1}, {kadm.TopicsSet{"u": {2: {}}}, 0}} {
		list, err := adm.ListPartitionReassignments(ctx, tc.set)
		if err != nil || len(list["t"]) != tc.want {
			t.Error(list, err)
		}
		if m, ok := list["t"][2]; ok && (!slices.Equal(m.Replicas, []int32{5, 0}) || !slices.Equal(m.AddingReplicas, []int32{5}) || !slices.Equal(m.RemovingReplicas, []int32{0})) {
			t.Errorf("%+v", m)
		}
	}
	all, err := adm.ElectLeaders(ctx, kadm.ElectPreferredReplica, nil)
	if err != nil || len(all["t"]) != 1 || all["t"][1].Err != nil {
		t.Error(all, err)
	}
	some, err := adm.ElectLeaders(ctx, kadm.ElectLiveReplica, kadm.TopicsSet{"t": {0: {}, 1: {}, 9: {}}})
	if err != nil || some["t"][0].Err != kerr.ElectionNotNeeded || some["t"][1].Err != nil || some["t"][9].Err != kerr.UnknownTopicOrPartition { //nolint:errorlint
		t.Error(some, err)
	}

	every := kmsg.NewPtrListPartitionReassignmentsRequest()
	every.TimeoutMillis = 1000
	if resp := dial(t, addr).ask(every).(*kmsg.ListPartitionReassignmentsResponse); len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 2 {
		t.Errorf("%+v", resp)
	}
	elect := kmsg.NewPtrElectLeadersRequest()
	elect.Version, elect.ElectionType, elect.TimeoutMillis = 2, 7, 1000
	if resp := raw.ask(elect).(*kmsg.ElectLeadersResponse); resp.ErrorCode != kerr.InvalidRequest.Code {
		t.Errorf("%+v", resp)
	}
}

// Nobody who lives is nobody to elect.
func TestElectionWithoutBrokers(t *testing.T) {
	c, _ := movedAway(t, startNode(t, t.TempDir()), another{}, &projections.BrokerFenced{ID: 5, Epoch: 1}, &projections.BrokerFenced{ID: 0, Epoch: 1})
	for kind, want := range []int16{kerr.PreferredLeaderNotAvailable.Code, kerr.EligibleLeadersNotAvailable.Code} {
		req := kmsg.NewPtrElectLeadersRequest()
		req.Version, req.ElectionType, req.TimeoutMillis = 2, int8(kind), 1000
		resp := c.ask(req).(*kmsg.ElectLeadersResponse)
		if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 3 || resp.Topics[0].Partitions[2].ErrorCode != want {
			t.Errorf("%+v", resp)
		}
	}
}

// Pages join into the whole, whatever their size, also where a topic of the cursor is gone.
func TestDescribeTopicPartitionsInPages(t *testing.T) {
	n := startNode(t, t.TempDir())
	c := dial(t, n.Addr())
	for _, name := range []string{"b", "a", "d"} {
		c.create(name, 3)
	}
	type place struct {
		topic string
		index int32
	}
	req := kmsg.NewPtrDescribeTopicPartitionsRequest()
	for limit := int32(-1); limit <= 10; limit++ {
		var got []place
		req.Cursor, req.ResponsePartitionLimit = nil, limit
		for pages := 0; ; pages++ {
			resp := c.ask(req).(*kmsg.DescribeTopicPartitionsResponse)
			for _, rt := range resp.Topics {
				for _, p := range rt.Partitions {
					if p.LeaderID != 0 || p.ErrorCode != 0 || !slices.Equal(p.Replicas, []int32{0}) || !slices.Equal(p.ISR, []int32{0}) || p.EligibleLeaderReplicas == nil || p.LastKnownELR == nil {
						t.Fatalf("%+v", p)
					}
					got = append(got, place{*rt.Topic, p.Partition})
				}
			}
			if resp.NextCursor == nil {
				break
			}
			if pages > 9 {
				t.Fatalf("limit %d: no end", limit)
			}
			req.Cursor = &kmsg.DescribeTopicPartitionsRequestCursor{Topic: resp.NextCursor.Topic, Partition: resp.NextCursor.Partition}
		}
		want := []place{{"a", 0}, {"a", 1}, {"a", 2}, {"b", 0}, {"b", 1}, {"b", 2}, {"d", 0}, {"d", 1}, {"d", 2}}
		if !slices.Equal(got, want) {
			t.Errorf("limit %d: %v", limit, got)
		}
	}
	req.Cursor = &kmsg.DescribeTopicPartitionsRequestCursor{Topic: "c", Partition: 2}
	if resp := c.ask(req).(*kmsg.DescribeTopicPartitionsResponse); len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 3 {
		t.Errorf("from a topic that is gone: %+v", resp)
	}
	for _, name := range []string{"zz", "a", "bad/name", "a"} {
		req.Topics = append(req.Topics, kmsg.DescribeTopicPartitionsRequestTopic{Topic: name})
	}
	for _, tc := range []struct {
		cursor *kmsg.DescribeTopicPartitionsRequestCursor
		want   []int16 // by name: a, bad/name, zz; errors of the whole as asked
	}{
		{nil, []int16{0, 17, 3}},
		{&kmsg.DescribeTopicPartitionsRequestCursor{Topic: "b"}, []int16{42, 42, 42, 42}},
		{&kmsg.DescribeTopicPartitionsRequestCursor{Topic: "a", Partition: -1}, []int16{42, 42, 42, 42}},
	} {
		req.Cursor = tc.cursor
		var codes []int16
		for _, rt := range c.ask(req).(*kmsg.DescribeTopicPartitionsResponse).Topics {
			codes = append(codes, rt.ErrorCode)
		}
		if !slices.Equal(codes, tc.want) {
			t.Errorf("%+v: %v", tc.cursor, codes)
		}
	}
}

// Sizes are what the files have, of partitions that are led here, and the volume's are
// those of its file system.
func TestLogDirs(t *testing.T) {
	dir := t.TempDir()
	n := startNode(t, dir)
	c := dial(t, n.Addr())
	id := projections.TopicID(c.create("t", 3))
	c.create("u", 1)
	for i := range 20 {
		c.produceTo("t", int32(i%2), string(make([]byte, 1000*i)))
	}
	adm := kadm.NewClient(kgoClient(t, n.Addr()))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	all, err := adm.DescribeAllLogDirs(ctx, nil)
	if err != nil || all[0].Error() != nil {
		t.Fatal(err, all[0].Error())
	}
	got := all[0][n.cfg.LogDir]
	if len(got.Topics["t"]) != 3 || len(got.Topics["u"]) != 1 {
		t.Errorf("%+v", got)
	}
	for i, p := range got.Topics["t"] {
		size := int64(0)
		_ = filepath.WalkDir(filepath.Join(dir, "topics", id.String(), string('0'+i)), func(path string, d fs.DirEntry, err error) error {
			if err == nil && filepath.Ext(path) == ".log" {
				fi, err := os.Stat(path)
				if err != nil {
					return err
				}
				size += fi.Size()
			}
			return err
		})
		if p.Size != size || i < 2 && size < 50_000 || p.OffsetLag != 0 || p.IsFuture {
			t.Errorf("partition %d: %+v, its files have %d", i, p, size)
		}
	}
	set := kadm.TopicsSet{"t": {1: {}}}
	some, err := adm.DescribeAllLogDirs(ctx, set)
	if err != nil || len(some[0][n.cfg.LogDir].Topics) != 1 || len(some[0][n.cfg.LogDir].Topics["t"]) != 1 {
		t.Error(some, err)
	}
	req := kmsg.NewPtrDescribeLogDirsRequest()
	req.Version = 4
	req.Topics = []kmsg.DescribeLogDirsRequestTopic{{Topic: "none", Partitions: []int32{0}}, {Topic: "t", Partitions: []int32{7}}}
	d := c.ask(req).(*kmsg.DescribeLogDirsResponse).Dirs[0]
	if len(d.Topics) != 0 || d.UsableBytes < 1<<20 || d.TotalBytes <= d.UsableBytes {
		t.Errorf("%+v", d)
	}
}

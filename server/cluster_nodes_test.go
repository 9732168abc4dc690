package server

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// threeNodes are brokers 1 to 3 on one directory, of which the first is the controller,
// and for each an admin client that was told of that one alone.
func threeNodes(t *testing.T, sets ...string) (nodes []*Node, adms []*kadm.Client) {
	t.Helper()
	dir := t.TempDir()
	sets = append([]string{"broker.heartbeat.interval.ms=200"}, sets...)
	for id := 1; id <= 3; id++ {
		nodes = append(nodes, startNode(t, dir, append(sets, "node.id="+strconv.Itoa(id))...))
	}
	for _, n := range nodes {
		awaitCluster(t, n, "three brokers serve", func() bool { return alive(n) == 3 && n.broker.Ready() })
		adms = append(adms, kadm.NewClient(kgoClient(t, n.Addr())))
	}
	if !nodes[0].broker.IsController() {
		t.Fatal("the first broker is not the controller")
	}
	return nodes, adms
}

func alive(n *Node) (living int) {
	for _, b := range n.broker.View().Brokers() {
		if !b.Fenced {
			living++
		}
	}
	return living
}

func awaitCluster(t *testing.T, n *Node, what string, ok func() bool) {
	t.Helper()
	late := time.After(patience)
	for !ok() {
		select {
		case <-time.After(2 * time.Millisecond):
		case <-late:
			t.Fatalf("not within %v: %s; broker %d sees %+v, not ready: %v", patience, what, n.cfg.NodeID, n.broker.View().Brokers(), n.broker.NotReady())
		}
	}
}

// Whichever broker is asked for a change, it is made, and that broker shows it at once.
// An admin client would ask the controller, so these requests are sent as they are.
func TestChangesThroughEveryBroker(t *testing.T) {
	nodes, _ := threeNodes(t)
	for i, n := range nodes {
		c, topic := dial(t, n.Addr()), fmt.Sprintf("made-by-%d", i+1)
		shown := func() int { return len(c.partitions(topic)) }
		c.create(topic, 3)
		if got := shown(); got != 3 {
			t.Errorf("%s has %d partitions where it was made with 3", topic, got)
		}
		if code := c.grow(topic, 5, false); code != 0 || shown() != 5 {
			t.Errorf("%s has %d partitions where 5 were asked for: error %d", topic, shown(), code)
		}
		value := "12345" + strconv.Itoa(i)
		alter := kmsg.NewPtrIncrementalAlterConfigsRequest()
		alter.Version = 1
		alter.Resources = []kmsg.IncrementalAlterConfigsRequestResource{{ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: topic,
			Configs: []kmsg.IncrementalAlterConfigsRequestResourceConfig{{Name: "retention.ms", Value: &value}}}}
		if code := c.ask(alter).(*kmsg.IncrementalAlterConfigsResponse).Resources[0].ErrorCode; code != 0 {
			t.Errorf("alter %s: error %d", topic, code)
		}
		describe := kmsg.NewPtrDescribeConfigsRequest()
		describe.Version = 4
		describe.Resources = []kmsg.DescribeConfigsRequestResource{{ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: topic, ConfigNames: []string{"retention.ms"}}}
		if r := c.ask(describe).(*kmsg.DescribeConfigsResponse).Resources[0]; len(r.Configs) != 1 || *r.Configs[0].Value != value {
			t.Errorf("%s where its retention was set to %s: %+v", topic, value, r)
		}
		remove := kmsg.NewPtrDeleteTopicsRequest()
		remove.Version, remove.TimeoutMillis = 6, 20_000
		remove.Topics = []kmsg.DeleteTopicsRequestTopic{{Topic: &topic}}
		if code := c.ask(remove).(*kmsg.DeleteTopicsResponse).Topics[0].ErrorCode; code != 0 || shown() != 0 {
			t.Errorf("%s has %d partitions where it was deleted: error %d", topic, shown(), code)
		}
	}
}

// reassign has a broker move the leader of t/0.
func (c *client) reassign(to int32) {
	c.t.Helper()
	req := kmsg.NewPtrAlterPartitionAssignmentsRequest()
	req.Version, req.TimeoutMillis = 1, 20_000
	req.Topics = []kmsg.AlterPartitionAssignmentsRequestTopic{{Topic: "t", Partitions: []kmsg.AlterPartitionAssignmentsRequestTopicPartition{{Replicas: []int32{to}}}}}
	resp := c.ask(req).(*kmsg.AlterPartitionAssignmentsResponse)
	if code := resp.Topics[0].Partitions[0].ErrorCode; code != 0 || resp.ErrorCode != 0 {
		c.t.Errorf("reassign to %d: %+v", to, resp)
	}
}

// Every broker tells the same of the cluster, and each of its own files.
func TestEveryBrokerDescribesTheCluster(t *testing.T) {
	nodes, adms := threeNodes(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if _, err := adms[2].CreateTopic(ctx, 9, 1, nil, "t"); err != nil {
		t.Fatal(err)
	}
	for i, adm := range adms {
		awaitCluster(t, nodes[i], "the topic", func() bool { return nodes[i].broker.View().Topic("t") != nil && nodes[i].broker.Ready() })
		m, err := adm.BrokerMetadata(ctx)
		if err != nil || len(m.Brokers) != 3 || m.Controller != 1 || m.Cluster != nodes[0].server.clusterID {
			t.Errorf("broker %d: %+v %v", i+1, m, err)
		}
		dirs, err := adm.DescribeAllLogDirs(ctx, nil)
		if err != nil {
			t.Fatalf("broker %d: %v", i+1, err)
		}
		seen := map[int32]int32{}
		for _, of := range dirs {
			of.EachPartition(func(p kadm.DescribedLogDirPartition) { seen[p.Partition] = p.Broker })
		}
		for p, part := range nodes[0].broker.View().Topic("t").Partitions {
			if by, ok := seen[int32(p)]; !ok || by != part.Leader {
				t.Errorf("broker %d: partition %d is on %d by the log dirs, and led by %d", i+1, p, by, part.Leader)
			}
		}
		if n := counted(seen); n[1] != 3 || n[2] != 3 || n[3] != 3 {
			t.Errorf("leaders are not spread: %v", n)
		}
		if all, err := adm.ElectLeaders(ctx, kadm.ElectPreferredReplica, nil); err != nil || len(all["t"]) != 0 {
			t.Errorf("broker %d: nothing is to be elected: %v %v", i+1, all, err)
		}
	}
}

func counted(m map[int32]int32) map[int32]int {
	n := map[int32]int{}
	for _, v := range m {
		n[v]++
	}
	return n
}

// A leader is moved by any broker, serves what was written before, and stays.
func TestReassignedThroughEveryBroker(t *testing.T) {
	nodes, adms := threeNodes(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if _, err := adms[1].CreateTopic(ctx, 1, 1, nil, "t"); err != nil {
		t.Fatal(err)
	}
	cl := kgoClient(t, nodes[0].Addr(), kgo.DefaultProduceTopic("t"), kgo.MetadataMinAge(10*time.Millisecond))
	put := func(v string) {
		t.Helper()
		if err := cl.ProduceSync(ctx, kgo.StringRecord(v)).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	put("0")
	leader := func(n *Node) int32 { return n.broker.View().Topic("t").Partitions[0].Leader }
	for i, n := range nodes {
		to := leader(n)%3 + 1
		dial(t, n.Addr()).reassign(to)
		serves := nodes[to-1]
		awaitCluster(t, serves, "it is served there", func() bool { return leader(serves) == to && serves.broker.Ready() })
		put(strconv.Itoa(i + 1))
		for j, n := range nodes {
			awaitCluster(t, n, "everybody sees it", func() bool { return leader(n) == to })
			if list, err := adms[j].ListPartitionReassignments(ctx, nil); err != nil || len(list) != 0 {
				t.Errorf("broker %d: still moving: %v %v", j+1, list, err)
			}
		}
		time.Sleep(300 * time.Millisecond) // several looks of the controller
		if now := leader(nodes[0]); now != to {
			t.Errorf("moved to %d, and has gone on to %d", to, now)
		}
	}
	if got := consumeAll(t, nodes[2].Addr(), "t", 4); string(slices.Concat(got...)) != "0123" {
		t.Errorf("%q", got)
	}
}

// For each partition exactly one broker takes a record: the one that Metadata names (Z-04).
// The others name it, with its address, and a client that is told so goes there.
func TestOneBrokerTakesARecord(t *testing.T) {
	nodes, adms := threeNodes(t)
	if _, err := adms[0].CreateTopic(t.Context(), 6, 1, nil, "t"); err != nil {
		t.Fatal(err)
	}
	for _, n := range nodes {
		awaitCluster(t, n, "the topic", func() bool { return n.broker.View().Topic("t") != nil && n.broker.Ready() })
	}
	topic := nodes[0].broker.View().Topic("t")
	for p, part := range topic.Partitions {
		for i, n := range nodes {
			req := produceReq(-1, "t", newBatch(nil, "v"))
			req.Version, req.Topics[0].TopicID, req.Topics[0].Partitions[0].Partition = 13, topic.ID, int32(p)
			resp := dial(t, n.Addr()).ask(req).(*kmsg.ProduceResponse)
			got := resp.Topics[0].Partitions[0]
			if int32(i+1) == part.Leader {
				if got.ErrorCode != 0 || len(resp.Brokers) != 0 {
					t.Errorf("partition %d, its leader %d: %+v", p, i+1, resp)
				}
				continue
			}
			if got.ErrorCode != kerr.NotLeaderForPartition.Code || got.CurrentLeader.LeaderID != part.Leader || got.CurrentLeader.LeaderEpoch != part.Epoch ||
				len(resp.Brokers) != 1 || fmt.Sprintf("%s:%d", resp.Brokers[0].Host, resp.Brokers[0].Port) != nodes[part.Leader-1].Addr() {
				t.Errorf("partition %d, broker %d: %+v, not a hint at %d in epoch %d", p, i+1, resp, part.Leader, part.Epoch)
			}
		}
	}
}

// A client whose metadata is old and not to be refreshed for long follows the hint.
func TestClientFollowsTheHint(t *testing.T) {
	nodes, adms := threeNodes(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if _, err := adms[0].CreateTopic(ctx, 1, 1, nil, "t"); err != nil {
		t.Fatal(err)
	}
	for _, n := range nodes {
		awaitCluster(t, n, "the topic is served", func() bool { return n.broker.View().Topic("t") != nil && n.broker.Ready() })
	}
	cl := kgoClient(t, nodes[0].Addr(), kgo.DefaultProduceTopic("t"), kgo.MetadataMinAge(10*time.Minute), kgo.MetadataMaxAge(time.Hour))
	if err := cl.ProduceSync(ctx, kgo.StringRecord("before")).FirstErr(); err != nil {
		t.Fatal(err)
	}
	to := nodes[0].broker.View().Topic("t").Partitions[0].Leader%3 + 1
	dial(t, nodes[0].Addr()).reassign(to)
	for _, n := range nodes {
		awaitCluster(t, n, "it is led there", func() bool { return n.broker.View().Topic("t").Partitions[0].Leader == to && n.broker.Ready() })
	}
	if err := cl.ProduceSync(ctx, kgo.StringRecord("after")).FirstErr(); err != nil {
		t.Fatalf("a client that has to follow the hint: %v", err)
	}
}

// The first use of a name makes the topic, whichever broker is asked, once.
func TestAutoCreationThroughEveryBroker(t *testing.T) {
	nodes, _ := threeNodes(t, "num.partitions=2")
	errs := make(chan error, 6)
	for i := range 6 {
		go func() { // every topic by two brokers at a time
			cl := kgoClient(t, nodes[i%3].Addr(), kgo.DefaultProduceTopic(fmt.Sprintf("auto-%d", i/2)))
			errs <- cl.ProduceSync(t.Context(), kgo.StringRecord("v")).FirstErr()
		}()
	}
	for range 6 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	for _, topic := range nodes[0].broker.View().Topics() {
		if !strings.HasPrefix(topic.Name, "auto-") || len(topic.Partitions) != 2 {
			t.Errorf("%+v", topic)
		}
	}
	if n := len(nodes[0].broker.View().Topics()); n != 3 {
		t.Errorf("%d topics", n)
	}
}

// A broker that serves cannot be forgotten; one that has stopped can, through any other.
func TestUnregisteredThroughEveryBroker(t *testing.T) {
	nodes, _ := threeNodes(t)
	ask := func(n *Node, id int32) *kerr.Error {
		req := kmsg.NewPtrUnregisterBrokerRequest()
		req.BrokerID = id
		err := kerr.ErrorForCode(dial(t, n.Addr()).ask(req).(*kmsg.UnregisterBrokerResponse).ErrorCode)
		k, _ := err.(*kerr.Error) //nolint:errorlint // it is one or nil
		return k
	}
	if err := ask(nodes[1], 3); err != kerr.InvalidRequest { //nolint:errorlint
		t.Errorf("a broker that serves: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := nodes[2].Retire(ctx); err != nil {
		t.Fatal(err)
	}
	if err := nodes[2].Stop(ctx); err != nil {
		t.Fatal(err)
	}
	awaitCluster(t, nodes[1], "it is fenced", func() bool { return alive(nodes[1]) == 2 })
	if err := ask(nodes[1], 3); err != nil {
		t.Errorf("a broker that has stopped: %v", err)
	}
	if _, there := nodes[1].broker.View().Broker(3); there {
		t.Error("the broker that was asked still shows it")
	}
	if err := ask(nodes[0], 3); err != kerr.BrokerIDNotRegistered { //nolint:errorlint
		t.Errorf("once more: %v", err)
	}
}

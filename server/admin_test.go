package server

import (
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/server/acl"
)

func metadataReq(version int16, auto bool, topics ...string) *kmsg.MetadataRequest {
	req := kmsg.NewPtrMetadataRequest()
	req.Version, req.AllowAutoTopicCreation = version, auto
	req.Topics = []kmsg.MetadataRequestTopic{}
	for _, name := range topics {
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = &name
		req.Topics = append(req.Topics, t)
	}
	return req
}

func TestAutoCreate(t *testing.T) {
	n := startNode(t, t.TempDir(), "num.partitions=3")
	c := dial(t, n.Addr())
	ask := func(req *kmsg.MetadataRequest) kmsg.MetadataResponseTopic {
		t.Helper()
		return c.ask(req).(*kmsg.MetadataResponse).Topics[0]
	}
	if got := ask(metadataReq(12, false, "a")); got.ErrorCode != 3 {
		t.Errorf("not allowed by the client: error %d", got.ErrorCode)
	}
	got := ask(metadataReq(12, true, "a"))
	if got.ErrorCode != 0 || len(got.Partitions) != 3 || got.TopicID == [16]byte{} {
		t.Fatalf("created: %+v", got)
	}
	if code, _ := c.produce("a", newBatch(nil, "v")); code != 0 {
		t.Errorf("produce at once: error %d", code)
	}
	if again := ask(metadataReq(12, true, "a")); again.TopicID != got.TopicID {
		t.Errorf("topic ID %x, then %x", got.TopicID, again.TopicID)
	}
	if got := ask(metadataReq(1, false, "old")); got.ErrorCode != 0 || len(got.Partitions) != 3 {
		t.Errorf("version 1 always creates: %+v", got)
	}
	if got := ask(metadataReq(12, true, "a")).Partitions[2]; got.Leader != 0 || got.LeaderEpoch < 1 || len(got.Replicas) != 1 || len(got.ISR) != 1 {
		t.Errorf("partition %+v", got)
	}

	off := startNode(t, t.TempDir(), "auto.create.topics.enable=false")
	if got := dial(t, off.Addr()).ask(metadataReq(12, true, "a")).(*kmsg.MetadataResponse).Topics[0]; got.ErrorCode != 3 {
		t.Errorf("not allowed by the broker: error %d", got.ErrorCode)
	}
}

func TestMetadataLists(t *testing.T) {
	n := startNode(t, t.TempDir(), "node.id=4", "broker.rack=r1", "cluster.id=mine")
	c := dial(t, n.Addr())
	id := c.create("b", 1)
	c.create("a", 2)
	ask := func(req *kmsg.MetadataRequest) *kmsg.MetadataResponse {
		t.Helper()
		return c.ask(req).(*kmsg.MetadataResponse)
	}
	all := metadataReq(9, false)
	all.Topics = nil
	if got := ask(all); len(got.Topics) != 2 || *got.Topics[0].Topic != "a" || *got.ClusterID != "mine" || got.ControllerID != 4 ||
		len(got.Brokers) != 1 || got.Brokers[0].NodeID != 4 || *got.Brokers[0].Rack != "r1" || got.Brokers[0].Host != "127.0.0.1" {
		t.Errorf("all: %+v", got)
	}
	if got := ask(metadataReq(0, false)); len(got.Topics) != 2 {
		t.Errorf("version 0, empty list: %d topics", len(got.Topics))
	}
	if got := ask(metadataReq(1, false)); len(got.Topics) != 0 {
		t.Errorf("version 1, empty list: %d topics", len(got.Topics))
	}
	if got := ask(metadataReq(9, false, "b", "b")); len(got.Topics) != 1 {
		t.Errorf("named twice: %d topics", len(got.Topics))
	}
	byID := metadataReq(13, true)
	for _, want := range [][16]byte{id, {1}} {
		rt := kmsg.NewMetadataRequestTopic()
		rt.TopicID = want
		byID.Topics = append(byID.Topics, rt)
	}
	if got := ask(byID); *got.Topics[0].Topic != "b" || got.Topics[1].ErrorCode != kerr.UnknownTopicID.Code || got.Topics[1].Topic != nil || got.Topics[1].TopicID != [16]byte{1} {
		t.Errorf("by ID: %+v", got.Topics)
	}
	ops := metadataReq(8, false, "a")
	ops.IncludeClusterAuthorizedOperations, ops.IncludeTopicAuthorizedOperations = true, true
	if got := ask(ops); got.AuthorizedOperations != acl.Supported(acl.Cluster) || got.Topics[0].AuthorizedOperations != acl.Supported(acl.Topic) {
		t.Errorf("operations %b, %b", got.AuthorizedOperations, got.Topics[0].AuthorizedOperations)
	}
}

// With a bind to all addresses, clients are told the one that they used.
func TestMetadataAdvertises(t *testing.T) {
	for _, tc := range []struct {
		sets []string
		host string
		port int32 // 0: the bound one
	}{
		{[]string{"listeners=PLAINTEXT://:0"}, "127.0.0.1", 0},
		{[]string{"listeners=PLAINTEXT://localhost:0"}, "localhost", 0},
		{[]string{"listeners=PLAINTEXT://:0", "advertised.listeners=PLAINTEXT://kaas.example:19092"}, "kaas.example", 19092},
	} {
		n := startNode(t, t.TempDir(), tc.sets...)
		port := int32(n.lns[0].Addr().(*net.TCPAddr).Port)
		want := tc.port
		if want == 0 {
			want = port
		}
		c := dial(t, net.JoinHostPort("127.0.0.1", strconv.Itoa(int(port))))
		got := c.ask(kmsg.NewPtrMetadataRequest()).(*kmsg.MetadataResponse).Brokers[0]
		find := kmsg.NewPtrFindCoordinatorRequest()
		find.CoordinatorKey = "g"
		coord := c.ask(find).(*kmsg.FindCoordinatorResponse)
		if got.Host != tc.host || got.Port != want || coord.Host != tc.host || coord.Port != want {
			t.Errorf("%v: told %s:%d, coordinator %s:%d", tc.sets, got.Host, got.Port, coord.Host, coord.Port)
		}
	}
}

func TestCreateTopics(t *testing.T) {
	n := startNode(t, t.TempDir(), "num.partitions=2", "log.segment.bytes=2097152")
	c := dial(t, n.Addr())
	c.create("exists", 1)
	c.create("a.b", 1)
	ask := func(only bool, topics ...kmsg.CreateTopicsRequestTopic) []kmsg.CreateTopicsResponseTopic {
		t.Helper()
		req := kmsg.NewPtrCreateTopicsRequest()
		req.Version, req.TimeoutMillis, req.ValidateOnly, req.Topics = 7, 10_000, only, topics
		return c.ask(req).(*kmsg.CreateTopicsResponse).Topics
	}
	topic := func(name string, partitions int32, replicas int16, assign ...[]int32) kmsg.CreateTopicsRequestTopic {
		rt := kmsg.NewCreateTopicsRequestTopic()
		rt.Topic, rt.NumPartitions, rt.ReplicationFactor = name, partitions, replicas
		for _, a := range assign {
			ra := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
			ra.Partition, ra.Replicas = a[0], a[1:]
			rt.ReplicaAssignment = append(rt.ReplicaAssignment, ra)
		}
		return rt
	}
	config := func(rt kmsg.CreateTopicsRequestTopic, name string, value *string) kmsg.CreateTopicsRequestTopic {
		rc := kmsg.NewCreateTopicsRequestTopicConfig()
		rc.Name, rc.Value = name, value
		rt.Configs = append(rt.Configs, rc)
		return rt
	}
	str := kmsg.StringPtr
	for what, tc := range map[string]struct {
		topic      kmsg.CreateTopicsRequestTopic
		code       int16
		partitions int32
	}{
		"defaults":              {topic("t1", -1, -1), 0, 2},
		"replicas 3":            {topic("t2", 1, 3), 0, 1},
		"assignment":            {topic("t3", -1, -1, []int32{1, 0}, []int32{0, 0}), 0, 2},
		"config":                {config(topic("t4", 1, 1), "retention.ms", str("1000")), 0, 1},
		"exists":                {topic("exists", 1, 1), 36, 0},
		"collides":              {topic("a_b", 1, 1), 17, 0},
		"name":                  {topic("a/b", 1, 1), 17, 0},
		"partitions 0":          {topic("x", 0, 1), 37, 0},
		"partitions -2":         {topic("x", -2, 1), 37, 0},
		"partitions 2^31-1":     {topic("x", 1<<31-1, 1), 44, 0},
		"replicas 0":            {topic("x", 1, 0), 38, 0},
		"replicas -2":           {topic("x", 1, -2), 38, 0},
		"assignment and counts": {topic("x", 1, 1, []int32{0, 0}), 42, 0},
		"assignment gap":        {topic("x", -1, -1, []int32{1, 0}), 39, 0},
		"assignment twice":      {topic("x", -1, -1, []int32{0, 0}, []int32{0, 0}), 39, 0},
		"assignment negative":   {topic("x", -1, -1, []int32{-1, 0}), 39, 0},
		"assignment stranger":   {topic("x", -1, -1, []int32{0, 7}), 39, 0},
		"assignment nobody":     {topic("x", -1, -1, []int32{0}), 39, 0},
		"assignment broker 2x":  {topic("x", -1, -1, []int32{0, 0, 0}), 39, 0},
		"config name":           {config(topic("x", 1, 1), "no.such", str("1")), 40, 0},
		"config value":          {config(topic("x", 1, 1), "retention.ms", str("soon")), 40, 0},
		"config null":           {config(topic("x", 1, 1), "retention.ms", nil), 40, 0},
		"config twice":          {config(config(topic("t5", 1, 1), "retention.ms", str("1")), "retention.ms", str("2")), 0, 1},
	} {
		only := ask(true, tc.topic)[0]
		got := ask(false, tc.topic)[0]
		if only.ErrorCode != tc.code || got.ErrorCode != tc.code {
			t.Errorf("%s: validated with error %d, created with %d, want %d", what, only.ErrorCode, got.ErrorCode, tc.code)
			continue
		}
		if tc.code != 0 {
			if got.ErrorMessage == nil || *got.ErrorMessage == "" {
				t.Errorf("%s: no message", what)
			}
			continue
		}
		if got.NumPartitions != tc.partitions || got.ReplicationFactor != 1 || got.TopicID == [16]byte{} || only.NumPartitions != tc.partitions {
			t.Errorf("%s: %+v", what, got)
		}
		sources := map[string]int8{}
		for _, c := range got.Configs {
			sources[c.Name] = c.Source
		}
		if sources["segment.bytes"] != 4 || sources["cleanup.policy"] != 5 || what == "config" && sources["retention.ms"] != 1 {
			t.Errorf("%s: config sources %v", what, sources)
		}
	}
	for i, got := range ask(false, topic("twice", 1, 1), topic("twice", 1, 1), topic("once", 1, 1)) {
		if want := []int16{42, 0}[i]; got.ErrorCode != want {
			t.Errorf("topic %d of a request that names one twice: error %d, want %d", i, got.ErrorCode, want)
		}
	}
}

// A topic made again under the name of a deleted one is another topic.
func TestDeleteTopics(t *testing.T) {
	n := startNode(t, t.TempDir())
	c := dial(t, n.Addr())
	var ids [][16]byte
	for i := range 5 {
		id := c.create("t", 2)
		ids = append(ids, id)
		if got := c.end("t"); got != 0 {
			t.Fatalf("round %d: a new topic ends at %d", i, got)
		}
		if code, _ := c.produce("t", newBatch(nil, "v")); code != 0 {
			t.Fatalf("round %d: error %d", i, code)
		}
		req := kmsg.NewPtrDeleteTopicsRequest()
		req.Version, req.TimeoutMillis, req.TopicNames = 5, 10_000, []string{"t"}
		if i%2 == 1 {
			req.Version = 6
			rt := kmsg.NewDeleteTopicsRequestTopic()
			rt.TopicID = id
			req.Topics = append(req.Topics, rt)
		}
		if got := c.ask(req).(*kmsg.DeleteTopicsResponse).Topics[0]; got.ErrorCode != 0 || *got.Topic != "t" {
			t.Fatalf("round %d: error %d", i, got.ErrorCode)
		}
		if got := c.fetch("t", 0); got.ErrorCode != 3 {
			t.Errorf("round %d: fetch after deletion: error %d", i, got.ErrorCode)
		}
	}
	c.create("t", 1)
	for _, id := range ids {
		req := produceReq(1, "", newBatch(nil, "v"))
		req.Version, req.Topics[0].TopicID = 13, id
		if got := c.ask(req).(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode; got != 100 {
			t.Errorf("an old ID gets error %d", got)
		}
	}
	both := kmsg.NewPtrDeleteTopicsRequest()
	both.Version = 6
	for range 2 {
		both.Topics = append(both.Topics, kmsg.NewDeleteTopicsRequestTopic())
	}
	both.Topics[0].Topic, both.Topics[0].TopicID = kmsg.StringPtr("t"), [16]byte{1}
	for i, got := range c.ask(both).(*kmsg.DeleteTopicsResponse).Topics {
		if got.ErrorCode != 42 {
			t.Errorf("topic %d, named by both or neither: error %d", i, got.ErrorCode)
		}
	}
}

func TestListOffsets(t *testing.T) {
	n := startNode(t, t.TempDir())
	c := dial(t, n.Addr())
	c.create("t", 1)
	base := time.Now().Add(-time.Hour).UnixMilli()
	for i := range int64(5) {
		ts := base + []int64{0, 100, 400, 300, 200}[i]
		if code, _ := c.produce("t", newBatch(func(b *kmsg.RecordBatch) { b.FirstTimestamp, b.MaxTimestamp = ts, ts }, "v")); code != 0 {
			t.Fatal(code)
		}
	}
	for _, tc := range []struct {
		version int16
		ts      int64
		code    int16
		offset  int64
		stamp   int64
	}{
		{1, -1, 0, 5, -1}, {11, -1, 0, 5, -1}, {1, -2, 0, 0, -1}, {11, -2, 0, 0, -1},
		{7, -3, 0, 2, base + 400}, {6, -3, 35, -1, -1},
		{8, -4, 0, 0, -1}, {7, -4, 35, -1, -1},
		{9, -5, 0, -1, -1}, {8, -5, 35, -1, -1},
		{11, -6, 0, -1, -1}, {10, -6, 35, -1, -1}, {11, -7, 35, -1, -1},
		{5, 0, 0, 0, base}, {5, base + 1, 0, 1, base + 100}, {5, base + 150, 0, 2, base + 400}, {5, base + 401, 0, -1, -1},
	} {
		req := kmsg.NewPtrListOffsetsRequest()
		req.Version, req.ReplicaID, req.IsolationLevel = tc.version, -1, 1
		rt := kmsg.NewListOffsetsRequestTopic()
		rt.Topic = "t"
		p := kmsg.NewListOffsetsRequestTopicPartition()
		p.Timestamp, p.CurrentLeaderEpoch = tc.ts, -1
		rt.Partitions = append(rt.Partitions, p)
		req.Topics = append(req.Topics, rt)
		got := c.ask(req).(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0]
		if got.ErrorCode != tc.code || got.Offset != tc.offset || got.Timestamp != tc.stamp {
			t.Errorf("%+v: error %d, offset %d, timestamp %d", tc, got.ErrorCode, got.Offset, got.Timestamp)
		}
	}
}

func TestDescribeConfigs(t *testing.T) {
	n := startNode(t, t.TempDir(), "log.retention.ms=5000")
	c := dial(t, n.Addr())
	c.create("t", 1, "retention.ms", "1000")
	c.create("u", 1)
	ask := func(kind kmsg.ConfigResourceType, name string, docs bool, names ...string) kmsg.DescribeConfigsResponseResource {
		t.Helper()
		req := kmsg.NewPtrDescribeConfigsRequest()
		req.Version, req.IncludeSynonyms, req.IncludeDocumentation = 4, docs, docs
		rr := kmsg.NewDescribeConfigsRequestResource()
		rr.ResourceType, rr.ResourceName, rr.ConfigNames = kind, name, names
		req.Resources = append(req.Resources, rr)
		return c.ask(req).(*kmsg.DescribeConfigsResponse).Resources[0]
	}
	got := ask(kmsg.ConfigResourceTypeTopic, "t", true, "retention.ms", "no.such")
	if len(got.Configs) != 1 {
		t.Fatalf("named one: %+v", got.Configs)
	}
	v := got.Configs[0]
	if *v.Value != "1000" || v.Source != kmsg.ConfigSourceDynamicTopicConfig || v.ConfigType != kmsg.ConfigTypeLong || v.Documentation == nil || len(v.ConfigSynonyms) != 3 ||
		v.ConfigSynonyms[1].Name != "log.retention.ms" || *v.ConfigSynonyms[1].Value != "5000" || v.ConfigSynonyms[2].Source != kmsg.ConfigSourceDefaultConfig {
		t.Errorf("retention.ms of t: %+v", v)
	}
	if v := ask(kmsg.ConfigResourceTypeTopic, "u", false, "retention.ms").Configs[0]; *v.Value != "5000" || v.Source != kmsg.ConfigSourceStaticBrokerConfig || v.Documentation != nil || len(v.ConfigSynonyms) != 0 {
		t.Errorf("retention.ms of u: %+v", v)
	}
	if got := ask(kmsg.ConfigResourceTypeTopic, "u", false); len(got.Configs) != 37 {
		t.Errorf("all: %d", len(got.Configs))
	}
	if v := ask(kmsg.ConfigResourceTypeBroker, "0", false, "log.retention.ms").Configs[0]; *v.Value != "5000" || v.ReadOnly {
		t.Errorf("log.retention.ms of the broker: %+v", v)
	}
	for what, tc := range map[string][2]int16{
		"unknown topic":   {ask(kmsg.ConfigResourceTypeTopic, "none", false).ErrorCode, 3},
		"other broker":    {ask(kmsg.ConfigResourceTypeBroker, "1", false).ErrorCode, 42},
		"group":           {ask(kmsg.ConfigResourceTypeGroupConfig, "g", false).ErrorCode, 0},
		"all groups":      {ask(kmsg.ConfigResourceTypeGroupConfig, "", false).ErrorCode, 42},
		"unknown kind":    {ask(99, "x", false).ErrorCode, 42},
		"client metrics":  {ask(kmsg.ConfigResourceTypeClientMetrics, "x", false).ErrorCode, 0},
		"all of those":    {ask(kmsg.ConfigResourceTypeClientMetrics, "", false).ErrorCode, 42},
		"others' loggers": {ask(kmsg.ConfigResourceTypeBrokerLogger, "9", false).ErrorCode, 42},
	} {
		if tc[0] != tc[1] {
			t.Errorf("%s: error %d, want %d", what, tc[0], tc[1])
		}
	}
}

func TestSmallAnswers(t *testing.T) {
	n := startNode(t, t.TempDir(), "cluster.id=mine")
	c := dial(t, n.Addr())
	seen := map[int64]bool{}
	for range 2500 { // more than two blocks
		got := c.ask(kmsg.NewPtrInitProducerIDRequest()).(*kmsg.InitProducerIDResponse)
		if got.ErrorCode != 0 || got.ProducerEpoch != 0 || got.ProducerID < 0 || seen[got.ProducerID] {
			t.Fatalf("producer ID %+v", got)
		}
		seen[got.ProducerID] = true
	}
	for id, want := range map[string]int16{"": 42} {
		req := kmsg.NewPtrInitProducerIDRequest()
		req.TransactionalID = &id
		if got := c.ask(req).(*kmsg.InitProducerIDResponse); got.ErrorCode != want || got.ProducerID != -1 {
			t.Errorf("transactional ID %q: %+v", id, got)
		}
	}
	for kind, want := range map[int8]int16{0: 0, 1: 0, 2: 42, 3: 42, -1: 42} {
		req := kmsg.NewPtrFindCoordinatorRequest()
		req.Version, req.CoordinatorType, req.CoordinatorKeys = 6, kind, []string{"k"}
		if got := c.ask(req).(*kmsg.FindCoordinatorResponse).Coordinators[0]; got.ErrorCode != want || got.Key != "k" {
			t.Errorf("coordinator of type %d: %+v", kind, got)
		}
	}
	for endpoint, want := range map[int8]int16{1: 0, 2: 114, 3: 115} {
		req := kmsg.NewPtrDescribeClusterRequest()
		req.Version, req.EndpointType, req.IncludeClusterAuthorizedOperations = 2, endpoint, true
		got := c.ask(req).(*kmsg.DescribeClusterResponse)
		if got.ErrorCode != want || (got.ClusterID == "mine") != (want == 0) || want == 0 && (len(got.Brokers) != 1 || got.ClusterAuthorizedOperations != acl.Supported(acl.Cluster)) {
			t.Errorf("endpoint type %d: %+v", endpoint, got)
		}
	}
}

func TestOffsetForLeaderEpoch(t *testing.T) {
	n := startNode(t, t.TempDir())
	c := dial(t, n.Addr())
	c.create("t", 1)
	c.produce("t", newBatch(nil, "v", "w"))
	epoch := c.ask(metadataReq(12, false, "t")).(*kmsg.MetadataResponse).Topics[0].Partitions[0].LeaderEpoch
	for _, tc := range []struct {
		current, asked int32
		code           int16
		epoch          int32
		end            int64
	}{
		{-1, epoch, 0, epoch, 2}, {epoch, epoch, 0, epoch, 2}, {epoch, epoch + 1, 0, -1, -1}, {epoch - 1, epoch, 74, -1, -1}, {epoch + 1, epoch, 75, -1, -1},
	} {
		req := kmsg.NewPtrOffsetForLeaderEpochRequest()
		req.Version = 4
		rt := kmsg.NewOffsetForLeaderEpochRequestTopic()
		rt.Topic = "t"
		p := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
		p.CurrentLeaderEpoch, p.LeaderEpoch = tc.current, tc.asked
		rt.Partitions = append(rt.Partitions, p)
		req.Topics = append(req.Topics, rt)
		got := c.ask(req).(*kmsg.OffsetForLeaderEpochResponse).Topics[0].Partitions[0]
		if got.ErrorCode != tc.code || got.LeaderEpoch != tc.epoch || got.EndOffset != tc.end {
			t.Errorf("%+v: %+v", tc, got)
		}
	}
}

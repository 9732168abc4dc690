package server

import (
	"encoding/binary"
	"fmt"
	"io"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// What is told of batches that are refused is what Kafka tells: the topic before the number of
// acknowledgements, its log's start beside what is wrong with a batch, and of a topic without
// partitions nothing.
func TestProduceErrorsAsKafka(t *testing.T) {
	n := startNode(t, t.TempDir())
	c := dial(t, n.Addr())
	c.create("t", 1)
	good, control := newBatch(nil, "a"), newBatch(func(b *kmsg.RecordBatch) { b.Attributes = 0x20 }, "a")
	torn := newBatch(nil, "a")
	torn[20]++
	for _, tc := range []struct {
		topic string
		acks  int16
		batch []byte
		want  string
	}{
		{"t", 7, good, "21 -1"}, {"none", 7, good, "3 -1"}, {"no name", -1, good, "3 -1"}, {"", -1, good, "3 -1"},
		{"t", -1, control, "87 0"}, {"t", -1, torn, "2 -1"}, {"t", -1, good[:50], "87 -1"},
	} {
		p := c.ask(produceReq(tc.acks, tc.topic, tc.batch)).(*kmsg.ProduceResponse).Topics[0].Partitions[0]
		if got := fmt.Sprint(p.ErrorCode, " ", p.LogStartOffset); got != tc.want {
			t.Errorf("acks %d to %q: %s, want %s", tc.acks, tc.topic, got, tc.want)
		}
	}
	req := produceReq(-1, "t", good)
	req.Topics = append(req.Topics, kmsg.ProduceRequestTopic{Topic: "t"})
	if got := c.ask(req).(*kmsg.ProduceResponse).Topics; len(got) != 1 {
		t.Errorf("%d topics are answered, one of which has no partitions", len(got))
	}
}

// A client ID of a negative length is none, as for Kafka.
func TestClientIDOfNegativeLength(t *testing.T) {
	n := startNode(t, t.TempDir())
	c := dial(t, n.Addr())
	for _, length := range []int16{-1, -2, -32768} {
		b := []byte{0, 0, 0, 14, 0, 3, 0, 1, 0, 0, 0, 9}
		b = binary.BigEndian.AppendUint16(b, uint16(length))
		b = append(b, 0, 0, 0, 0)
		if _, err := c.nc.Write(b); err != nil {
			t.Fatal(err)
		}
		var size [4]byte
		if _, err := io.ReadFull(c.nc, size[:]); err != nil {
			t.Fatalf("length %d: %v", length, err)
		}
		if _, err := io.CopyN(io.Discard, c.nc, int64(binary.BigEndian.Uint32(size[:]))); err != nil {
			t.Fatal(err)
		}
	}
}

// What else is told of requests that make little sense.
func TestOddRequestsAsKafka(t *testing.T) {
	n := startNode(t, t.TempDir())
	c := dial(t, n.Addr())
	c.create("t", 1)

	dc := kmsg.NewPtrDescribeClusterRequest()
	dc.Version, dc.EndpointType = 2, 2
	if got := c.ask(dc).(*kmsg.DescribeClusterResponse); got.ErrorCode == 0 || got.ClusterID != "" {
		t.Errorf("%+v", got)
	}
	dl := kmsg.NewPtrDescribeLogDirsRequest()
	dl.Version, dl.Topics = 1, []kmsg.DescribeLogDirsRequestTopic{{Topic: "t", Partitions: []int32{0, 0}}}
	if got := c.ask(dl).(*kmsg.DescribeLogDirsResponse).Dirs[0].Topics[0].Partitions; len(got) != 1 {
		t.Errorf("what is named twice is told %d times", len(got))
	}
	lo := kmsg.NewPtrListOffsetsRequest()
	lo.Version, lo.ReplicaID = 5, -1
	for _, n := range [][]int32{{0, 0}, {}, {1, 1}, {0}} { // of one topic and of another, turn by turn
		rt := kmsg.NewListOffsetsRequestTopic()
		rt.Topic = "t"
		for _, epoch := range n {
			p := kmsg.NewListOffsetsRequestTopicPartition()
			p.Timestamp, p.Partition, p.CurrentLeaderEpoch = -1, epoch, -2
			rt.Partitions = append(rt.Partitions, p)
		}
		lo.Topics = append(lo.Topics, rt)
	}
	if got := c.ask(lo).(*kmsg.ListOffsetsResponse).Topics; len(got) != 1 || len(got[0].Partitions) != 2 || got[0].Partitions[0].ErrorCode != 42 {
		t.Errorf("offsets of what stands twice: %+v", got)
	}
	lo.Topics = lo.Topics[3:]
	if got := c.ask(lo).(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0].ErrorCode; got != 74 {
		t.Errorf("offsets at leader epoch -2: error %d", got)
	}
	ft := fetchReq("none", 0, 0)
	if got := c.ask(ft).(*kmsg.FetchResponse).Topics[0].Partitions[0].AbortedTransactions; got == nil {
		t.Error("aborted transactions of no topic are null")
	}
	el := kmsg.NewPtrElectLeadersRequest()
	el.Version, el.ElectionType, el.TimeoutMillis, el.Topics = 2, 9, 10_000, []kmsg.ElectLeadersRequestTopic{}
	if got := c.ask(el).(*kmsg.ElectLeadersResponse).ErrorCode; got != 0 {
		t.Errorf("an election of nothing: error %d", got)
	}
	cf := kmsg.NewPtrDescribeConfigsRequest()
	cf.Version, cf.Resources = 4, []kmsg.DescribeConfigsRequestResource{{ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: "t"}}
	if got := c.ask(cf).(*kmsg.DescribeConfigsResponse).Resources[0].ErrorMessage; got == nil || *got != "" {
		t.Error("no error has a message other than the empty one")
	}
}

// What is told of topics in odd requests is what Kafka tells.
func TestOddTopicsAsKafka(t *testing.T) {
	n := startNode(t, t.TempDir())
	c := dial(t, n.Addr())
	id := c.create("t", 1)

	av := kmsg.NewPtrApiVersionsRequest()
	av.Version = 4
	if got := c.ask(av).(*kmsg.ApiVersionsResponse); got.ErrorCode != 42 || got.FinalizedFeaturesEpoch != -1 {
		t.Errorf("a client without a name: %+v", got)
	}
	byID := kmsg.MetadataRequestTopic{TopicID: id}
	for version, want := range map[int16]string{10: "42 42 0", 11: "42 42 0", 12: "0 1"} {
		md := metadataReq(version, false, "t")
		md.Topics = append(md.Topics, byID)
		got := c.ask(md).(*kmsg.MetadataResponse)
		told := ""
		for _, rt := range got.Topics {
			told += fmt.Sprint(rt.ErrorCode, " ")
		}
		if told += fmt.Sprint(len(got.Brokers)); told != want {
			t.Errorf("version %d by name and by ID: %s, want %s", version, told, want)
		}
	}
	el := kmsg.NewPtrElectLeadersRequest()
	el.Version, el.TimeoutMillis = 2, 10_000
	if got := c.ask(el).(*kmsg.ElectLeadersResponse).Topics; len(got) != 1 || len(got[0].Partitions) != 0 {
		t.Errorf("an election of all: %+v", got)
	}
	el.Topics = []kmsg.ElectLeadersRequestTopic{{Topic: "t", Partitions: []int32{0}}, {Topic: "t"}}
	if got := c.ask(el).(*kmsg.ElectLeadersResponse).Topics; len(got) != 2 || len(got[0].Partitions) != 1 || len(got[1].Partitions) != 0 {
		t.Errorf("an election of what stands twice: %+v", got)
	}
	dr := kmsg.NewPtrDeleteRecordsRequest()
	dr.Version, dr.Topics = 2, []kmsg.DeleteRecordsRequestTopic{{Topic: "t", Partitions: []kmsg.DeleteRecordsRequestTopicPartition{{}}}}
	if got := c.ask(dr).(*kmsg.DeleteRecordsResponse).Topics[0].Partitions[0].ErrorCode; got != 0 {
		t.Errorf("records deleted in no time: error %d", got)
	}
	ct := kmsg.NewPtrCreateTopicsRequest()
	ct.Version, ct.TimeoutMillis, ct.Topics = 7, 10_000, []kmsg.CreateTopicsRequestTopic{{Topic: "t", NumPartitions: 1, ReplicationFactor: 1}}
	if got := c.ask(ct).(*kmsg.CreateTopicsResponse).Topics[0].Configs; got == nil {
		t.Error("the configuration of a topic that is not made is null")
	}
}

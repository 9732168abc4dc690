package server

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// sweepTopics are what the sweep asks about: 2 topics of 3 partitions.
type sweepTopics struct {
	names []string
	ids   [][16]byte
	stamp int    // makes names that were not used before
	dir   string // where the broker keeps its data
}

// fill makes a request that names both topics and all partitions, and returns the
// check of its answer's shape.
func (s *sweepTopics) fill(t *testing.T, c *client, req kmsg.Request) func(kmsg.Response) error {
	s.stamp++
	fresh := []string{fmt.Sprintf("sweep-%d-a", s.stamp), fmt.Sprintf("sweep-%d-b", s.stamp)}
	shape := func(topics int, partitions func(i int) int) error {
		if topics != 2 {
			return fmt.Errorf("%d topics", topics)
		}
		for i := range topics {
			if n := partitions(i); n != 3 {
				return fmt.Errorf("topic %d has %d partitions", i, n)
			}
		}
		return nil
	}
	switch r := req.(type) {
	case *kmsg.ProduceRequest:
		r.Acks = -1
		for i, name := range s.names {
			rt := kmsg.NewProduceRequestTopic()
			rt.Topic, rt.TopicID = name, s.ids[i]
			for p := range int32(3) {
				rp := kmsg.NewProduceRequestTopicPartition()
				rp.Partition, rp.Records = p, newBatch(nil, "v", "w")
				rt.Partitions = append(rt.Partitions, rp)
			}
			r.Topics = append(r.Topics, rt)
		}
		return func(resp kmsg.Response) error {
			ts := resp.(*kmsg.ProduceResponse).Topics
			for _, rt := range ts {
				for _, p := range rt.Partitions {
					if p.ErrorCode != 0 || p.BaseOffset < 0 {
						return fmt.Errorf("partition %d: error %d, offset %d", p.Partition, p.ErrorCode, p.BaseOffset)
					}
				}
			}
			return shape(len(ts), func(i int) int { return len(ts[i].Partitions) })
		}
	case *kmsg.FetchRequest:
		r.MaxBytes = 1 << 20
		for i, name := range s.names {
			rt := kmsg.NewFetchRequestTopic()
			rt.Topic, rt.TopicID = name, s.ids[i]
			for p := range int32(3) {
				rp := kmsg.NewFetchRequestTopicPartition()
				rp.Partition, rp.PartitionMaxBytes, rp.CurrentLeaderEpoch = p, 1<<20, -1
				rt.Partitions = append(rt.Partitions, rp)
			}
			r.Topics = append(r.Topics, rt)
		}
		return func(resp kmsg.Response) error {
			ts := resp.(*kmsg.FetchResponse).Topics
			for _, rt := range ts {
				for _, p := range rt.Partitions {
					if p.ErrorCode != 0 || p.HighWatermark <= 0 || len(p.RecordBatches) == 0 {
						return fmt.Errorf("partition %d: error %d, high watermark %d, %d bytes", p.Partition, p.ErrorCode, p.HighWatermark, len(p.RecordBatches))
					}
				}
			}
			return shape(len(ts), func(i int) int { return len(ts[i].Partitions) })
		}
	case *kmsg.ListOffsetsRequest:
		r.ReplicaID = -1
		for _, name := range s.names {
			rt := kmsg.NewListOffsetsRequestTopic()
			rt.Topic = name
			for p := range int32(3) {
				rp := kmsg.NewListOffsetsRequestTopicPartition()
				rp.Partition, rp.Timestamp, rp.CurrentLeaderEpoch = p, []int64{-1, -2, 0}[p], -1
				rt.Partitions = append(rt.Partitions, rp)
			}
			r.Topics = append(r.Topics, rt)
		}
		return func(resp kmsg.Response) error {
			ts := resp.(*kmsg.ListOffsetsResponse).Topics
			for _, rt := range ts {
				for _, p := range rt.Partitions {
					if p.ErrorCode != 0 || p.Offset < 0 {
						return fmt.Errorf("partition %d: error %d, offset %d", p.Partition, p.ErrorCode, p.Offset)
					}
				}
			}
			return shape(len(ts), func(i int) int { return len(ts[i].Partitions) })
		}
	case *kmsg.OffsetForLeaderEpochRequest:
		for _, name := range s.names {
			rt := kmsg.NewOffsetForLeaderEpochRequestTopic()
			rt.Topic = name
			for p := range int32(3) {
				rp := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
				rp.Partition, rp.CurrentLeaderEpoch, rp.LeaderEpoch = p, -1, 1
				rt.Partitions = append(rt.Partitions, rp)
			}
			r.Topics = append(r.Topics, rt)
		}
		return func(resp kmsg.Response) error {
			ts := resp.(*kmsg.OffsetForLeaderEpochResponse).Topics
			for _, rt := range ts {
				for _, p := range rt.Partitions {
					if p.ErrorCode != 0 || p.EndOffset < 0 {
						return fmt.Errorf("partition %d: error %d, end %d", p.Partition, p.ErrorCode, p.EndOffset)
					}
				}
			}
			return shape(len(ts), func(i int) int { return len(ts[i].Partitions) })
		}
	case *kmsg.MetadataRequest:
		for i, name := range s.names {
			rt := kmsg.NewMetadataRequestTopic()
			if r.Version >= 12 && i == 1 {
				rt.TopicID = s.ids[i]
			} else {
				rt.Topic = &name
			}
			r.Topics = append(r.Topics, rt)
		}
		return func(resp kmsg.Response) error {
			m := resp.(*kmsg.MetadataResponse)
			if len(m.Brokers) != 1 || m.Brokers[0].Port == 0 {
				return fmt.Errorf("brokers %+v", m.Brokers)
			}
			for i, rt := range m.Topics {
				if rt.ErrorCode != 0 || *rt.Topic != s.names[i] || m.Version >= 10 && rt.TopicID != s.ids[i] {
					return fmt.Errorf("topic %d: %+v", i, rt)
				}
			}
			return shape(len(m.Topics), func(i int) int { return len(m.Topics[i].Partitions) })
		}
	case *kmsg.CreateTopicsRequest:
		r.TimeoutMillis = 20_000
		for _, name := range fresh {
			rt := kmsg.NewCreateTopicsRequestTopic()
			rt.Topic, rt.NumPartitions, rt.ReplicationFactor = name, 3, 1
			r.Topics = append(r.Topics, rt)
		}
		return func(resp kmsg.Response) error {
			if n := len(resp.(*kmsg.CreateTopicsResponse).Topics); n != len(fresh) {
				return fmt.Errorf("%d topics", n)
			}
			for _, rt := range resp.(*kmsg.CreateTopicsResponse).Topics {
				if rt.ErrorCode != 0 || r.Version >= 5 && (rt.NumPartitions != 3 || len(rt.Configs) == 0) || r.Version >= 7 && rt.TopicID == [16]byte{} {
					return fmt.Errorf("%+v", rt)
				}
			}
			return nil
		}
	case *kmsg.DeleteTopicsRequest:
		r.TimeoutMillis = 20_000
		for i, name := range fresh {
			id := c.create(name, 3)
			rt := kmsg.NewDeleteTopicsRequestTopic()
			if i == 0 {
				rt.Topic = &name
			} else {
				rt.TopicID = id
			}
			r.Topics = append(r.Topics, rt)
			r.TopicNames = append(r.TopicNames, name)
		}
		return func(resp kmsg.Response) error {
			ts := resp.(*kmsg.DeleteTopicsResponse).Topics
			for i, rt := range ts {
				if rt.ErrorCode != 0 || *rt.Topic != fresh[i] {
					return fmt.Errorf("%+v", rt)
				}
			}
			if len(ts) != len(fresh) {
				return fmt.Errorf("%d topics", len(ts))
			}
			return nil
		}
	case *kmsg.DeleteRecordsRequest:
		r.TimeoutMillis = 20_000
		for _, name := range s.names {
			rt := kmsg.NewDeleteRecordsRequestTopic()
			rt.Topic = name
			for i := range int32(3) {
				rp := kmsg.NewDeleteRecordsRequestTopicPartition()
				rp.Partition, rp.Offset = i, 0
				rt.Partitions = append(rt.Partitions, rp)
			}
			r.Topics = append(r.Topics, rt)
		}
		return func(resp kmsg.Response) error {
			for _, rt := range resp.(*kmsg.DeleteRecordsResponse).Topics {
				for _, rp := range rt.Partitions {
					if rp.ErrorCode != 0 || rp.LowWatermark != 0 {
						return fmt.Errorf("%s: %+v", rt.Topic, rp)
					}
				}
			}
			return nil
		}
	case *kmsg.DescribeConfigsRequest:
		r.IncludeSynonyms, r.IncludeDocumentation = true, true
		for _, name := range append([]string{"0"}, s.names...) {
			rr := kmsg.NewDescribeConfigsRequestResource()
			rr.ResourceType, rr.ResourceName = kmsg.ConfigResourceTypeTopic, name
			if name == "0" {
				rr.ResourceType = kmsg.ConfigResourceTypeBroker
			}
			r.Resources = append(r.Resources, rr)
		}
		return func(resp kmsg.Response) error {
			for _, rr := range resp.(*kmsg.DescribeConfigsResponse).Resources {
				if rr.ErrorCode != 0 || len(rr.Configs) < 20 || len(rr.Configs[0].ConfigSynonyms) == 0 {
					return fmt.Errorf("%s: error %d, %d configs", rr.ResourceName, rr.ErrorCode, len(rr.Configs))
				}
			}
			return nil
		}
	case *kmsg.FindCoordinatorRequest:
		r.CoordinatorKey, r.CoordinatorKeys = "g", []string{"g", "h"}
	case *kmsg.ApiVersionsRequest:
		r.ClientSoftwareName, r.ClientSoftwareVersion = "sweep", "1.0"
		return func(resp kmsg.Response) error {
			if r := resp.(*kmsg.ApiVersionsResponse); r.ErrorCode != 0 || len(r.ApiKeys) != len(apis) || r.Version >= 3 && r.FinalizedFeaturesEpoch < 0 {
				return fmt.Errorf("%+v", r)
			}
			return nil
		}
	case *kmsg.DescribeClusterRequest:
		r.EndpointType = 1
	case *kmsg.InitProducerIDRequest:
	case *kmsg.SASLHandshakeRequest: // sasl_test.go has them
		return func(resp kmsg.Response) error { return codeIs(resp.(*kmsg.SASLHandshakeResponse).ErrorCode, 34) }
	case *kmsg.SASLAuthenticateRequest:
		return func(resp kmsg.Response) error { return codeIs(resp.(*kmsg.SASLAuthenticateResponse).ErrorCode, 34) }
	case *kmsg.AddPartitionsToTxnRequest, *kmsg.AddOffsetsToTxnRequest, *kmsg.EndTxnRequest, *kmsg.TxnOffsetCommitRequest,
		*kmsg.DescribeTransactionsRequest, *kmsg.ListTransactionsRequest: // txns_test.go has them
	default:
		if check := s.fillAdmin(req, fresh, c); check != nil {
			return check
		}
		if check := s.fillGroups(req); check != nil {
			return check
		}
		if check := s.fillTxn(req); check != nil {
			return check
		}
		if check := s.fillACLs(req); check != nil {
			return check
		}
		t.Fatalf("the sweep does not know %s", kmsg.NameForKey(req.Key()))
	}
	return func(kmsg.Response) error { return nil }
}

func codeIs(got, want int16) error {
	if got != want {
		return fmt.Errorf("error %d, want %d", got, want)
	}
	return nil
}

// every advertised key and version, minimal and with 2 topics of 3
// partitions, decoded strictly.
func TestEveryKeyAndVersion(t *testing.T) {
	dir := t.TempDir()
	n := startNode(t, dir)
	c := dial(t, n.Addr())
	s := &sweepTopics{dir: dir}
	for _, name := range []string{"sweep-a", "sweep-b"} {
		s.names = append(s.names, name)
		s.ids = append(s.ids, c.create(name, 3))
	}
	for _, a := range apis {
		for v := max(a.min, a.works); v <= a.max; v++ {
			c.ask(minimal(a, v))
			full := kmsg.RequestForKey(int16(a.key))
			full.SetVersion(v)
			check := s.fill(t, c, full)
			if err := check(c.ask(full)); err != nil {
				t.Errorf("%s v%d: %v", kmsg.NameForKey(int16(a.key)), v, err)
			}
		}
	}
}

// What is told is what is served: the versions beside the range cost the connection.
func TestUnservedVersionsCloseTheConnection(t *testing.T) {
	n := startNode(t, t.TempDir())
	for _, a := range apis {
		for _, v := range []int16{max(a.min, a.works) - 1, a.max + 1} {
			if a.key == kmsg.ApiVersions {
				continue
			}
			c := dial(t, n.Addr())
			raw := frame(kmsg.RequestForKey(int16(a.key)), 1)
			raw[6], raw[7] = byte(uint16(v)>>8), byte(v)
			if _, err := c.nc.Write(raw); err != nil {
				t.Fatal(err)
			}
			c.closed()
		}
	}
	c := dial(t, n.Addr())
	c.send(&kmsg.StreamsGroupHeartbeatRequest{}) // not served yet
	c.closed()
}

package server

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// fillCluster fills the requests that are about brokers and leaders; nil if it does not
// know them.
func (s *sweepTopics) fillCluster(req kmsg.Request) func(kmsg.Response) error {
	all := []int32{0, 1, 2}
	code := func(got int16, want *kerr.Error) error {
		if want == nil && got != 0 || want != nil && got != want.Code {
			return fmt.Errorf("error %d, want %v", got, want)
		}
		return nil
	}
	switch r := req.(type) {
	case *kmsg.AlterPartitionAssignmentsRequest:
		r.TimeoutMillis = 20_000
		for _, name := range s.names {
			rt := kmsg.NewAlterPartitionAssignmentsRequestTopic()
			rt.Topic = name
			for p, replicas := range [][]int32{{0}, nil, {7}} {
				rt.Partitions = append(rt.Partitions, kmsg.AlterPartitionAssignmentsRequestTopicPartition{Partition: int32(p), Replicas: replicas})
			}
			r.Topics = append(r.Topics, rt)
		}
		return func(resp kmsg.Response) error {
			a := resp.(*kmsg.AlterPartitionAssignmentsResponse)
			for _, rt := range a.Topics {
				for i, want := range []int16{0, kerr.NoReassignmentInProgress.Code, kerr.InvalidReplicaAssignment.Code} {
					if p := rt.Partitions[i]; p.ErrorCode != want || p.Partition != int32(i) {
						return fmt.Errorf("%+v", p)
					}
				}
			}
			if len(a.Topics) != 2 {
				return fmt.Errorf("%d topics", len(a.Topics))
			}
			return code(a.ErrorCode, nil)
		}
	case *kmsg.ListPartitionReassignmentsRequest:
		r.TimeoutMillis = 20_000
		for _, name := range s.names {
			r.Topics = append(r.Topics, kmsg.ListPartitionReassignmentsRequestTopic{Topic: name, Partitions: all})
		}
		return func(resp kmsg.Response) error {
			l := resp.(*kmsg.ListPartitionReassignmentsResponse)
			if len(l.Topics) != 0 {
				return fmt.Errorf("%+v", l)
			}
			return code(l.ErrorCode, nil)
		}
	case *kmsg.ElectLeadersRequest:
		r.TimeoutMillis = 20_000
		for _, name := range s.names {
			r.Topics = append(r.Topics, kmsg.ElectLeadersRequestTopic{Topic: name, Partitions: all})
		}
		return func(resp kmsg.Response) error {
			e := resp.(*kmsg.ElectLeadersResponse)
			for _, rt := range e.Topics {
				for _, p := range rt.Partitions {
					if p.ErrorCode != kerr.ElectionNotNeeded.Code || len(rt.Partitions) != 3 {
						return fmt.Errorf("%+v", rt)
					}
				}
			}
			if len(e.Topics) != 2 {
				return fmt.Errorf("%d topics", len(e.Topics))
			}
			return code(e.ErrorCode, nil)
		}
	case *kmsg.AlterClientQuotasRequest:
		for i, user := range s.names {
			e := kmsg.NewAlterClientQuotasRequestEntry()
			e.Entity = []kmsg.AlterClientQuotasRequestEntryEntity{{Type: "user", Name: &user}, {Type: "client-id"}}
			e.Ops = []kmsg.AlterClientQuotasRequestEntryOp{{Key: "producer_byte_rate", Value: 1e12}, {Key: "request_percentage", Remove: true}}
			if i == 1 {
				e.Ops[0].Value = -1
			}
			r.Entries = append(r.Entries, e)
		}
		return func(resp kmsg.Response) error {
			a := resp.(*kmsg.AlterClientQuotasResponse)
			if len(a.Entries) != 2 || len(a.Entries[1].Entity) != 2 || *a.Entries[1].Entity[0].Name != s.names[1] || a.Entries[1].Entity[1].Name != nil || a.Entries[0].ErrorCode != 0 {
				return fmt.Errorf("%+v", a)
			}
			return code(a.Entries[1].ErrorCode, kerr.InvalidRequest)
		}
	case *kmsg.DescribeClientQuotasRequest:
		r.Components = []kmsg.DescribeClientQuotasRequestComponent{{EntityType: "user", MatchType: kmsg.QuotasMatchTypeExact, Match: &s.names[0]},
			{EntityType: "client-id", MatchType: kmsg.QuotasMatchTypeAny}}
		return func(resp kmsg.Response) error {
			d := resp.(*kmsg.DescribeClientQuotasResponse)
			for _, e := range d.Entries { // if quotas were altered before
				if len(d.Entries) != 1 || len(e.Values) != 1 || e.Values[0].Value != 1e12 || len(e.Entity) != 2 {
					return fmt.Errorf("%+v", d)
				}
			}
			return code(d.ErrorCode, nil)
		}
	case *kmsg.UnregisterBrokerRequest:
		r.BrokerID = 99
		return func(resp kmsg.Response) error {
			return code(resp.(*kmsg.UnregisterBrokerResponse).ErrorCode, kerr.BrokerIDNotRegistered)
		}
	case *kmsg.DescribeTopicPartitionsRequest:
		for _, name := range s.names {
			r.Topics = append(r.Topics, kmsg.DescribeTopicPartitionsRequestTopic{Topic: name})
		}
		r.ResponsePartitionLimit = 5
		return func(resp kmsg.Response) error {
			d := resp.(*kmsg.DescribeTopicPartitionsResponse)
			if len(d.Topics) != 2 || len(d.Topics[0].Partitions) != 3 || len(d.Topics[1].Partitions) != 2 ||
				d.NextCursor == nil || d.NextCursor.Topic != s.names[1] || d.NextCursor.Partition != 2 || d.Topics[0].TopicID != s.ids[0] {
				return fmt.Errorf("%+v", d)
			}
			return nil
		}
	case *kmsg.DescribeLogDirsRequest:
		for _, name := range s.names {
			r.Topics = append(r.Topics, kmsg.DescribeLogDirsRequestTopic{Topic: name, Partitions: all})
		}
		return func(resp kmsg.Response) error {
			d := resp.(*kmsg.DescribeLogDirsResponse)
			if len(d.Dirs) != 1 || len(d.Dirs[0].Topics) != 2 || len(d.Dirs[0].Topics[1].Partitions) != 3 ||
				d.Dirs[0].Topics[0].Partitions[0].Size == 0 || r.Version >= 4 && (d.Dirs[0].UsableBytes <= 0 || d.Dirs[0].TotalBytes < d.Dirs[0].UsableBytes) {
				return fmt.Errorf("%+v", d)
			}
			return code(d.ErrorCode+d.Dirs[0].ErrorCode, nil)
		}
	case *kmsg.BrokerRegistrationRequest:
		r.ClusterID = "another"
		return func(resp kmsg.Response) error {
			return code(resp.(*kmsg.BrokerRegistrationResponse).ErrorCode, kerr.InconsistentClusterID)
		}
	case *kmsg.BrokerHeartbeatRequest:
		r.BrokerID = 99
		return func(resp kmsg.Response) error {
			return code(resp.(*kmsg.BrokerHeartbeatResponse).ErrorCode, kerr.BrokerIDNotRegistered)
		}
	case *kmsg.AllocateProducerIDsRequest:
		r.BrokerID, r.BrokerEpoch = 0, 1
		return func(resp kmsg.Response) error {
			a := resp.(*kmsg.AllocateProducerIDsResponse)
			if a.ProducerIDLen != 1000 {
				return fmt.Errorf("%+v", a)
			}
			return code(a.ErrorCode, nil)
		}
	}
	return s.fillStubs(req)
}

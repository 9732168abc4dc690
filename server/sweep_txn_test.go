package server

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// fillTxn fills in requests about transactions; nil if it is none.
func (s *sweepTopics) fillTxn(req kmsg.Request) func(kmsg.Response) error {
	switch r := req.(type) {
	case *kmsg.WriteTxnMarkersRequest:
		for id := range int64(2) {
			m := kmsg.NewWriteTxnMarkersRequestMarker()
			m.ProducerID, m.Committed = 5000+id, id == 0
			for _, name := range s.names {
				m.Topics = append(m.Topics, kmsg.WriteTxnMarkersRequestMarkerTopic{Topic: name, Partitions: []int32{0, 1, 2}})
			}
			r.Markers = append(r.Markers, m)
		}
		return func(resp kmsg.Response) error {
			for _, m := range resp.(*kmsg.WriteTxnMarkersResponse).Markers {
				for _, t := range m.Topics {
					for _, p := range t.Partitions {
						if p.ErrorCode != 0 {
							return fmt.Errorf("%s-%d: error %d", t.Topic, p.Partition, p.ErrorCode)
						}
					}
				}
				if len(m.Topics) != 2 || len(m.Topics[1].Partitions) != 3 {
					return fmt.Errorf("marker %+v", m)
				}
			}
			return nil
		}
	case *kmsg.DescribeProducersRequest:
		for _, name := range s.names {
			r.Topics = append(r.Topics, kmsg.DescribeProducersRequestTopic{Topic: name, Partitions: []int32{0, 1, 2}})
		}
		return func(resp kmsg.Response) error {
			ts := resp.(*kmsg.DescribeProducersResponse).Topics
			for _, t := range ts {
				for _, p := range t.Partitions {
					if p.ErrorCode != 0 {
						return fmt.Errorf("%s-%d: error %d", t.Topic, p.Partition, p.ErrorCode)
					}
				}
			}
			if len(ts) != 2 || len(ts[1].Partitions) != 3 {
				return fmt.Errorf("%d topics: %+v", len(ts), ts)
			}
			return nil
		}
	}
	return nil
}

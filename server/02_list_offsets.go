package server

// ListOffsets, key 2, versions 1 to 11.
//
// Timestamps below 0 have meanings: -1 the end, -2 the start, -3 the record with the
// largest timestamp (version 7, KIP-734), -4 the start of what is local (8, KIP-405),
// -5 the end of what is tiered (9, KIP-1005), -6 the start of what waits to be tiered
// (11, KIP-1023). There are no tiers, so -4 is the start and -5 and -6 find nothing.
// One that is too new for the version gets UNSUPPORTED_VERSION. Nothing found is
// offset -1 without an error. The leader epoch (version 4) is that of the record found;
// of the start, that which wrote there; of the end, the leader's own. With isolation level 1
// the end is the last stable offset, and no record from there on is found. Every answer
// rests on a Check begun after the request, and after the answers to all earlier ones of the
// connection: consumers take the end for newer than that of a fetch that was answered before.

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/partition"
	"kaas.dev/kaas/projections"
	"kaas.dev/kaas/server/acl"
)

var listOffsetsAPI = api{key: kmsg.ListOffsets, min: 1, max: 11, wide: true, access: checks(right{acl.Describe, acl.Topic}), start: (*Server).listOffsets}

const (
	offsetLatest          = -1
	offsetEarliest        = -2
	offsetMaxTimestamp    = -3
	offsetEarliestLocal   = -4
	offsetLatestTiered    = -5
	offsetEarliestPending = -6
)

// specialSince is the first version that knows a special timestamp.
var specialSince = map[int64]int16{
	offsetLatest: 0, offsetEarliest: 0, offsetMaxTimestamp: 7, offsetEarliestLocal: 8, offsetLatestTiered: 9, offsetEarliestPending: 11,
}

func (s *Server) listOffsets(_ context.Context, r *request) (reply, error) {
	req := r.msg.(*kmsg.ListOffsetsRequest)
	return inTurn(r, func(ctx context.Context) kmsg.Response {
		ctx, cancel := context.WithTimeout(ctx, volumeWait)
		defer cancel()
		view := s.backend.View()
		fresh := s.metrics.checked(s.backend.CheckFresh(ctx))
		resp := kmsg.NewPtrListOffsetsResponse()
		asked := askedOffsets(req)
		for i := range asked {
			a := &asked[i]
			out := kmsg.NewListOffsetsResponseTopic()
			out.Topic = a.topic
			denied := r.denied(acl.Describe, a.topic)
			for j := range a.partitions {
				p := &a.partitions[j]
				if !r.room(elementBytes) {
					break
				}
				out.Partitions = append(out.Partitions, s.listOffset(ctx, req, view.Topic(a.topic), p, a.times[p.Partition] > 1, denied, fresh))
			}
			resp.Topics = append(resp.Topics, out)
		}
		return resp
	})
}

// askedTopic is what a request asks of a topic, wherever that stands in it.
type askedTopic struct {
	topic      string
	partitions []kmsg.ListOffsetsRequestTopicPartition // each once
	times      map[int32]int                           // how often each stands there
}

// askedOffsets are the topics of a request, each once and without those that name no
// partition.
func askedOffsets(req *kmsg.ListOffsetsRequest) (out []askedTopic) {
	at := map[string]int{}
	for i := range req.Topics {
		in := &req.Topics[i]
		for _, p := range in.Partitions {
			n, ok := at[in.Topic]
			if !ok {
				n = len(out)
				at[in.Topic] = n
				out = append(out, askedTopic{topic: in.Topic, times: map[int32]int{}})
			}
			a := &out[n]
			if a.times[p.Partition]++; a.times[p.Partition] == 1 {
				a.partitions = append(a.partitions, p)
			}
		}
	}
	return out
}

func (s *Server) listOffset(ctx context.Context, req *kmsg.ListOffsetsRequest, t *projections.Topic, in *kmsg.ListOffsetsRequestTopicPartition, twice bool, denied, fresh error) kmsg.ListOffsetsResponseTopicPartition {
	out := kmsg.NewListOffsetsResponseTopicPartition()
	out.Partition, out.Offset, out.Timestamp, out.LeaderEpoch = in.Partition, -1, -1, -1
	err := func() error {
		switch {
		case denied != nil:
			return denied
		case twice:
			return kerr.InvalidRequest
		}
		if since, ok := specialSince[in.Timestamp]; in.Timestamp < 0 && (!ok || req.Version < since) {
			return kerr.UnsupportedVersion
		}
		if t == nil {
			return kerr.UnknownTopicOrPartition
		}
		p, err := s.backend.Partition(t.ID, in.Partition)
		if err != nil {
			return err
		}
		if err := checkEpochButNone(p, in.CurrentLeaderEpoch); err != nil {
			return err
		}
		if fresh != nil {
			return fresh
		}
		return lookUpOffset(ctx, p, req.IsolationLevel, in.Timestamp, &out)
	}()
	out.ErrorCode = s.failure(kmsg.ListOffsets, err)
	return out
}

func lookUpOffset(ctx context.Context, p *partition.Partition, isolation int8, ts int64, out *kmsg.ListOffsetsResponseTopicPartition) (err error) {
	_, end, stable := p.Offsets()
	if isolation == readCommitted {
		end = stable
	}
	switch ts {
	case offsetLatest:
		out.Offset, out.LeaderEpoch = end, p.LeaderEpoch()
		return nil
	case offsetEarliest, offsetEarliestLocal:
		out.Offset, out.LeaderEpoch = p.Start()
		return nil
	case offsetLatestTiered, offsetEarliestPending:
		return nil
	case offsetMaxTimestamp:
		out.Offset, out.Timestamp, out.LeaderEpoch, err = p.MaxTimestamp(ctx)
	default:
		out.Offset, out.Timestamp, out.LeaderEpoch, err = p.OffsetForTimestamp(ctx, ts)
	}
	if err != nil || out.Offset < 0 || out.Offset >= end {
		out.Offset, out.Timestamp, out.LeaderEpoch = -1, -1, -1
	}
	return err
}

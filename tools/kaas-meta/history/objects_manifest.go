package history

import (
	"strconv"

	"kaas.dev/kaas/partition"
)

// Kinds of objects in a partition's manifest.
const (
	KindLog         = "log"
	KindSegment     = "segment"
	KindLeaderEpoch = "leader_epoch"
	KindProducer    = "producer"
)

func manifestParts(m *partition.Manifest, _ Namer) []part {
	if m == nil {
		return nil
	}
	out := []part{{0, "", nil, m, logObject}}
	for _, s := range m.Segments {
		out = append(out, part{1, s.String(), s, s, segmentObject})
	}
	for _, e := range m.Epochs {
		out = append(out, part{2, number(int64(e.Epoch)), e, Object{KindLeaderEpoch, strconv.Itoa(int(e.Epoch)), "", []Field{{"start_offset", e.Start}}}, itself})
	}
	for i := range m.Producers {
		p := &m.Producers[i]
		out = append(out, part{3, number(p.ID), nil, p, producerObject})
	}
	return out
}

func logObject(v any, _ Namer) []Object {
	m := v.(*partition.Manifest)
	return []Object{{KindLog, PartitionName(m.Topic, int(m.Partition)), m.Topic, []Field{{"log_start", m.LogStart},
		{"recovery_offset", m.Recovery.Offset}, {"recovery_byte", m.Recovery.Pos}, {"cleaned", m.Cleaned}, {"segments", len(m.Segments)}}}}
}

func segmentObject(v any, _ Namer) []Object {
	s := v.(partition.Segment)
	fs := []Field{{"base", s.Base}, {"leader_epoch", int32(s.Epoch)}, {"generation", s.Gen}, {"end", s.End}, {"size", s.Size}}
	if s.Ended > 0 {
		fs = append(fs, Field{"ended", millis(s.Ended)})
	}
	return []Object{{KindSegment, s.String(), "", fs}}
}

func producerObject(v any, _ Namer) []Object {
	p := v.(*partition.ProducerState)
	fs := []Field{{"epoch", p.Epoch}, {"active", millis(p.Active)}}
	if n := len(p.Batches); n > 0 {
		b := p.Batches[n-1]
		fs = append(fs, Field{"last_sequence", b.Sequence + b.LastDelta}, Field{"last_offset", b.Offset + int64(b.LastDelta)})
	}
	if p.Txn != nil && p.Txn.First >= 0 {
		fs = append(fs, Field{"open_transaction_from", p.Txn.First})
	}
	return []Object{{KindProducer, strconv.FormatInt(p.ID, 10), "", fs}}
}

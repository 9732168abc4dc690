package restore

import (
	"context"
	"encoding/binary"
	"path"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/metalog"
	"kaas.dev/kaas/partition"
)

// strayOffsets notes the restored offsets that lie outside their log. Clients know what to do
// with them: auto.offset.reset.
func (w *work) strayOffsets(ctx context.Context, s *StreamPlan, notes *[]string) {
	type at struct {
		id    [16]byte
		index int32
	}
	logs := map[at][2]int64{}
	for _, g := range s.Groups {
		for _, o := range g.Offsets {
			if o.Then < 0 {
				continue
			}
			k := at{o.ID, o.Partition}
			log, ok := logs[k]
			if !ok {
				var err error
				if log, err = bounds(ctx, w.v, o.ID, o.Partition); err != nil {
					say(notes, "%s-%d: where its log begins and ends cannot be told: %v", o.Topic, o.Partition, err)
					log = [2]int64{0, 1<<63 - 1}
				}
				logs[k] = log
			}
			switch {
			case o.Then < log[0]:
				say(notes, "group %q, %s-%d: offset %d is below the log's start, %d: its consumer goes by auto.offset.reset", g.Group, o.Topic, o.Partition, o.Then, log[0])
			case o.Then > log[1]:
				say(notes, "group %q, %s-%d: offset %d is above the log's end, %d: its consumer goes by auto.offset.reset", g.Group, o.Topic, o.Partition, o.Then, log[1])
			}
		}
	}
}

// bounds is where a partition's log begins, and ends as far as whole batches follow one another.
func bounds(ctx context.Context, v *substrate.Volume, id [16]byte, index int32) (b [2]int64, err error) {
	snap, _, err := metalog.ReadState(ctx, v, partition.ManifestStream(id, index), partition.ManifestSchema())
	if err != nil {
		return b, err
	}
	m := snap.State
	b = [2]int64{m.LogStart, m.Recovery.Offset}
	if len(m.Segments) == 0 || m.Segments[len(m.Segments)-1].End >= 0 {
		return b, nil
	}
	f, err := v.Open(path.Join(partition.Dir(id, index), m.Segments[len(m.Segments)-1].String()))
	if err != nil {
		return b, err
	}
	defer f.Close()
	// A batch's header has its base offset, the length of what follows, and the distance of its
	// last offset.
	var h [27]byte
	for pos := m.Recovery.Pos; ; {
		if n, _ := f.ReadAt(h[:], pos); n < len(h) {
			return b, nil
		}
		base, length := int64(binary.BigEndian.Uint64(h[:])), int64(binary.BigEndian.Uint32(h[8:]))
		if base < b[1] || length < int64(len(h)) {
			return b, nil
		}
		b[1], pos = base+int64(binary.BigEndian.Uint32(h[23:]))+1, pos+12+length
	}
}

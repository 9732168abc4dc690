package partition

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/vmihailenco/msgpack/v5"

	"kaas.dev/kaas/internal/substrate"
)

// Manifest says what of the partition's files exists. It is an immutable value.
type Manifest struct {
	TopicID   [16]byte `msgpack:"topic_id" json:"-"`
	Topic     string   `msgpack:"topic" json:"topic"`
	Partition int32    `msgpack:"partition" json:"partition"`
	// Segments ascend and do not overlap. Only the newest may be without an end.
	Segments []Segment    `msgpack:"segments" json:"segments"`
	LogStart int64        `msgpack:"log_start" json:"log_start"`
	Epochs   []EpochStart `msgpack:"epochs" json:"epochs"`
	// Recovery is up to where the newest segment is known to be whole and durable.
	// Where every segment has an end, its offset is the end of the log.
	Recovery RecoveryPoint `msgpack:"recovery" json:"recovery"`
	// Producers are the idempotent ones as of Recovery, by ID: what replaying the log up
	// to there gives, but for those that were idle for too long.
	Producers []ProducerState `msgpack:"producers" json:"producers,omitempty"`
	// Cleaned is the offset up to which the log was compacted.
	Cleaned int64 `msgpack:"cleaned,omitempty" json:"cleaned,omitempty"`
	// About is of the topic, nil in manifests from before there was any.
	About *About `msgpack:"about,omitempty" json:"about,omitempty"`
}

// Segment is a file of the log.
type Segment struct {
	SegmentID `msgpack:",inline"`
	End       int64 `msgpack:"end" json:"end"`   // offset after the last batch; -1 while it is appended to
	Size      int64 `msgpack:"size" json:"size"` // bytes that exist; -1 likewise
	// MaxTime is the largest timestamp in it, Ended when it got its end, both in ms; 0
	// where that is not known.
	MaxTime int64 `msgpack:"max_time,omitempty" json:"max_time,omitempty"`
	Ended   int64 `msgpack:"ended,omitempty" json:"ended,omitempty"`
	// Aborted is of the transactions that its markers aborted, nil if there are none.
	Aborted *AbortedSum `msgpack:"aborted,omitempty" json:"aborted,omitempty"`
}

func (s Segment) open() bool { return s.End < 0 }

// EpochStart is the first offset of a leader epoch (KIP-101).
type EpochStart struct {
	Epoch substrate.Epoch `msgpack:"e" json:"epoch"`
	Start int64           `msgpack:"s" json:"start_offset"`
}

// RecoveryPoint is a batch boundary in the newest segment, as offset and byte.
type RecoveryPoint struct {
	Offset  int64       `msgpack:"o" json:"offset"`
	Pos     int64       `msgpack:"p" json:"pos"`
	Aborted *AbortedSum `msgpack:"a,omitempty" json:"aborted,omitempty"`
}

func (m *Manifest) newest() *Segment {
	if len(m.Segments) == 0 {
		return nil
	}
	return &m.Segments[len(m.Segments)-1]
}

func (m *Manifest) clone() *Manifest {
	c := *m
	c.Segments = slices.Clone(m.Segments)
	c.Epochs = slices.Clone(m.Epochs)
	return &c
}

// end fixes where the newest segment ends. One that holds nothing is dropped.
func (m *Manifest) end(end, size int64) error {
	s := m.newest()
	if s == nil || !s.open() {
		return fmt.Errorf("no segment is open to be ended at %d", end)
	}
	if end < m.Recovery.Offset || size < m.Recovery.Pos || (end == s.Base) != (size == 0) {
		return fmt.Errorf("segment %s cannot end at offset %d, byte %d", s, end, size)
	}
	s.End, s.Size = end, size
	if end == s.Base {
		m.Segments = m.Segments[:len(m.Segments)-1]
	}
	m.Recovery = RecoveryPoint{Offset: end}
	return nil
}

func (m *Manifest) endAt(e *SegmentEnded) error {
	if err := m.end(e.End, e.Size); err != nil {
		return err
	}
	if s := m.newest(); e.Size > 0 { // one that held nothing is gone
		s.MaxTime, s.Ended, s.Aborted = e.MaxTime, e.Ended, e.Aborted
	}
	return nil
}

// has reports whether the manifest names a segment.
func (m *Manifest) has(id SegmentID) bool {
	return slices.ContainsFunc(m.Segments, func(s Segment) bool { return s.SegmentID == id })
}

// below reports whether a segment lies wholly below an offset.
func (m *Manifest) below(offset int64) bool {
	return slices.ContainsFunc(m.Segments, func(s Segment) bool { return !s.open() && s.End <= offset })
}

// replace swaps segments that follow one another for others within their offsets.
func (m *Manifest) replace(old []SegmentID, made []Segment) error {
	i := slices.IndexFunc(m.Segments, func(s Segment) bool { return len(old) > 0 && s.SegmentID == old[0] })
	if i < 0 || i+len(old) > len(m.Segments) {
		return fmt.Errorf("%d segments are to be replaced that are not there", len(old))
	}
	from, to := old[0].Base, int64(0)
	for j, id := range old {
		s := m.Segments[i+j]
		if s.SegmentID != id || s.open() {
			return fmt.Errorf("segment %s is to be replaced where %s is", id, s)
		}
		to = s.End
	}
	newest := i+len(old) == len(m.Segments)
	for _, s := range made {
		if s.Base < from || s.End <= s.Base || s.Size <= 0 || s.End > to {
			return fmt.Errorf("segment %s up to offset %d, byte %d cannot replace what is from %d to %d", s, s.End, s.Size, from, to)
		}
		from = s.End
	}
	// The log ends where its newest segment does, and has something there to be read.
	if newest && (len(made) == 0 || from != to) {
		return fmt.Errorf("segment %s is the newest, and what replaces it does not end at %d", old[len(old)-1], to)
	}
	m.Segments = slices.Replace(m.Segments, i, i+len(old), made...)
	return nil
}

func (m *Manifest) add(id SegmentID) error {
	if s := m.newest(); s != nil && s.open() {
		return fmt.Errorf("segment %s is added while %s has no end", id, s)
	}
	if id.Base != m.Recovery.Offset {
		return fmt.Errorf("segment %s is added where the log ends at %d", id, m.Recovery.Offset)
	}
	m.Segments = append(m.Segments, Segment{SegmentID: id, End: -1, Size: -1})
	m.Recovery = RecoveryPoint{Offset: id.Base}
	return nil
}

func (m *Manifest) recover(r RecoveryPoint) error {
	s := m.newest()
	if s == nil || !s.open() || r.Offset < m.Recovery.Offset || r.Pos < m.Recovery.Pos {
		return fmt.Errorf("recovery point cannot move from %+v to %+v", m.Recovery, r)
	}
	m.Recovery = r
	return nil
}

// startEpoch keeps starts and epochs strictly ascending: an epoch in which nothing was
// appended gives way to the next.
func (m *Manifest) startEpoch(e EpochStart) error {
	for n := len(m.Epochs); n > 0 && m.Epochs[n-1].Start >= e.Start; n-- {
		m.Epochs = m.Epochs[:n-1]
	}
	if n := len(m.Epochs); n > 0 && m.Epochs[n-1].Epoch >= e.Epoch {
		return fmt.Errorf("leader epoch %d starts after %d", e.Epoch, m.Epochs[n-1].Epoch)
	}
	m.Epochs = append(m.Epochs, e)
	return nil
}

// startLog moves the log start; segments wholly below it no longer exist.
func (m *Manifest) startLog(offset int64) error {
	if offset < m.LogStart {
		return fmt.Errorf("log start cannot move back from %d to %d", m.LogStart, offset)
	}
	m.LogStart = offset
	m.Segments = slices.DeleteFunc(m.Segments, func(s Segment) bool { return !s.open() && s.End <= offset })
	for len(m.Epochs) > 1 && m.Epochs[1].Start <= offset {
		m.Epochs = m.Epochs[1:]
	}
	if len(m.Epochs) > 0 {
		m.Epochs[0].Start = max(m.Epochs[0].Start, offset)
	}
	return nil
}

// encodeManifest gives equal manifests equal bytes.
func encodeManifest(m *Manifest) ([]byte, error) {
	var b bytes.Buffer
	e := msgpack.NewEncoder(&b)
	e.SetSortMapKeys(true)
	err := e.Encode(m)
	return b.Bytes(), err
}

// decodeManifest decodes a state and refuses one that breaks the invariants.
func decodeManifest(b []byte) (*Manifest, error) {
	m := &Manifest{}
	if err := msgpack.Unmarshal(b, m); err != nil {
		return nil, err
	}
	at := int64(0)
	for i, s := range m.Segments {
		switch last := i == len(m.Segments)-1; {
		case s.Base < at:
			return nil, fmt.Errorf("segment %s begins before offset %d", s, at)
		case s.open() && !last:
			return nil, fmt.Errorf("segment %s has no end and is not the newest", s)
		case !s.open() && (s.End <= s.Base || s.Size <= 0):
			return nil, fmt.Errorf("segment %s ends at offset %d, byte %d", s, s.End, s.Size)
		}
		at = s.End
	}
	return m, m.checkProducers()
}

package partition

import (
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/vmihailenco/msgpack/v5"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/metalog"
)

// The events of a manifest.
type (
	// PartitionCreated is a partition's birth.
	PartitionCreated struct {
		TopicID   [16]byte `msgpack:"topic_id" json:"-"`
		Topic     string   `msgpack:"topic" json:"topic"`
		Partition int32    `msgpack:"partition" json:"partition"`
		About     *About   `msgpack:"about,omitempty" json:"about,omitempty"`
	}
	// SegmentAdded is a new newest segment; its base is where the log ended.
	SegmentAdded struct {
		SegmentID `msgpack:",inline"`
	}
	// SegmentEnded fixes what exists of the newest segment, all of it durable.
	SegmentEnded struct {
		End  int64 `msgpack:"end" json:"end"`
		Size int64 `msgpack:"size" json:"size"`
		// MaxTime is the largest timestamp in it, ms; 0 where it was not looked at.
		MaxTime int64 `msgpack:"max_time,omitempty" json:"max_time,omitempty"`
		// Ended is when that was, ms.
		Ended   int64       `msgpack:"ended,omitempty" json:"ended,omitempty"`
		Aborted *AbortedSum `msgpack:"aborted,omitempty" json:"aborted,omitempty"`
	}
	// LeaderEpochStarted is a takeover; what is appended from Start on has that epoch.
	LeaderEpochStarted struct {
		Epoch substrate.Epoch `msgpack:"epoch" json:"epoch"`
		Start int64           `msgpack:"start" json:"start_offset"`
	}
	// RecoveryPointAdvanced says up to where the newest segment is durable.
	RecoveryPointAdvanced struct {
		Offset  int64       `msgpack:"offset" json:"offset"`
		Pos     int64       `msgpack:"pos" json:"pos"`
		Aborted *AbortedSum `msgpack:"aborted,omitempty" json:"aborted,omitempty"` // of its bytes up to there
	}
	// LogStartAdvanced removes what lies below an offset.
	LogStartAdvanced struct {
		Offset int64 `msgpack:"offset" json:"offset"`
	}
	// SegmentsReplaced puts new segments in the place of ended ones that follow one
	// another: what compaction has made of them. None where nothing was kept.
	SegmentsReplaced struct {
		Old []SegmentID `msgpack:"old" json:"old"`
		New []Segment   `msgpack:"new" json:"new"`
	}
	// LogCleaned says up to which offset the log was compacted.
	LogCleaned struct {
		Offset int64 `msgpack:"offset" json:"offset"`
	}
)

// fact is an event of a manifest.
type fact interface {
	typ() string
	apply(*Manifest) error
}

func (*PartitionCreated) typ() string      { return "PartitionCreated" }
func (*SegmentAdded) typ() string          { return "SegmentAdded" }
func (*SegmentEnded) typ() string          { return "SegmentEnded" }
func (*LeaderEpochStarted) typ() string    { return "LeaderEpochStarted" }
func (*RecoveryPointAdvanced) typ() string { return "RecoveryPointAdvanced" }
func (*LogStartAdvanced) typ() string      { return "LogStartAdvanced" }
func (*SegmentsReplaced) typ() string      { return "SegmentsReplaced" }
func (*LogCleaned) typ() string            { return "LogCleaned" }

func (e *PartitionCreated) apply(m *Manifest) error {
	if m.Topic != "" {
		return fmt.Errorf("partition is created twice")
	}
	m.TopicID, m.Topic, m.Partition, m.About = e.TopicID, e.Topic, e.Partition, e.About
	return nil
}
func (e *SegmentAdded) apply(m *Manifest) error          { return m.add(e.SegmentID) }
func (e *SegmentEnded) apply(m *Manifest) error          { return m.endAt(e) }
func (e *LeaderEpochStarted) apply(m *Manifest) error    { return m.startEpoch(EpochStart(*e)) }
func (e *RecoveryPointAdvanced) apply(m *Manifest) error { return m.recover(RecoveryPoint(*e)) }
func (e *LogStartAdvanced) apply(m *Manifest) error      { return m.startLog(e.Offset) }
func (e *SegmentsReplaced) apply(m *Manifest) error      { return m.replace(e.Old, e.New) }
func (e *LogCleaned) apply(m *Manifest) error            { m.Cleaned = max(m.Cleaned, e.Offset); return nil }

var facts = map[string]func() fact{
	"PartitionCreated":      func() fact { return new(PartitionCreated) },
	"SegmentAdded":          func() fact { return new(SegmentAdded) },
	"SegmentEnded":          func() fact { return new(SegmentEnded) },
	"LeaderEpochStarted":    func() fact { return new(LeaderEpochStarted) },
	"RecoveryPointAdvanced": func() fact { return new(RecoveryPointAdvanced) },
	"LogStartAdvanced":      func() fact { return new(LogStartAdvanced) },
	"ProducersAdvanced":     func() fact { return new(ProducersAdvanced) },
	"SegmentsReplaced":      func() fact { return new(SegmentsReplaced) },
	"LogCleaned":            func() fact { return new(LogCleaned) },
	"TopicDescribed":        func() fact { return new(TopicDescribed) },
}

// ManifestSchema folds a manifest's stream.
func ManifestSchema() *metalog.Schema[*Manifest] {
	return &metalog.Schema[*Manifest]{
		New:    func() *Manifest { return &Manifest{} },
		Apply:  applyEvents,
		Encode: encodeManifest,
		Decode: decodeManifest,
		Known:  func(ev metalog.Event) bool { return facts[ev.Type] != nil },
	}
}

func applyEvents(m *Manifest, evs []metalog.Event) (*Manifest, error) {
	m = m.clone()
	for _, ev := range evs {
		if facts[ev.Type] == nil {
			continue // of a newer build; Known reports it
		}
		f, err := decodeFact(ev)
		if err == nil {
			err = f.apply(m)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", ev.Type, err)
		}
	}
	return m, nil
}

func decodeFact(ev metalog.Event) (fact, error) {
	f := facts[ev.Type]()
	return f, msgpack.Unmarshal(ev.Data, f)
}

// DecodeEvent returns a manifest's event as a pointer to its type, or an error.
func DecodeEvent(ev metalog.Event) (any, error) {
	if facts[ev.Type] == nil {
		return nil, fmt.Errorf("event type %q is unknown to this build", ev.Type)
	}
	return decodeFact(ev)
}

// Describe is an event as one line for people.
func Describe(ev metalog.Event) (string, error) {
	f, err := DecodeEvent(ev)
	if err != nil {
		return "", err
	}
	switch e := f.(type) {
	case *PartitionCreated:
		return fmt.Sprintf("PartitionCreated %s-%d of topic %s", e.Topic, e.Partition, hex.EncodeToString(e.TopicID[:])), nil
	case *ProducersAdvanced: // there may be thousands
		return fmt.Sprintf("ProducersAdvanced to offset %d: %d changed, %d dropped", e.Offset, len(e.Changed), len(e.Dropped)), nil
	}
	b, err := json.Marshal(f)
	return ev.Type + " " + string(b), err
}

func encodeFacts(fs ...fact) ([]metalog.Event, error) {
	evs := make([]metalog.Event, len(fs))
	for i, f := range fs {
		ev, err := metalog.NewEvent(f.typ(), f)
		if err != nil {
			return nil, err
		}
		evs[i] = ev
	}
	return evs, nil
}

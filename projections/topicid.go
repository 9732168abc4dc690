package projections

import (
	"encoding/hex"
	"fmt"

	"github.com/google/uuid"
	"github.com/vmihailenco/msgpack/v5"
)

// TopicID is a topic's identity (KIP-516). The zero value names no topic.
type TopicID [16]byte

// NewTopicID returns an ID that no topic has. Its base64 form, as Kafka's tools
// print it, does not begin with a dash, which they would take for an option.
func NewTopicID() TopicID {
	for {
		if id := TopicID(uuid.New()); id[0]>>2 != 62 {
			return id
		}
	}
}

// String is the name of the topic's directory: 32 hex digits.
func (id TopicID) String() string { return hex.EncodeToString(id[:]) }

// IsZero reports whether id names no topic.
func (id TopicID) IsZero() bool { return id == TopicID{} }

// ParseTopicID is the strict inverse of String.
func ParseTopicID(s string) (TopicID, error) {
	var id TopicID
	if len(s) == hex.EncodedLen(len(id)) {
		if _, err := hex.Decode(id[:], []byte(s)); err == nil && id.String() == s && !id.IsZero() {
			return id, nil
		}
	}
	return TopicID{}, fmt.Errorf("%q is not a topic ID (32 hex digits)", s)
}

// MarshalText makes IDs readable in JSON and YAML.
func (id TopicID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (id *TopicID) UnmarshalText(b []byte) error {
	got, err := ParseTopicID(string(b))
	if err == nil {
		*id = got
	}
	return err
}

// EncodeMsgpack writes the 16 bytes; the text form would take twice the room.
func (id TopicID) EncodeMsgpack(e *msgpack.Encoder) error { return e.EncodeBytes(id[:]) }

// DecodeMsgpack reads what EncodeMsgpack wrote.
func (id *TopicID) DecodeMsgpack(d *msgpack.Decoder) error {
	n, err := d.DecodeBytesLen()
	if err != nil {
		return err
	}
	if n != len(id) {
		return fmt.Errorf("a topic ID of %d bytes", n)
	}
	return d.ReadFull(id[:])
}

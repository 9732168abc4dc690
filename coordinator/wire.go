package coordinator

import (
	"encoding/binary"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/projections"
)

// Tags of our own in BrokerRegistration, BrokerHeartbeat and its answer. Kafka's numbers
// are small, and who does not know a tag skips it.
const (
	// PositionTag is a position of the cluster stream. In a heartbeat: up to where the
	// broker follows. In an answer, also of an admin request: the newest that the
	// controller has committed.
	PositionTag = 10000
	unservedTag = 10001 // partitions that the broker is to serve and does not, or still has
	sessionTag  = 10002 // the broker's data session
)

// AppendPosition encodes a position as the tag holds it.
func AppendPosition(b []byte, p substrate.Position) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(p.Epoch))
	return binary.BigEndian.AppendUint64(b, p.Seq)
}

// ParsePosition decodes what AppendPosition gives.
func ParsePosition(b []byte) (substrate.Position, bool) {
	if len(b) != 16 {
		return substrate.Position{}, false
	}
	return substrate.Position{Epoch: substrate.Epoch(binary.BigEndian.Uint64(b)), Seq: binary.BigEndian.Uint64(b[8:])}, true
}

// TaggedPosition is the position among a message's unknown tags.
func TaggedPosition(tags *kmsg.Tags) (substrate.Position, bool) {
	b, _ := tag(tags, PositionTag)
	return ParsePosition(b)
}

func tag(tags *kmsg.Tags, key uint32) (val []byte, ok bool) {
	tags.Each(func(k uint32, v []byte) {
		if k == key {
			val, ok = v, true
		}
	})
	return val, ok
}

// place is a partition by what does not change.
type place struct {
	topic projections.TopicID
	index int32
}

// unserved says of a partition that its leader does not serve it under the epoch that it
// was given. next is 0 while it is being opened; above 0, opening it has failed, or it
// has ended, and next is above every epoch that its stream shows. stillHeld says that the
// broker is no leader of it any more, and has not let go of its files yet.
type unserved struct {
	place
	epoch, next int32
}

const stillHeld = -1

const unservedBytes = 16 + 3*4

func appendUnserved(b []byte, us []unserved) []byte {
	for _, u := range us {
		b = append(b, u.topic[:]...)
		b = binary.BigEndian.AppendUint32(b, uint32(u.index))
		b = binary.BigEndian.AppendUint32(b, uint32(u.epoch))
		b = binary.BigEndian.AppendUint32(b, uint32(u.next))
	}
	return b
}

func parseUnserved(b []byte) ([]unserved, error) {
	if len(b)%unservedBytes != 0 {
		return nil, fmt.Errorf("tag %d has %d bytes, no multiple of %d", unservedTag, len(b), unservedBytes)
	}
	us := make([]unserved, 0, len(b)/unservedBytes)
	for ; len(b) > 0; b = b[unservedBytes:] {
		u := unserved{place: place{projections.TopicID(b[:16]), int32(binary.BigEndian.Uint32(b[16:]))},
			epoch: int32(binary.BigEndian.Uint32(b[20:])), next: int32(binary.BigEndian.Uint32(b[24:]))}
		us = append(us, u)
	}
	return us, nil
}

package coordinator

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"

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
	unservedTag = 10001 // places that the broker is to serve and does not, or still has
	sessionTag  = 10002 // the broker's data session
	fencesTag   = 10003 // producers that the broker wants fenced, with their least epochs
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

// place is what has a leader, by what does not change: a partition of a topic, or a
// coordinator's shard of a kind.
type place struct {
	kind  projections.ShardKind // of a shard; empty for a partition
	topic projections.TopicID   // of a partition; zero for a shard
	index int32
}

// compare gives places one order.
func (p place) compare(q place) int {
	return cmp.Or(cmp.Compare(p.kind, q.kind), slices.Compare(p.topic[:], q.topic[:]), cmp.Compare(p.index, q.index))
}

// shardKinds are the kinds of shards by their number on the wire, where 0 is a partition.
var shardKinds = []projections.ShardKind{"", projections.ShardGroups, projections.ShardTxns}

// unserved says of a place that its leader does not serve it under the epoch that it
// was given. next is 0 while it is being opened; above 0, opening it has failed, or it
// has ended, and next is above every epoch that its stream shows. stillHeld says that the
// broker is no leader of it any more, and has not let go of its files yet.
type unserved struct {
	place
	epoch, next int32
}

const stillHeld = -1

const unservedBytes = 1 + 16 + 3*4

func appendUnserved(b []byte, us []unserved) []byte {
	for _, u := range us {
		b = append(b, byte(slices.Index(shardKinds, u.kind)))
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
		if int(b[0]) >= len(shardKinds) {
			return nil, fmt.Errorf("tag %d has a place of unknown kind %d", unservedTag, b[0])
		}
		at := place{shardKinds[b[0]], projections.TopicID(b[1:17]), int32(binary.BigEndian.Uint32(b[17:]))}
		us = append(us, unserved{place: at, epoch: int32(binary.BigEndian.Uint32(b[21:])), next: int32(binary.BigEndian.Uint32(b[25:]))})
	}
	return us, nil
}

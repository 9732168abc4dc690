package projections

import (
	"fmt"
	"math"
	"strconv"
	"unicode/utf16"
)

// MaxShards is the most shards that a kind may have.
const MaxShards = 10_000

// ShardKind says what kind of keys fall into shards.
type ShardKind string

// The kinds of shards there are.
const (
	ShardGroups ShardKind = "groups" // consumer groups, by group ID
	ShardTxns   ShardKind = "txns"   // transactions, by transactional ID
)

// ShardName is the name of a shard's stream: its number, in two digits at least.
func ShardName(shard int32) string { return fmt.Sprintf("%02d", shard) }

// ParseShardName is the strict inverse of ShardName.
func ParseShardName(name string) (int32, error) {
	n, err := strconv.ParseInt(name, 10, 32)
	if err != nil || n < 0 || ShardName(int32(n)) != name {
		return 0, fmt.Errorf("%q is not the number of a shard (two digits at least)", name)
	}
	return int32(n), nil
}

// Shards returns the shards of a kind, who owns each being its Leader. It is empty
// until ShardsMade.
func (c *Cluster) Shards(kind ShardKind) []Partition { return c.shards[kind] }

// ShardOf returns the shard that a key falls into, which is the one that Kafka's
// coordinators choose: the absolute value of its hash, where it has one, modulo the
// number of shards. ok is false until ShardsMade.
func (c *Cluster) ShardOf(kind ShardKind, key string) (shard int32, ok bool) {
	n := int32(len(c.shards[kind]))
	if n == 0 {
		return 0, false
	}
	return magnitude(javaHash(key)) % n, true
}

// magnitude is the absolute value, and 0 for the one number that has none.
func magnitude(h int32) int32 {
	switch {
	case h == math.MinInt32:
		return 0
	case h < 0:
		return -h
	}
	return h
}

// javaHash is Java's String.hashCode: over UTF-16 units, not bytes.
func javaHash(s string) int32 {
	h := int32(0)
	for _, r := range s {
		if hi, lo := utf16.EncodeRune(r); r > 0xffff {
			h = 31*(31*h+hi) + lo
		} else {
			h = 31*h + r
		}
	}
	return h
}

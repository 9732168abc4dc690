package projections

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// MaxPartitions is the most partitions that a topic may have.
const MaxPartitions = 100_000

// NoLeader stands for no broker: the leader of a partition that nobody serves.
const NoLeader int32 = -1

// Topic is a topic of a view. Its fields are read, never written.
type Topic struct {
	ID         TopicID           `json:"id"`
	Name       string            `json:"name"`
	Partitions []Partition       `json:"partitions"`
	Configs    map[string]string `json:"configs"` // only what was set
	CreatedAt  time.Time         `json:"created_at"`
}

// Partition says who leads a partition, or owns a shard. Epoch is Kafka's leader
// epoch and the epoch of the stream that the leader claims; 0 until a leader was
// named. Handover says that the leader before it was asked to close: the new one
// claims only after it has listed that.
type Partition struct {
	Leader   int32 `json:"leader"`
	Epoch    int32 `json:"epoch"`
	Handover bool  `json:"handover,omitempty"`
}

// clone copies what an event may change. Configs is replaced whole by who changes it.
func (t *Topic) clone() *Topic {
	c := *t
	c.Partitions = slices.Clone(t.Partitions)
	return &c
}

func (t *Topic) equal(u *Topic) bool {
	return t.ID == u.ID && t.Name == u.Name && t.CreatedAt.Equal(u.CreatedAt) &&
		slices.Equal(t.Partitions, u.Partitions) && maps.Equal(t.Configs, u.Configs)
}

// grow makes the topic n partitions wide, the new ones without a leader.
func (t *Topic) grow(n int32) { t.Partitions = withLeaderless(t.Partitions, n) }

// withLeaderless appends partitions without a leader until there are n.
func withLeaderless(ps []Partition, n int32) []Partition {
	ps = slices.Grow(ps, max(0, int(n)-len(ps)))
	for int32(len(ps)) < n {
		ps = append(ps, Partition{Leader: NoLeader})
	}
	return ps
}

// ledBy says in words who leads, for a line of the log.
func ledBy(verb string, leader, epoch int32, handover bool) string {
	s := fmt.Sprintf("%s broker %d, epoch %d", verb, leader, epoch)
	if leader == NoLeader {
		s = fmt.Sprintf("%s nobody, epoch %d", verb, epoch)
	}
	if handover {
		s += ", by handover"
	}
	return s
}

package projections

import (
	"maps"
	"slices"
	"time"
)

// MaxPartitions is the most partitions that a topic may have.
const MaxPartitions = 100_000

// NoLeader is the leader of a partition that no broker serves.
const NoLeader int32 = -1

// Topic is a topic of a view. Its fields are read, never written.
type Topic struct {
	ID         TopicID           `json:"id"`
	Name       string            `json:"name"`
	Partitions []Partition       `json:"partitions"`
	Configs    map[string]string `json:"configs"` // only what was set
	CreatedAt  time.Time         `json:"created_at"`
}

// Partition says who leads. Epoch is Kafka's leader epoch and the epoch of the
// partition's manifest stream; 0 until a leader was named.
type Partition struct {
	Leader int32 `json:"leader"`
	Epoch  int32 `json:"epoch"`
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
func (t *Topic) grow(n int32) {
	for int32(len(t.Partitions)) < n {
		t.Partitions = append(t.Partitions, Partition{Leader: NoLeader})
	}
}

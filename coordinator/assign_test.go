package coordinator

import (
	"testing"

	"kaas.dev/kaas/metalog"
	"kaas.dev/kaas/projections"
)

// What a dead broker led is given to others. What one leads that lives and stops is not: it
// hands that over.
func TestOrphansAreOfTheDead(t *testing.T) {
	id := projections.TopicID{1}
	fs := []projections.Fact{&projections.TopicCreated{ID: id, Name: "t", Partitions: 6}}
	for b := range int32(3) {
		fs = append(fs, &projections.BrokerRegistered{ID: b, Epoch: int64(b) + 1}, &projections.BrokerUnfenced{ID: b, Epoch: int64(b) + 1})
	}
	for i := range int32(6) {
		fs = append(fs, &projections.PartitionLeaderChanged{TopicID: id, Partition: i, Leader: i % 3, Epoch: 1})
	}
	var evs []metalog.Event
	for _, f := range fs {
		ev, err := projections.NewEvent(f)
		if err != nil {
			t.Fatal(err)
		}
		evs = append(evs, ev)
	}
	view, err := projections.Apply(projections.NewCluster(), evs)
	if err != nil {
		t.Fatal(err)
	}
	given := map[int32]int32{}
	for _, f := range orphans(view, []int32{0}, 2) { // 1 lives and stops, 2 is fenced in the same entry
		if c, ok := f.(*projections.PartitionLeaderChanged); ok {
			given[c.Partition] = c.Leader
		}
	}
	if len(given) != 2 || given[2] != 0 || given[5] != 0 {
		t.Errorf("given: %v, want 2 and 5 to broker 0", given)
	}
}

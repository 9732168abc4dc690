package history

import (
	"fmt"
	"maps"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"kaas.dev/kaas/projections"
	"kaas.dev/kaas/projections/groups"
)

func someOffsets(t *rapid.T, name string) groups.Offsets {
	out := groups.Offsets{}
	for topic := range byte(3) {
		ps := rapid.MapOfN(rapid.Int32Range(0, 4), rapid.Int64Range(0, 2), 0, 4).Draw(t, fmt.Sprint(name, topic))
		for p, o := range ps {
			if out[projections.TopicID{topic + 1}] == nil {
				out[projections.TopicID{topic + 1}] = map[int32]groups.Offset{}
			}
			out[projections.TopicID{topic + 1}][p] = groups.Offset{Offset: o, LeaderEpoch: -1, Expires: -1}
		}
	}
	return out
}

func someGroup(t *rapid.T, name string) *groups.Group {
	g := &groups.Group{ID: "g", Offsets: someOffsets(t, name), EmptySince: rapid.Int64Range(0, 1).Draw(t, name+" empty"), Pending: map[int64]groups.Pending{}}
	for producer, epoch := range rapid.MapOfN(rapid.Int64Range(1, 3), rapid.Int16Range(0, 1), 0, 3).Draw(t, name+" producers") {
		g.Pending[producer] = groups.Pending{Epoch: epoch, Offsets: someOffsets(t, fmt.Sprint(name, producer))}
	}
	return g
}

// TestNarrowedDiffIsTheDiff: what is left out beforehand is what did not change, and what is
// compared is not changed by it.
func TestNarrowedDiffIsTheDiff(t *testing.T) {
	names := func(id projections.TopicID) string { return id.String() }
	rapid.Check(t, func(t *rapid.T) {
		a, b := someGroup(t, "a"), someGroup(t, "b")
		before := maps.Clone(a.Offsets)
		want := diffObjects(groupObjects(a, names), groupObjects(b, names))
		x, y := narrowed(a, b)
		if got := diffObjects(groupObjects(x, names), groupObjects(y, names)); !reflect.DeepEqual(got, want) {
			t.Fatalf("%v, not %v", got, want)
		}
		if !reflect.DeepEqual(a.Offsets, before) {
			t.Fatal("the group was changed")
		}
	})
}

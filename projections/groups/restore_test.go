package groups

import (
	"bytes"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"kaas.dev/kaas/metalog"
	"kaas.dev/kaas/projections"
)

func all() Restoring {
	return Restoring{Lives: func(projections.TopicID) bool { return true }, Time: 5000}
}

func after(t rapid.TB, s *Shard, fs ...Fact) *Shard {
	t.Helper()
	for _, f := range fs {
		s = fold(t, s, []metalog.Event{mustEvent(t, f)})
	}
	return s
}

func committedAt(group string, topic, partition int, offset int64) Fact {
	return &OffsetsCommitted{Group: group, Time: 1000, Topics: []TopicOffsets{{id(topic), []PartitionOffset{{int32(partition), offset, 3, "", -1}}}}}
}

func membersAt(group string, generation int32, ids ...string) Fact {
	c := Classic{ProtocolType: "consumer", Generation: generation, Protocol: "range"}
	for _, id := range ids {
		c.Members = append(c.Members, ClassicMember{ID: id})
		c.Leader = id
	}
	return &ClassicGroupChanged{Group: group, Time: 1000, State: c}
}

// What is picked is as it was then, what is not is as it is now, and what is staged is what
// is staged now.
func TestRestoreBringsOffsetsBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		then := fold(t, NewShard(), anyEvents(t))
		now := fold(t, then, anyEvents(t))
		o := Restoring{Lives: func(id projections.TopicID) bool { return id[15] != 2 }, Time: 5000,
			Pick:  func(group string, topic projections.TopicID) bool { return group != "b" },
			Prune: rapid.Bool().Draw(t, "prune")}
		before := mustEncode(t, now)
		got, _ := Restore(then, now, o)
		if !bytes.Equal(mustEncode(t, now), before) {
			t.Fatal("the view of now has changed")
		}
		back, err := Decode(mustEncode(t, got))
		if err != nil || !equal(back, got) {
			t.Fatalf("a base does not hold it: %v", err)
		}
		if again, rs := Restore(then, got, o); !equal(again, got) || slices.ContainsFunc(rs, func(r GroupRestored) bool { return len(r.Changes) > 0 }) {
			t.Fatalf("restoring twice changes %v", rs)
		}
		if !equal1(got.Group("b"), now.Group("b")) {
			t.Fatalf("group b is %+v, was %+v", got.Group("b"), now.Group("b"))
		}
		for g := range then.Groups() {
			for topic, ps := range g.Offsets {
				for p, old := range ps {
					if !o.Pick(g.ID, topic) || !o.Lives(topic) {
						continue
					}
					if cur, ok := got.Group(g.ID).At(topic, p); !ok || cur.Offset != old.Offset || cur.Metadata != old.Metadata {
						t.Fatalf("%s %v/%d is at %+v, was at %+v", g.ID, topic, p, cur, old)
					}
				}
			}
		}
		for g := range now.Groups() {
			r := got.Group(g.ID)
			if len(g.Pending) > 0 && (r == nil || len(r.Pending) != len(g.Pending)) {
				t.Fatalf("group %s has %v staged, had %v", g.ID, r, g.Pending)
			}
			for topic, ps := range g.Offsets {
				for p, cur := range ps {
					wasThere := false
					if old := then.Group(g.ID); old != nil {
						_, wasThere = old.At(topic, p)
					}
					if !wasThere && !(o.Prune && o.Pick(g.ID, topic)) {
						if kept, ok := r.At(topic, p); !ok || kept != cur {
							t.Fatalf("%s %v/%d, committed since, is at %+v, was at %+v", g.ID, topic, p, kept, cur)
						}
					}
				}
			}
		}
		for g := range got.Groups() {
			if was := then.Group(g.ID); was != nil && now.Group(g.ID) == nil && len(g.Pending) > 0 {
				t.Fatalf("%+v has staged offsets of transactions that are over", g)
			}
		}
	})
}

func equal1(a, b *Group) bool {
	one := func(g *Group) *Shard {
		if g == nil {
			return NewShard()
		}
		return &Shard{newTable([]*Group{g})}
	}
	return equal(one(a), one(b))
}

// Members of a group whose offsets change have to join anew; others are left alone.
func TestRestoreDisbandsOnlyWhatItChanges(t *testing.T) {
	then := after(t, NewShard(), committedAt("a", 1, 0, 10), membersAt("a", 4, "m"), committedAt("b", 1, 0, 20), membersAt("b", 2, "n"))
	now := after(t, then, committedAt("a", 1, 0, 99), membersAt("a", 7, "m", "o"))
	got, rs := Restore(then, now, all())
	a := got.Group("a")
	if a.HasMembers() || a.Classic.Generation != 8 || a.Classic.ProtocolType != "consumer" || a.EmptySince != 5000 {
		t.Errorf("a is %+v, %+v", a, a.Classic)
	}
	if o, _ := a.At(id(1), 0); o != (Offset{Offset: 10, LeaderEpoch: 3, Committed: 5000, Expires: -1}) {
		t.Errorf("a is at %+v", o)
	}
	if !equal1(got.Group("b"), now.Group("b")) {
		t.Errorf("b is %+v", got.Group("b"))
	}
	if len(rs) != 1 || rs[0].Members != 2 || len(rs[0].Changes) != 1 || rs[0].Changes[0] != (OffsetRestored{id(1), 0, 99, 10}) {
		t.Errorf("told %+v", rs)
	}
}

func TestRestoreOfADeletedGroup(t *testing.T) {
	old := &OffsetsCommitted{Group: "a", Time: 1000, Topics: []TopicOffsets{{id(1), []PartitionOffset{{0, 10, 3, "", 2000}}}, {id(2), []PartitionOffset{{0, 5, 3, "", -1}}}}}
	then := after(t, NewShard(), old, membersAt("a", 4, "m"), &TxnOffsetsStaged{Group: "a", Producer: 7, Epoch: 1, Time: 1, Topics: []TopicOffsets{{id(1), []PartitionOffset{{1, 77, 3, "", -1}}}}})
	now := after(t, then, &GroupDeleted{"a"})
	o := all()
	o.Lives = func(topic projections.TopicID) bool { return topic != id(2) }
	got, rs := Restore(then, now, o)
	a := got.Group("a")
	if a == nil || a.HasMembers() || a.Classic.Generation != 5 || len(a.Pending) != 0 || len(a.Offsets) != 1 {
		t.Fatalf("a is %+v", a)
	}
	// The time that it was to be kept until has passed: the group's retention holds.
	if at, _ := a.At(id(1), 0); at.Expires != -1 || at.Committed != 5000 {
		t.Errorf("a is at %+v", at)
	}
	if len(rs) != 1 || rs[0].LeftOut[id(2)] != 1 || rs[0].Changes[0].Now != -1 {
		t.Errorf("told %+v", rs)
	}
}

// A restored offset is later than what was staged before, whose transaction goes on.
func TestRestoreOverrulesWhatIsStaged(t *testing.T) {
	then := after(t, NewShard(), committedAt("a", 1, 0, 10))
	now := after(t, then, committedAt("a", 1, 0, 50), &TxnOffsetsStaged{Group: "a", Producer: 7, Epoch: 1, Time: 1, Topics: []TopicOffsets{{id(1), []PartitionOffset{{0, 60, 3, "", -1}, {1, 61, 3, "", -1}}}}})
	got, rs := Restore(then, now, all())
	if !got.Group("a").Unstable(id(1), 0) || rs[0].Staged != 1 {
		t.Fatalf("nothing is staged any more, told %+v", rs)
	}
	got = after(t, got, &TxnOffsetsEnded{Group: "a", Producer: 7, Committed: true, Time: 6000})
	if at, _ := got.Group("a").At(id(1), 0); at.Offset != 10 {
		t.Errorf("after the transaction it is at %d", at.Offset)
	}
	if at, _ := got.Group("a").At(id(1), 1); at.Offset != 61 {
		t.Errorf("the other partition is at %d", at.Offset)
	}
}

func TestRestorePrunesGroups(t *testing.T) {
	then := after(t, NewShard(), committedAt("a", 1, 0, 10))
	now := after(t, then, committedAt("b", 1, 0, 20), membersAt("b", 1, "m"), committedAt("a", 1, 1, 5))
	kept, rs := Restore(then, now, all())
	if !equal(kept, now) || len(rs) != 0 {
		t.Errorf("without prune: told %+v", rs)
	}
	o := all()
	o.Prune = true
	got, rs := Restore(then, now, o)
	if got.Group("b") != nil || len(rs) != 2 || rs[1].Members != 1 {
		t.Errorf("b is %+v, told %+v", got.Group("b"), rs)
	}
	if _, ok := got.Group("a").At(id(1), 1); ok {
		t.Error("an offset that was not there then is kept")
	}
}

// An epoch of the next-generation protocol goes on rising.
func TestRestoreOfAConsumerGroup(t *testing.T) {
	then := after(t, NewShard(), committedAt("a", 1, 0, 10))
	now := after(t, then, committedAt("a", 1, 0, 50), &ConsumerMemberChanged{"a", ConsumerMember{ID: "m", Epoch: 6}}, &ConsumerGroupChanged{"a", 1, 6, 1},
		&ConsumerTargetChanged{"a", 6, "uniform", Targets{"m": {id(1): {0}}}})
	got, _ := Restore(then, now, all())
	c := got.Group("a").Consumer
	if c == nil || c.Epoch != 7 || c.TargetEpoch != 7 || len(c.Members)+len(c.Target) != 0 {
		t.Errorf("a is %+v", c)
	}
}

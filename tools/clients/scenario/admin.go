package scenario

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// admin works on what data and groups have left.
func (r *run) admin() (c chain) {
	data, more := r.topic("data"), r.topic("more")
	group, topic := r.topic("group-classic"), r.topic("classic")
	c.add("list offsets", func() error {
		return First(
			r.offsetIs(data, 0, Earliest, 0),
			r.offsetIs(data, 0, Latest, SampleSize),
			r.offsetIs(data, 0, sampleTime+3000, 3),
			r.offsetIs(data, 0, sampleTime+3001, 4),
		)
	})
	c.add("describe configs", func() error {
		return First(r.configIs(data, "retention.ms", "-1", true), r.configIs(data, "cleanup.policy", "delete", false))
	})
	c.add("alter configs", func() error {
		return First(
			r.SetConfig(r.ctx, more, "segment.bytes", "1048576"),
			eventually(func() error { return r.configIs(more, "segment.bytes", "1048576", true) }),
		)
	})
	c.add("alter configs to nonsense", func() error {
		err := r.SetConfig(r.ctx, more, "segment.bytes", "many")
		return First(r.refused(err, 40), eventually(func() error { return r.configIs(more, "segment.bytes", "1048576", true) }))
	})
	c.add("create partitions", func() error {
		if err := r.AddPartitions(r.ctx, more, 5); err != nil {
			return err
		}
		if err := eventually(func() error { return r.partitionsAre(more, 5) }); err != nil {
			return err
		}
		// Another broker may show fewer still, which some clients do not ask again about.
		to := Target{Topic: more, Partition: 4, Codec: "none"}
		if err := eventually(func() error { return r.Produce(r.ctx, to, plain("added", 0, 5)) }); err != nil {
			return fmt.Errorf("write: %w", err)
		}
		got, err := r.Fetch(r.ctx, more, 4, 5, false)
		return First(err, r.same(got, plain("added", 0, 5)))
	})
	c.add("create partitions that are fewer", func() error { return r.refused(r.AddPartitions(r.ctx, more, 2), 37) })
	c.add("delete records", func() error {
		return First(r.DeleteBefore(r.ctx, data, 0, 4), r.offsetIs(data, 0, Earliest, 4))
	})
	c.add("list groups", func() error {
		all, err := r.Groups(r.ctx)
		if err == nil && !slices.Contains(all, group) {
			err = fmt.Errorf("%s is not in %v", group, all)
		}
		return err
	})
	c.add("describe group", func() error {
		state, members, err := r.GroupState(r.ctx, group)
		if err == nil && (state != "Empty" || members != 0) {
			err = fmt.Errorf("%s with %d members", state, members)
		}
		return err
	})
	c.add("describe group with members", func() error { return r.busyGroup(topic) })
	c.add("group offsets", func() error {
		return r.committedIs(group, topic, map[int32]int64{0: 3 * each, 1: 3 * each, 2: 3 * each, 3: 3 * each})
	})
	c.add("alter group offsets", func() error {
		return First(
			r.SetCommitted(r.ctx, group, topic, map[int32]int64{0: 7}),
			r.committedIs(group, topic, map[int32]int64{0: 7, 1: 3 * each, 2: 3 * each, 3: 3 * each}),
		)
	})
	c.add("delete group offsets", func() error {
		return First(
			r.DeleteOffset(r.ctx, group, topic, 3),
			r.committedIs(group, topic, map[int32]int64{0: 7, 1: 3 * each, 2: 3 * each}),
		)
	})
	c.add("delete group", func() error { return r.DeleteGroup(r.ctx, group) })
	c.add("delete group again", func() error { return r.refused(r.DeleteGroup(r.ctx, group), 69) })
	c.add("delete topic", func() error {
		if err := r.DeleteTopic(r.ctx, topic); err != nil {
			return err
		}
		return eventually(func() error {
			n, err := r.Partitions(r.ctx, topic)
			if err == nil {
				return fmt.Errorf("it still has %d partitions", n)
			}
			return r.refused(err, 3)
		})
	})
	c.add("delete topic again", func() error { return r.refused(r.DeleteTopic(r.ctx, topic), 3) })
	return c
}

// busyGroup describes a group that has a member, and tries to delete it.
func (r *run) busyGroup(topic string) error {
	group := r.topic("group-busy")
	m, err := r.Join(r.ctx, Membership{Group: group, Topic: topic})
	if err != nil {
		return err
	}
	deadline := time.Now().Add(patience)
	for len(m.Assigned()) < groupPartitions && time.Now().Before(deadline) {
		if _, err := m.Poll(50 * time.Millisecond); err != nil {
			return err
		}
	}
	state, members, err := r.GroupState(r.ctx, group)
	if err == nil && (state != "Stable" || members != 1) {
		err = fmt.Errorf("%s with %d members", state, members)
	}
	if err == nil && r.Skip["delete group"] == "" {
		err = r.refused(r.DeleteGroup(r.ctx, group), 68)
	}
	return First(err, m.Close())
}

func (r *run) configIs(topic, name, value string, set bool) error {
	got, isSet, err := r.Config(r.ctx, topic, name)
	if err == nil && (got != value || isSet != set) {
		err = fmt.Errorf("%s is %q (set: %t), want %q (%t)", name, got, isSet, value, set)
	}
	return err
}

func (r *run) committedIs(group, topic string, want map[int32]int64) error {
	got, err := r.Committed(r.ctx, group, topic)
	if err == nil && !maps.Equal(got, want) {
		err = fmt.Errorf("offsets %v, want %v", got, want)
	}
	return err
}

// eventually tries again until nothing is wrong, or for long enough. What one broker has
// done, another may show a moment later.
func eventually(f func() error) error {
	deadline := time.Now().Add(patience)
	for {
		err := f()
		if err == nil || time.Now().After(deadline) {
			return err
		}
		<-time.After(50 * time.Millisecond)
	}
}

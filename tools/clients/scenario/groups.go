package scenario

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

const (
	groupPartitions = 4
	each            = 10 // records in each partition at a time
	patience        = time.Minute
)

func (r *run) groups() []chain {
	return []chain{
		{{"group classic", func() error { return r.group("classic", false) }}},
		{{"group static", func() error { return r.static("static") }}},
		{{"group consumer", func() error { return r.group("consumer", true) }}},
	}
}

// group has two members share a topic, one leave, and the group go on later where it was.
func (r *run) group(of string, consumer bool) error {
	topic, err := r.create(of, groupPartitions)
	if err != nil {
		return err
	}
	if err := r.fill(topic, 0); err != nil {
		return err
	}
	m := Membership{Group: r.topic("group-" + of), Topic: topic, Consumer: consumer}
	a, err := r.Join(r.ctx, m)
	if err != nil {
		return err
	}
	if err := r.take(0, a); err != nil {
		return fmt.Errorf("a member alone: %w", err)
	}
	if err := r.typeIs(m.Group, consumer); err != nil {
		return err
	}
	b, err := r.Join(r.ctx, m)
	if err != nil {
		return err
	}
	if err := First(shared(a, b), settle(a, b)); err != nil {
		return fmt.Errorf("two members: %w", err)
	}
	if err := r.fill(topic, 1); err != nil {
		return err
	}
	if err := r.take(1, a, b); err != nil {
		return fmt.Errorf("two members: %w", err)
	}
	if err := b.Close(); err != nil {
		return err
	}
	if err := until("the other has all", func() bool { return len(a.Assigned()) == groupPartitions }, a); err != nil {
		return err
	}
	if err := a.Close(); err != nil {
		return err
	}
	if err := r.fill(topic, 2); err != nil {
		return err
	}
	c, err := r.Join(r.ctx, m)
	if err != nil {
		return err
	}
	if err := r.take(2, c); err != nil {
		return fmt.Errorf("a member that goes on: %w", err)
	}
	return c.Close()
}

// typeIs: a client must not fall back to the other protocol and tell nobody.
func (r *run) typeIs(group string, consumer bool) error {
	if r.GroupType == nil {
		return nil
	}
	want := "Classic"
	if consumer {
		want = "Consumer"
	}
	got, err := r.GroupType(r.ctx, group)
	if err == nil && !strings.EqualFold(got, want) {
		err = fmt.Errorf("the group's type is %s, want %s", got, want)
	}
	return err
}

// restarts are the tries that nobody notices one: what a client tells of the rebalance before
// may come late.
const restarts = 3

// static has a static member restart: it gets the same, and nobody else notices.
func (r *run) static(of string) error {
	topic, err := r.create(of, groupPartitions)
	if err != nil {
		return err
	}
	m := Membership{Group: r.topic("group-" + of), Topic: topic}
	m.Instance = "a"
	a, err := r.Join(r.ctx, m)
	if err != nil {
		return err
	}
	m.Instance = "b"
	b, err := r.Join(r.ctx, m)
	if err != nil {
		return err
	}
	if err := First(shared(a, b), settle(a, b)); err != nil {
		return err
	}
	for round := range restarts {
		had, count := b.Assigned(), a.Rebalances()
		if err := b.Close(); err != nil {
			return err
		}
		if b, err = r.Join(r.ctx, m); err != nil {
			return err
		}
		if err := until("the member is back", func() bool { return slices.Equal(b.Assigned(), had) }, b, a); err != nil {
			return err
		}
		if err := r.fill(topic, round); err != nil {
			return err
		}
		if err := r.take(round, a, b); err != nil {
			return err
		}
		if a.Rebalances() == count {
			break
		}
		if round == restarts-1 {
			return errors.New("the other noticed")
		}
	}
	return First(a.Close(), b.Close())
}

// fill writes each's many records into each partition; round counts.
func (r *run) fill(topic string, round int) error {
	for p := range int32(groupPartitions) {
		if err := r.Produce(r.ctx, Target{Topic: topic, Partition: p, Codec: "none"}, plain("group", round*each, each)); err != nil {
			return err
		}
	}
	return nil
}

// take has the members get what fill wrote in a round, all of it and each once, and commit.
func (r *run) take(round int, members ...Member) error {
	got := map[[2]int64]int{}
	deadline := time.Now().Add(patience)
	for len(got) < groupPartitions*each {
		if time.Now().After(deadline) {
			return fmt.Errorf("%d records, want %d", len(got), groupPartitions*each)
		}
		for _, m := range members {
			records, err := m.Poll(50 * time.Millisecond)
			if err != nil {
				return err
			}
			for _, rec := range records {
				if err := r.sameRecord(rec, plain("group", int(rec.Offset), 1)[0]); err != nil {
					return err
				}
				if rec.Offset/each != int64(round) {
					return fmt.Errorf("record %d of partition %d is of another round", rec.Offset, rec.Partition)
				}
				if !slices.Contains(m.Assigned(), rec.Partition) {
					return fmt.Errorf("a record of partition %d from who has %v", rec.Partition, m.Assigned())
				}
				got[[2]int64{int64(rec.Partition), rec.Offset}]++
			}
		}
	}
	for at, n := range got {
		if n > 1 {
			return fmt.Errorf("record %d of partition %d came %d times", at[1], at[0], n)
		}
	}
	for _, m := range members {
		if err := m.Commit(); err != nil {
			return fmt.Errorf("commit: %w", err)
		}
	}
	return nil
}

// shared waits until two members have half of the partitions each.
func shared(a, b Member) error {
	return until("each has half", func() bool {
		all := slices.Sorted(slices.Values(slices.Concat(a.Assigned(), b.Assigned())))
		return len(a.Assigned()) == len(b.Assigned()) && slices.Equal(all, []int32{0, 1, 2, 3})
	}, a, b)
}

// settle waits until the members have had no rebalance for a while, which is longer than a
// fetch may be under way: some clients hand out what comes of one for what they had.
func settle(a, b Member) error {
	for {
		countA, countB := a.Rebalances(), b.Rebalances()
		end := time.Now().Add(500 * time.Millisecond)
		if err := until("a while has passed", func() bool { return time.Now().After(end) }, a, b); err != nil {
			return err
		}
		if a.Rebalances() == countA && b.Rebalances() == countB {
			return nil
		}
	}
}

// until polls members that get no records until cond holds.
func until(what string, cond func() bool, members ...Member) error {
	deadline := time.Now().Add(patience)
	for !cond() {
		if time.Now().After(deadline) {
			has := ""
			for _, m := range members {
				has += fmt.Sprint(" ", m.Assigned())
			}
			return fmt.Errorf("not in time: %s; there is%s", what, has)
		}
		for _, m := range members {
			records, err := m.Poll(50 * time.Millisecond)
			if err != nil {
				return err
			}
			if len(records) > 0 {
				return fmt.Errorf("%d records that nobody wrote, the first at %d of partition %d", len(records), records[0].Offset, records[0].Partition)
			}
		}
	}
	return nil
}

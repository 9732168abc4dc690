package restore

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strconv"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/metalog"
	"kaas.dev/kaas/partition"
	"kaas.dev/kaas/projections"
	"kaas.dev/kaas/projections/groups"
	"kaas.dev/kaas/projections/txns"
)

// Told is what restoring does to a stream, in lines for people.
type Told struct {
	Restored []string      `json:"restored,omitempty"` // what comes to be as it was
	Raised   []string      `json:"raised,omitempty"`   // what stays above what it was
	LeftOut  []string      `json:"left_out,omitempty"` // what was there and does not come back
	Stays    []string      `json:"stays,omitempty"`    // what was made since
	Groups   []GroupChange `json:"groups,omitempty"`
}

// GroupChange is what becomes of a consumer group.
type GroupChange struct {
	Group   string         `json:"group"`
	Members int            `json:"members"` // who join anew
	Offsets []OffsetChange `json:"offsets"`
}

// OffsetChange is a committed offset before and after; -1 is none.
type OffsetChange struct {
	Topic     string              `json:"topic"`
	ID        projections.TopicID `json:"topic_id"`
	Partition int32               `json:"partition"`
	Now       int64               `json:"now"`
	Then      int64               `json:"then"`
}

func say(to *[]string, format string, a ...any) { *to = append(*to, fmt.Sprintf(format, a...)) }

// next is what a stream's state becomes, with the events that make it so; none where it
// is so already.
func (k *stream[S]) next(w *work, s *Saved, now S) (told Told, evs []metalog.Event, err error) {
	then, err := k.schema.Decode(s.State)
	if err != nil {
		return told, nil, fmt.Errorf("%s at %s: %w", s.Stream, s.Pos, err)
	}
	state, after, told, err := k.merge(w, then, now)
	if err != nil {
		return told, nil, fmt.Errorf("%s: %w", s.Stream, err)
	}
	raw, err := k.schema.Encode(state)
	if err != nil {
		return told, nil, err
	}
	same, err := k.schema.Encode(now)
	if err != nil {
		return told, nil, err
	}
	if !bytes.Equal(raw, same) {
		ev, err := k.restored(s.Pos, s.TimeMS, raw)
		if err != nil {
			return told, nil, err
		}
		evs = append(evs, ev)
	}
	return told, append(evs, after...), nil
}

func mergeCluster(w *work, then, now *projections.Cluster) (*projections.Cluster, []metalog.Event, Told, error) {
	var failed error
	r := projections.Restore(then, now, func(id projections.TopicID) int32 {
		n, err := partitionsOf(w.v, id)
		failed = errors.Join(failed, err)
		return n
	})
	told := Told{Restored: r.Restored, Raised: r.Raised, LeftOut: r.LeftOut}
	var fs []projections.Fact
	for _, t := range r.Since {
		if w.Prune {
			fs = append(fs, &projections.TopicDeleted{ID: t.ID, Name: t.Name})
			say(&told.Restored, "topic %s (%s), made since: deleted, with its records", t.Name, t.ID)
		} else {
			say(&told.Stays, "topic %s (%s), made since", t.Name, t.ID)
		}
	}
	after, err := projections.NewEvents(fs...)
	if err = errors.Join(failed, err); err == nil {
		w.cluster, err = projections.Apply(r.View, after) // what the others go by
	}
	return r.View, after, told, err
}

// partitionsOf is how many of a topic's partitions, from 0 on, have a directory. Each was
// put in place complete.
func partitionsOf(v *substrate.Volume, id projections.TopicID) (int32, error) {
	es, err := v.ListFresh(partition.TopicDir(id))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	there := map[string]bool{}
	for _, e := range es {
		there[e.Name] = e.Dir
	}
	n := 0
	for there[strconv.Itoa(n)] {
		n++
	}
	return int32(n), err
}

func mergeGroups(w *work, shard int32, then, now *groups.Shard) (*groups.Shard, []metalog.Event, Told, error) {
	var told Told
	elsewhere := map[string]bool{}
	state, rs := groups.Restore(then, now, groups.Restoring{
		Prune: w.Prune, Time: w.Now().UnixMilli(),
		Lives: func(id projections.TopicID) bool { return w.cluster.TopicByID(id) != nil },
		Pick: func(group string, topic projections.TopicID) bool {
			if n, ok := w.cluster.ShardOf(projections.ShardGroups, group); ok && n != shard {
				elsewhere[group] = true
				return false
			}
			return (len(w.groups) == 0 || w.groups[group]) && (len(w.topics) == 0 || w.topics[topic])
		},
	})
	for _, g := range slices.Sorted(maps.Keys(elsewhere)) {
		say(&told.LeftOut, "group %q: it falls into another shard here", g)
	}
	since := 0
	for _, r := range rs {
		since += r.Since
		if len(r.Changes) > 0 {
			told.Groups = append(told.Groups, w.groupChange(r, &told))
		}
		for _, id := range slices.SortedFunc(maps.Keys(r.LeftOut), func(a, b projections.TopicID) int { return slices.Compare(a[:], b[:]) }) {
			say(&told.LeftOut, "%d offset(s) of group %q: topic %s is gone", r.LeftOut[id], r.Group, id)
		}
	}
	if since > 0 && !w.Prune {
		say(&told.Stays, "%d offset(s) of these groups that were not there then", since)
	}
	return state, nil, told, nil
}

// groupChange puts what becomes of a group into words.
func (w *work) groupChange(r groups.GroupRestored, told *Told) GroupChange {
	c := GroupChange{Group: r.Group, Members: r.Members}
	for _, o := range r.Changes {
		name := o.Topic.String()
		if t := w.cluster.TopicByID(o.Topic); t != nil {
			name = t.Name
		}
		c.Offsets = append(c.Offsets, OffsetChange{Topic: name, ID: o.Topic, Partition: o.Partition, Now: o.Now, Then: o.Then})
	}
	say(&told.Restored, "group %q: %d offset(s), %d member(s) join anew", r.Group, len(r.Changes), r.Members)
	if r.Staged > 0 {
		say(&told.Restored, "group %q: %d offset(s) that open transactions have staged are overruled", r.Group, r.Staged)
	}
	return c
}

func mergeTxns(_ *work, then, now *txns.Shard) (*txns.Shard, []metalog.Event, Told, error) {
	r := txns.Restore(then, now)
	var told Told
	if n := len(r.Fenced); n > 0 {
		say(&told.Restored, "%d transactional ID(s) above the epoch of then: their producers come anew (%s)", n, few(r.Fenced))
	}
	if n := len(r.Aborted); n > 0 {
		say(&told.Restored, "%d open transaction(s) of them are aborted (%s)", n, few(r.Aborted))
	}
	if r.Later > 0 {
		say(&told.Raised, "%d transactional ID(s) stay at later epochs than then", r.Later)
	}
	if n := len(r.Ended); n > 0 {
		say(&told.Raised, "%d transaction(s), open then, stay ended (%s)", n, few(r.Ended))
	}
	if n := len(r.Forgotten); n > 0 {
		say(&told.LeftOut, "%d transactional ID(s) forgotten since: who comes under one gets a new producer ID (%s)", n, few(r.Forgotten))
	}
	return r.Shard, nil, told, nil
}

// few names the first of many.
func few(ids []string) string {
	const most = 5
	s := ""
	for i, id := range ids[:min(len(ids), most)] {
		if i > 0 {
			s += ", "
		}
		s += strconv.Quote(id)
	}
	if len(ids) > most {
		s += ", …"
	}
	return s
}

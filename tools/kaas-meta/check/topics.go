package check

import (
	"context"
	"path"
	"strconv"
	"strings"

	"kaas.dev/kaas/metalog"
	"kaas.dev/kaas/partition"
	"kaas.dev/kaas/projections"
)

// topicsUnit is topics/, and what of it the cluster knows.
type topicsUnit struct{}

func (topicsUnit) look(_ context.Context, e *engine) *seen {
	s := &seen{}
	es, _ := s.list(e, topicsDir)
	there := map[projections.TopicID]bool{}
	for _, de := range es {
		id, err := projections.ParseTopicID(de.Name)
		switch {
		case err == nil && s.isDir(topicsDir, de):
			there[id] = true
			s.below = append(s.below, topicUnit{id})
		case err == nil:
		case len(de.Name) == 32 && strings.Trim(de.Name, "0123456789abcdefABCDEF") == "":
			s.fault(metalog.KindName, path.Join(topicsDir, de.Name), "%v", err)
		default:
			s.other(e, topicsDir, de)
		}
	}
	s.judge = func(s *seen, view *projections.Cluster) {
		for _, t := range view.Topics() {
			if !there[t.ID] {
				s.fault(kindTopicMissing, partition.TopicDir(t.ID), "the cluster has topic %s, of %d partitions, and none of its files is there", t.Name, len(t.Partitions))
			}
		}
	}
	return s
}

// topicUnit is a topic's directory.
type topicUnit struct{ id projections.TopicID }

func (u topicUnit) look(ctx context.Context, e *engine) *seen {
	s, dir := &seen{}, partition.TopicDir(u.id)
	es, ok := s.list(e, dir)
	if !ok {
		return s // deleted since, or told
	}
	s.counts.Topics++
	there := map[int32]bool{}
	for _, de := range es {
		n, err := strconv.ParseInt(de.Name, 10, 32)
		switch ours := err == nil && strconv.Itoa(int(n)) == de.Name && n >= 0; {
		case ours && s.isDir(dir, de):
			there[int32(n)] = true
			s.below = append(s.below, partitionUnit{u.id, int32(n)})
		case ours:
		case digits(de.Name):
			s.fault(metalog.KindName, path.Join(dir, de.Name), "is no partition's name")
		default:
			s.other(e, dir, de)
		}
	}
	led := false
	if e.view != nil && e.view.TopicByID(u.id) == nil {
		led = e.led(ctx, u.id, there)
	}
	s.judge = func(s *seen, view *projections.Cluster) { s.topic(view, u.id, there, led) }
	return s
}

// led reports whether some partition of a topic ever had a leader.
func (e *engine) led(ctx context.Context, id projections.TopicID, parts map[int32]bool) bool {
	for n := range parts {
		r, _, err := metalog.VerifyState(ctx, e.v, partition.ManifestStream(id, n), partition.ManifestSchema())
		if err == nil && e.ledUpTo(r) > 0 {
			return true
		}
	}
	return false
}

// topic compares a topic's directory with what the cluster knows.
func (s *seen) topic(view *projections.Cluster, id projections.TopicID, there map[int32]bool, led bool) {
	dir := partition.TopicDir(id)
	t := view.TopicByID(id)
	if t == nil {
		switch name, removing := view.Removing()[id]; {
		case removing:
			s.note(kindDeleted, dir, "topic %s is deleted; the controller removes its files", name)
		case led:
			s.fault(kindTopicUnknown, dir, "the cluster does not know this topic, but its partitions had leaders: the cluster stream has gone back, or was begun anew")
		default:
			s.note(kindTopicUnnamed, dir, "the cluster does not know this topic, and its partitions never had leaders: its creation was not finished")
		}
		return
	}
	for i := range t.Partitions {
		if !there[int32(i)] {
			s.fault(kindPartitionMissing, partition.Dir(id, int32(i)), "the cluster has %s-%d, and none of its files is there", t.Name, i)
		}
	}
}

// partitionUnit is a partition: its manifest's stream, and its files.
type partitionUnit struct {
	id    projections.TopicID
	index int32
}

func (u partitionUnit) look(ctx context.Context, e *engine) *seen {
	s, stream := &seen{}, partition.ManifestStream(u.id, u.index)
	r, snap, err := metalog.VerifyState(ctx, e.v, stream, partition.ManifestSchema())
	if isNotExist(err) {
		if _, lerr := e.v.ListFresh(partition.Dir(u.id, u.index)); isNotExist(lerr) {
			return s // whether it should be there, its topic's unit tells
		}
	}
	if r = s.stream(e, stream, r, err); r == nil {
		return s
	}
	s.counts.Partitions++
	name := ""
	if snap != nil {
		s.files(ctx, e, u, r, snap.State)
		name = snap.State.Topic
	}
	led := e.ledUpTo(r)
	s.judge = func(s *seen, view *projections.Cluster) {
		t := view.TopicByID(u.id)
		switch {
		case t == nil: // its topic's unit tells
		case int(u.index) >= len(t.Partitions) && led > 0:
			s.fault(kindPartitionAbove, partition.Dir(u.id, u.index), "the cluster has %d partitions of %s, but this one had leaders: the cluster stream has gone back", len(t.Partitions), t.Name)
		case int(u.index) >= len(t.Partitions):
			s.note(kindTopicUnnamed, partition.Dir(u.id, u.index), "the cluster has %d partitions of %s; that this one is added was not finished", len(t.Partitions), t.Name)
		case int64(led) > int64(t.Partitions[u.index].Epoch):
			s.fault(kindEpochAhead, stream, "%s-%d has leader epoch %d, but the cluster has given it only up to %d: the cluster stream has gone back", t.Name, u.index, led, t.Partitions[u.index].Epoch)
		}
		if t != nil && name != "" && name != t.Name {
			s.fault(partition.KindManifest, stream, "is of topic %s, which the cluster knows as %s", name, t.Name)
		}
	}
	return s
}

// files checks a partition's files against its manifest.
func (s *seen) files(ctx context.Context, e *engine, u partitionUnit, r *metalog.Verification, m *partition.Manifest) {
	c, err := partition.CheckFiles(ctx, e.v, u.id, u.index, m, partition.CheckOptions{
		Deep: e.opt.Deep, Claimed: r.Claimed, Living: r.Owner != "" && !r.Closed && e.living(r.Owner),
		Read: func(n int) { e.read.Add(int64(n)); e.tell() },
	})
	if err != nil {
		return // ctx's
	}
	s.counts.Segments += c.Segments
	s.counts.Bytes += c.Admitted
	s.counts.Unadmitted += c.Behind
	s.counts.InProgress += c.Making
	s.findings = append(s.findings, c.Findings...)
	for _, de := range c.Others {
		s.other(e, partition.Dir(u.id, u.index), de)
	}
}

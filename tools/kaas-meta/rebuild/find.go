package rebuild

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/metalog"
	"kaas.dev/kaas/partition"
	"kaas.dev/kaas/projections"
)

// topic is a topic that has files.
type topic struct {
	id    projections.TopicID
	name  string
	parts []*part // of every number
}

// part is a partition that has files, or ought to.
type part struct {
	topic  *topic
	index  int32
	m      *partition.Manifest // nil where it is gone or cannot be read
	why    error               // it will be offline
	wrote  time.Time           // its newest entry
	births time.Time           // its oldest that is kept

	epoch    substrate.Epoch // that it was claimed in
	producer int64           // the highest ID known there
	aborted  []int64         // producers whose transactions were open
	txns     []int64         // producers that ever had one
}

func (p *part) stream() string { return partition.ManifestStream(p.topic.id, p.index) }

var errGone = errors.New("its directory is gone")

// about is the newest that the partitions know of their topic.
func (t *topic) about() partition.About {
	var a partition.About
	for _, p := range t.parts {
		if p.m != nil && p.m.About != nil && !p.m.About.View.Less(a.View) {
			a = *p.m.About
		}
	}
	a.Partitions = max(a.Partitions, int32(len(t.parts)))
	if a.Created == 0 {
		a.Created = t.made().UnixMilli()
	}
	return a
}

// made is when the topic was made, as far as is known.
func (t *topic) made() (at time.Time) {
	for _, p := range t.parts {
		if p.m == nil {
			continue
		}
		if a := p.m.About; a != nil && a.Created != 0 {
			return time.UnixMilli(a.Created)
		}
		if at.IsZero() || p.births.Before(at) {
			at = p.births
		}
	}
	return at
}

func (t *topic) wrote() (at time.Time) {
	for _, p := range t.parts {
		if p.wrote.After(at) {
			at = p.wrote
		}
	}
	return at
}

// findTopics reads every manifest and returns the topics to be, by name. Of two topics with
// one name the one that was made last counts: the other was deleted, or was about to be.
func (r *run) findTopics(ctx context.Context) ([]*topic, error) {
	ids, err := r.topicDirs()
	if err != nil {
		return nil, err
	}
	var mu sync.Mutex
	var found []*topic
	err = r.each(ctx, "topics", len(ids), func(ctx context.Context, i int) error {
		t, err := r.readTopic(ctx, ids[i])
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		if t.name == "" {
			r.out.lose("%s: no manifest in it can be read, so the topic is left out, and its files are left alone", partition.TopicDir(t.id))
			return nil
		}
		found = append(found, t)
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(found, func(a, b *topic) int {
		return cmp.Or(cmp.Compare(a.name, b.name), b.made().Compare(a.made()), b.wrote().Compare(a.wrote()), slices.Compare(a.id[:], b.id[:]))
	})
	var keep []*topic
	for _, t := range found {
		if n := len(keep); n > 0 && keep[n-1].name == t.name {
			r.out.lose("%s has the name %s too, but was made earlier than %s: it is left out, and its files are left alone",
				partition.TopicDir(t.id), t.name, keep[n-1].id)
			continue
		}
		keep = append(keep, t)
	}
	return keep, nil
}

func (r *run) readTopic(ctx context.Context, id projections.TopicID) (*topic, error) {
	there, err := r.partitionsOf(id)
	if err != nil {
		return nil, err
	}
	t := &topic{id: id}
	at := func(i int32) *part {
		for n := int32(len(t.parts)); n <= i; n++ {
			t.parts = append(t.parts, &part{topic: t, index: n, producer: -1, why: errGone})
		}
		return t.parts[i]
	}
	for _, d := range there {
		if d.Index >= projections.MaxPartitions {
			continue
		}
		p := at(d.Index)
		if p.why = r.readPart(ctx, p); p.why != nil && !damaged(p.why) {
			return nil, p.why
		}
		if p.m != nil {
			t.name = p.m.Topic
		}
	}
	if a := t.about(); a.Partitions > 0 {
		at(min(a.Partitions, projections.MaxPartitions) - 1)
	}
	return t, nil
}

func (r *run) readPart(ctx context.Context, p *part) error {
	snap, _, err := metalog.ReadState(ctx, r.v, p.stream(), partition.ManifestSchema())
	if err != nil {
		return err
	}
	m := snap.State
	if projections.TopicID(m.TopicID) != p.topic.id || m.Partition != p.index || projections.ValidateTopicName(m.Topic) != nil {
		return &substrate.DamageError{File: p.stream(), Cause: fmt.Sprintf("it is the manifest of %q, partition %d, topic %x", m.Topic, m.Partition, m.TopicID)}
	}
	e, _, err := metalog.ReadEntry(r.v, p.stream(), snap.Pos)
	if err != nil || e == nil {
		return err
	}
	p.wrote, p.births = e.Time, e.Time
	if ps, err := metalog.Positions(r.v, p.stream()); err == nil && len(ps) > 0 {
		if first, _, err := metalog.ReadEntry(r.v, p.stream(), ps[0]); err == nil && first != nil {
			p.births = first.Time
		}
	}
	p.m = m
	return nil
}

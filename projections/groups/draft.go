package groups

import (
	"cmp"
	"maps"
	"slices"

	"kaas.dev/kaas/projections"
)

// draft is a view under way: a batch of events is applied to it. Groups are the old
// view's until a fact is about them, and are copied only once.
type draft struct {
	old   *Shard
	edits map[string]*edit
}

func newDraft(s *Shard) *draft { return &draft{s, map[string]*edit{}} }

func (d *draft) apply(f Fact) {
	if r, ok := f.(*Restored); ok {
		d.restore(r)
		return
	}
	g := d.edit(f.group())
	f.apply(g)
	g.settle()
}

// edit returns a group, which may be changed.
func (d *draft) edit(id string) *edit {
	g := d.edits[id]
	if g == nil {
		g = &edit{Group: &Group{ID: id}}
		if old := d.old.Group(id); old != nil {
			*g.Group = *old
		}
		d.edits[id] = g
	}
	return g
}

// view ends the draft.
func (d *draft) view() *Shard {
	changes := make([]change, 0, len(d.edits))
	for id, g := range d.edits {
		c := change{id: id}
		if !g.void() {
			c.group = g.Group
		}
		changes = append(changes, c)
	}
	slices.SortFunc(changes, func(a, b change) int { return cmp.Compare(a.id, b.id) })
	return &Shard{d.old.groups.with(changes)}
}

// edit is a group that may be changed, and what in it is its own already.
type edit struct {
	*Group
	own struct {
		offsets, pending, consumer bool
		topics                     map[projections.TopicID]bool
	}
}

// settle keeps what holds for every group, after each fact.
func (g *edit) settle() {
	switch {
	case g.void():
		g.clear()
	case g.HasMembers():
		g.EmptySince = 0
	}
}

// clear leaves nothing of the group.
func (g *edit) clear() { *g = edit{Group: &Group{ID: g.ID}} }

// empty notes that the group may be without members since then, if it was not before.
func (g *edit) empty(at int64) {
	if g.EmptySince == 0 {
		g.EmptySince = max(at, 1) // 0 would say that it has members
	}
}

// topic returns the offsets of a topic, which may be changed.
func (g *edit) topic(id projections.TopicID, hint int) map[int32]Offset {
	if !g.own.offsets {
		g.own.offsets = true
		if g.Offsets = maps.Clone(g.Offsets); g.Offsets == nil {
			g.Offsets = Offsets{}
		}
		g.own.topics = map[projections.TopicID]bool{}
	}
	if !g.own.topics[id] {
		g.own.topics[id] = true
		if g.Offsets[id] == nil {
			g.Offsets[id] = make(map[int32]Offset, hint)
		} else {
			g.Offsets[id] = maps.Clone(g.Offsets[id])
		}
	}
	return g.Offsets[id]
}

// dropOffset takes a committed offset away.
func (g *edit) dropOffset(id projections.TopicID, partition int32) {
	if _, ok := g.Offsets[id][partition]; !ok {
		return
	}
	t := g.topic(id, 0)
	delete(t, partition)
	if len(t) == 0 {
		delete(g.Offsets, id)
		delete(g.own.topics, id)
	}
	if len(g.Offsets) == 0 {
		g.Offsets, g.own.offsets = nil, false
	}
}

// ownPending makes what is staged the draft's, with all that is in it.
func (g *edit) ownPending() {
	if g.own.pending {
		return
	}
	g.own.pending = true
	old := g.Pending
	g.Pending = make(map[int64]Pending, len(old)+1)
	for id, p := range old {
		g.Pending[id] = Pending{p.Epoch, p.Offsets.clone()}
	}
}

func (g *edit) dropPending(producer int64) {
	g.ownPending()
	delete(g.Pending, producer)
	if len(g.Pending) == 0 {
		g.Pending, g.own.pending = nil, false
	}
}

// overrule makes what transactions staged for a partition earlier the offset that was
// committed now: the later wins, also when the transaction commits later on.
func (g *edit) overrule(id projections.TopicID, partition int32, o Offset) {
	if !g.Unstable(id, partition) {
		return
	}
	g.ownPending()
	for _, p := range g.Pending {
		if _, ok := p.Offsets[id][partition]; ok {
			p.Offsets[id][partition] = o
		}
	}
}

// consumer returns the next-generation membership, which may be changed. It is made if
// there is none, and ends a classic one.
func (g *edit) consumer() *Consumer {
	switch {
	case g.Consumer == nil:
		g.Consumer = &Consumer{}
	case !g.own.consumer:
		c := *g.Consumer
		c.Members, c.Target = maps.Clone(c.Members), maps.Clone(c.Target)
		g.Consumer = &c
	}
	g.own.consumer, g.Classic = true, nil
	if g.Consumer.Members == nil {
		g.Consumer.Members = map[string]*ConsumerMember{}
	}
	if g.Consumer.Target == nil {
		g.Consumer.Target = map[string]Assignment{}
	}
	return g.Consumer
}

func (o Offsets) clone() Offsets {
	out := make(Offsets, len(o))
	for id, t := range o {
		out[id] = maps.Clone(t)
	}
	return out
}

// put sets an offset of offsets that may be changed.
func (o Offsets) put(id projections.TopicID, partition int32, v Offset) {
	if o[id] == nil {
		o[id] = map[int32]Offset{}
	}
	o[id][partition] = v
}

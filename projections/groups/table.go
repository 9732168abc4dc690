package groups

import (
	"cmp"
	"slices"
	"sort"
)

// table holds groups by ID in chunks, ascending: an immutable value. A change makes a new
// list of chunks and new chunks where something changed, so that it costs about the
// square root of the number of groups; no chunk is empty.
type table struct {
	chunks []*chunk
	size   int
}

// chunk are groups by ID. That it is a pointer makes the list of chunks, which every change
// copies, a third as long.
type chunk []*Group

// chunkMost is the most groups of a chunk.
const chunkMost = 256

// change puts a group into a table, or takes it out where it is nil.
type change struct {
	id    string
	group *Group
}

// newTable makes a table of groups that are in order, and keeps the slice.
func newTable(gs []*Group) table { return table{split(nil, gs), len(gs)} }

func (t table) get(id string) *Group {
	k := t.chunkOf(id)
	if k < 0 {
		return nil
	}
	if i, ok := search(*t.chunks[k], id); ok {
		return (*t.chunks[k])[i]
	}
	return nil
}

// chunkOf returns the chunk that the ID is in if it is in any, -1 if it is below all.
func (t table) chunkOf(id string) int {
	return sort.Search(len(t.chunks), func(i int) bool { return t.first(i) > id }) - 1
}

func (t table) first(chunk int) string { return (*t.chunks[chunk])[0].ID }

func search(gs []*Group, id string) (int, bool) {
	return slices.BinarySearchFunc(gs, id, func(g *Group, id string) int { return cmp.Compare(g.ID, id) })
}

func (t table) all(yield func(*Group) bool) {
	for _, c := range t.chunks {
		for _, g := range *c {
			if !yield(g) {
				return
			}
		}
	}
}

// with returns the table after changes that are in order, one to an ID.
func (t table) with(changes []change) table {
	out := table{make([]*chunk, 0, len(t.chunks)+1), t.size}
	next := 0 // chunk that is not in out yet
	for len(changes) > 0 {
		k := max(t.chunkOf(changes[0].id), 0)
		out.chunks = append(out.chunks, t.chunks[next:k]...)
		n := len(changes)
		if k+1 < len(t.chunks) {
			above := t.first(k + 1)
			n = sort.Search(n, func(i int) bool { return changes[i].id >= above })
		}
		var old chunk
		if k < len(t.chunks) {
			old = *t.chunks[k]
		}
		gs := edited(old, changes[:n])
		out.size += len(gs) - len(old)
		out.chunks = split(out.chunks, gs)
		next, changes = k+1, changes[n:]
	}
	if next < len(t.chunks) {
		out.chunks = append(out.chunks, t.chunks[next:]...)
	}
	return out
}

// edited is a chunk with changes made to it, a new slice.
func edited(old chunk, changes []change) chunk {
	gs := append(make(chunk, 0, len(old)+1), old...)
	at := 0 // changes ascend
	for _, c := range changes {
		i, ok := search(gs[at:], c.id)
		at += i
		switch {
		case ok && c.group != nil:
			gs[at] = c.group
		case ok:
			gs = slices.Delete(gs, at, at+1)
		case c.group != nil:
			gs = slices.Insert(gs, at, c.group)
		}
	}
	return gs
}

// split appends groups as chunks, even ones where they are more than one chunk may have.
// Few groups join the chunk before, so that deletions leave no trail of small chunks.
func split(chunks []*chunk, gs chunk) []*chunk {
	if n := len(chunks); n > 0 && len(*chunks[n-1])+len(gs) <= chunkMost/2 {
		both := slices.Concat(*chunks[n-1], gs)
		chunks[n-1] = &both
		return chunks
	}
	for pieces := (len(gs) + chunkMost - 1) / chunkMost; pieces > 0; pieces-- {
		n := (len(gs) + pieces - 1) / pieces
		c := slices.Clip(gs[:n])
		chunks, gs = append(chunks, &c), gs[n:]
	}
	return chunks
}

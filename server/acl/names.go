package acl

import (
	"slices"

	"kaas.dev/kaas/projections"
)

// names keeps something for names of resources, by what ACLs name: one, all with a prefix, or
// all.
type names[V any] struct {
	literal, prefix map[string]V
	lengths         []int // of the prefixes, ascending
	all             V
}

// add changes what is kept for the names of an ACL.
func (n *names[V]) add(e *entry, change func(V) V) {
	switch {
	case e.everything():
		n.all = change(n.all)
	case e.Pattern == projections.ACLPrefixed:
		if n.prefix == nil {
			n.prefix = map[string]V{}
		}
		n.prefix[e.Name] = change(n.prefix[e.Name])
		if at, ok := slices.BinarySearch(n.lengths, len(e.Name)); !ok {
			n.lengths = slices.Insert(n.lengths, at, len(e.Name))
		}
	default:
		if n.literal == nil {
			n.literal = map[string]V{}
		}
		n.literal[e.Name] = change(n.literal[e.Name])
	}
}

// rights are operations that are allowed and denied.
type rights struct{ allow, deny int32 }

func (r rights) and(s rights) rights { return rights{r.allow | s.allow, r.deny | s.deny} }

// of is what is kept for a name.
func of[V any](n *names[V], name string, and func(V, V) V) V {
	v := n.all
	if x, ok := n.literal[name]; ok {
		v = and(v, x)
	}
	for _, l := range n.lengths {
		if l > len(name) {
			break
		}
		if x, ok := n.prefix[name[:l]]; ok {
			v = and(v, x)
		}
	}
	return v
}

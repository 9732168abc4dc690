package history

import (
	"cmp"
)

// Object is a thing in a state, in a few plain values, as diff and show tell of it.
type Object struct {
	Kind   string  `json:"kind"`
	Name   string  `json:"name"`
	Of     string  `json:"of,omitempty"` // the topic or the group that it is of
	Fields []Field `json:"fields"`
}

// Field is a value of an object: a string, a number or a bool.
type Field struct {
	Name  string `json:"name"`
	Value any    `json:"value"`
}

// Action is what happened to an object between two states.
type Action string

// The actions.
const (
	Added   Action = "added"
	Removed Action = "removed"
	Changed Action = "changed"
)

// Change is what is different about an object. Of one that was added or removed it has all
// fields.
type Change struct {
	Kind   string        `json:"kind"`
	Name   string        `json:"name"`
	Of     string        `json:"of,omitempty"`
	Action Action        `json:"action"`
	Fields []FieldChange `json:"fields,omitempty"`
}

// FieldChange is a value before and after; nil where there was none.
type FieldChange struct {
	Name string `json:"name"`
	Old  any    `json:"old,omitempty"`
	New  any    `json:"new,omitempty"`
}

// part is some of a state that changes as one: a few objects. States that follow one
// another share most of theirs, so parts are compared before their objects are made.
type part struct {
	rank   int    // kinds of parts, in the order in which they are told
	key    string // orders the parts of a rank
	id     any    // comparable; equal ids are equal parts; nil compares with nothing
	value  any
	expand func(value any, n Namer) []Object
}

func (p *part) compare(q *part) int {
	return cmp.Or(cmp.Compare(p.rank, q.rank), cmp.Compare(p.key, q.key))
}

// Objects are what is in the state, by kind.
func (s State) Objects() []Object {
	n := s.Stream.names
	var out []Object
	for _, p := range s.Stream.parts(s.Fold, n) {
		out = append(out, p.expand(p.value, n)...)
	}
	return out
}

// Diff is what changed from one state of a stream to another of the same, by kind.
func Diff(a, b State) []Change {
	if a.Fold == b.Fold {
		return nil
	}
	n := b.Stream.names
	from, to := a.Stream.parts(a.Fold, n), b.Stream.parts(b.Fold, n)
	var out []Change
	for len(from) > 0 || len(to) > 0 {
		c := 0
		switch {
		case len(to) == 0:
			c = -1
		case len(from) == 0:
			c = 1
		default:
			c = from[0].compare(&to[0])
		}
		var old, now []Object
		same := c == 0 && from[0].id != nil && from[0].id == to[0].id
		if c == 0 && !same {
			from[0].value, to[0].value = narrowed(from[0].value, to[0].value)
		}
		if c <= 0 {
			if !same {
				old = from[0].expand(from[0].value, n)
			}
			from = from[1:]
		}
		if c >= 0 {
			if !same {
				now = to[0].expand(to[0].value, n)
			}
			to = to[1:]
		}
		out = append(out, diffObjects(old, now)...)
	}
	return out
}

type objectKey struct{ kind, name string }

// diffObjects tells first what was removed, then the rest in the order of now.
func diffObjects(old, now []Object) (out []Change) {
	if len(old) == 0 && len(now) == 0 {
		return nil
	}
	before := make(map[objectKey]*Object, len(old))
	for i := range old {
		before[objectKey{old[i].Kind, old[i].Name}] = &old[i]
	}
	there := make(map[objectKey]bool, len(now))
	for i := range now {
		there[objectKey{now[i].Kind, now[i].Name}] = true
	}
	for i := range old {
		if o := &old[i]; !there[objectKey{o.Kind, o.Name}] {
			out = append(out, Change{o.Kind, o.Name, o.Of, Removed, diffFields(o.Fields, nil)})
		}
	}
	for i := range now {
		o := &now[i]
		b := before[objectKey{o.Kind, o.Name}]
		if b == nil {
			out = append(out, Change{o.Kind, o.Name, o.Of, Added, diffFields(nil, o.Fields)})
		} else if fs := diffFields(b.Fields, o.Fields); len(fs) > 0 {
			out = append(out, Change{o.Kind, o.Name, o.Of, Changed, fs})
		}
	}
	return out
}

func diffFields(old, now []Field) (out []FieldChange) {
	before := make(map[string]any, len(old))
	for _, f := range old {
		before[f.Name] = f.Value
	}
	for _, f := range now {
		if b, ok := before[f.Name]; !ok || b != f.Value {
			out = append(out, FieldChange{f.Name, b, f.Value})
		}
		delete(before, f.Name)
	}
	for _, f := range old {
		if _, gone := before[f.Name]; gone {
			out = append(out, FieldChange{Name: f.Name, Old: f.Value})
		}
	}
	return out
}

package acl

import (
	"strings"
	"sync"

	"kaas.dev/kaas/projections"
)

// Subject is a principal on a host, with what he may do in one view. A nil one may do
// everything.
type Subject struct {
	view   *View
	who    who
	super  bool
	by     [projections.ACLUser + 1]names[rights]
	all    *Subject // what everybody may do who comes from there; nil for everybody
	some   sync.Map // bool by asked: what AllowsSome has found
	weight int64
}

type asked struct {
	op Operation
	r  Resource
}

// have is what is said of somebody and of everybody about a resource.
func (s *Subject) have(r Resource, name string) rights {
	have := of(&s.by[r], name, rights.and)
	if s.all != nil {
		have = have.and(of(&s.all.by[r], name, rights.and))
	}
	return have
}

// View is what the subject was made of; nil for a nil one.
func (s *Subject) View() *View {
	if s == nil {
		return nil
	}
	return s.view
}

// Who is the same, and comparable, for whoever is the same and was made of the same view.
func (s *Subject) Who() any {
	if s == nil {
		return nil
	}
	return struct {
		view *View
		who  who
	}{s.view, s.who}
}

// Allows decides on one operation with one resource.
func (s *Subject) Allows(op Operation, r Resource, name string) bool {
	if s == nil || s.super {
		return true
	}
	have := s.have(r, name)
	switch bit := int32(1) << op; {
	case have.deny&bit != 0:
		return false
	case have.allow&bit != 0:
		return true
	}
	return s.view.opt.AllowIfNone && !s.view.hasFor(r, name)
}

// Operations are those that are allowed with a resource, of those that it supports, as bits
// of their numbers.
func (s *Subject) Operations(r Resource, name string) (bits int32) {
	supported := Supported(r)
	for op := Read; op <= TwoPhaseCommit; op++ {
		if bit := int32(1) << op; supported&bit != 0 && s.Allows(op, r, name) {
			bits |= bit
		}
	}
	return bits
}

// AllowsSome reports whether there may be a resource of a type with which an operation is
// allowed. Like Kafka it looks at what ACLs are for, and does not know which resources there
// are: an ACL that allows counts unless one that denies covers all that it is for, and only
// ACLs for the operation itself, or for all, count.
func (s *Subject) AllowsSome(op Operation, r Resource) bool {
	if s.Allows(op, r, "hardcode") { // what Kafka asks for super users, and everybody
		return true
	}
	if found, ok := s.some.Load(asked{op, r}); ok {
		return found.(bool)
	}
	found := s.allowsSome(op, r)
	s.some.Store(asked{op, r}, found)
	return found
}

func (s *Subject) allowsSome(op Operation, r Resource) bool {
	var allowed []*entry
	denied := map[string]bool{}
	literal, all, none := map[string]bool{}, false, false
	s.view.each(s.who, func(e *entry) bool {
		switch {
		case e.Resource != r || e.Operation != op && e.Operation != projections.ACLAll:
		case e.allows():
			all = all || e.everything()
			allowed = append(allowed, e)
		case e.everything():
			none = true
		case e.Pattern == projections.ACLPrefixed:
			denied[e.Name] = true
		default:
			literal[e.Name] = true
		}
		return true
	})
	if none || all {
		return !none
	}
	for _, e := range allowed {
		if !(e.Pattern == projections.ACLLiteral && literal[e.Name]) && !covered(denied, e.Name) {
			return true
		}
	}
	return false
}

// covered reports whether a prefix of a name is among some.
func covered(prefixes map[string]bool, name string) bool {
	for i := range len(name) {
		if prefixes[name[:i+1]] {
			return true
		}
	}
	return false
}

// Rule says what a decision rests on, for the audit log.
func (s *Subject) Rule(op Operation, r Resource, name string) string {
	if s == nil || s.super {
		return "SuperUser"
	}
	allows, bit := s.Allows(op, r, name), int32(1)<<op
	rule, have := "DefaultDeny", s.have(r, name).deny
	if allows {
		rule, have = "DefaultAllow", s.have(r, name).allow
	}
	if have&bit == 0 { // there is none, which need not be looked for
		return rule
	}
	s.view.each(s.who, func(e *entry) bool {
		if e.Resource == r && e.allows() == allows && covers(e.Operation, allows)&bit != 0 && e.names(name) {
			rule = e.String()
			return false
		}
		return true
	})
	return rule
}

// names reports whether the entry is for a resource of that name.
func (e *entry) names(name string) bool {
	if e.Pattern == projections.ACLPrefixed {
		return strings.HasPrefix(name, e.Name)
	}
	return e.everything() || e.Name == name
}

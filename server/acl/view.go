package acl

import (
	"net/netip"
	"sync"
	"sync/atomic"

	"kaas.dev/kaas/projections"
	"kaas.dev/kaas/server/auth"
)

// Options are what an authorizer is configured with.
type Options struct {
	SuperUsers map[auth.Principal]bool // may do everything
	// AllowIfNone allows everybody everything with a resource that no ACL is for.
	AllowIfNone bool
}

// View is what ACLs come to. It is made by New.
type View struct {
	acls *projections.ACLs
	opt  Options
	by   map[auth.Principal][]entry
	// restricted are principals for whom it matters where they come from; for the others one
	// subject does for all hosts.
	restricted map[auth.Principal]bool
	// named are the resources that there are ACLs for; only for AllowIfNone.
	named [projections.ACLUser + 1]names[bool]

	subjects sync.Map     // *Subject by who
	kept     atomic.Int64 // what those weigh
}

type who struct {
	principal auth.Principal
	host      netip.Addr
}

// New makes the view of some ACLs.
func New(acls *projections.ACLs, opt Options) *View {
	v := &View{acls: acls, opt: opt, by: map[auth.Principal][]entry{}, restricted: map[auth.Principal]bool{}}
	for _, a := range acls.All() {
		e, p := newEntry(a), principalOf(a)
		v.by[p] = append(v.by[p], e)
		if !e.anyHost {
			v.restricted[p] = true
		}
		if opt.AllowIfNone {
			v.named[a.Resource].add(&e, func(bool) bool { return true })
		}
	}
	return v
}

// ACLs are what the view was made of.
func (v *View) ACLs() *projections.ACLs { return v.acls }

// mostKept bounds what the subjects that a view keeps weigh together: about the bytes that
// they take. Further ones are made anew each time they are asked for.
const mostKept = 64 << 20

// Of is what somebody may do who comes from an address.
func (v *View) Of(p auth.Principal, host netip.Addr) *Subject {
	k := who{p, Address(host)}
	if !v.restricted[p] && !v.restricted[everybody] {
		k.host = netip.Addr{}
	}
	if s, ok := v.subjects.Load(k); ok {
		return s.(*Subject)
	}
	s := v.subject(k)
	if v.kept.Add(s.weight) > mostKept {
		v.kept.Add(-s.weight)
		return s
	}
	have, already := v.subjects.LoadOrStore(k, s)
	if already {
		v.kept.Add(-s.weight)
	}
	return have.(*Subject)
}

// subject works out what somebody may do: what is for him, over what is for everybody.
func (v *View) subject(k who) *Subject {
	s := &Subject{view: v, who: k, super: v.opt.SuperUsers[k.principal], weight: subjectBytes}
	if s.super {
		return s
	}
	if k.principal != everybody {
		s.all = v.Of(everybody, k.host)
	}
	v.eachOf(k.principal, k.host, func(e *entry) bool {
		s.weight += rightsBytes
		s.by[e.Resource].add(e, func(r rights) rights {
			if covered := covers(e.Operation, e.allows()); e.allows() {
				r.allow |= covered
			} else {
				r.deny |= covered
			}
			return r
		})
		return true
	})
	return s
}

// What a subject, and each of its names, take of mostKept, roughly.
const subjectBytes, rightsBytes = 1 << 10, 64

// each calls f for every entry that is about somebody, until it returns false.
func (v *View) each(k who, f func(*entry) bool) {
	if v.eachOf(k.principal, k.host, f) && k.principal != everybody { // once, if that is his name
		v.eachOf(everybody, k.host, f)
	}
}

// eachOf is each for what is said of a principal itself, and reports whether f went on.
func (v *View) eachOf(p auth.Principal, host netip.Addr, f func(*entry) bool) bool {
	for i := range v.by[p] {
		if e := &v.by[p][i]; e.from(host) && !f(e) {
			return false
		}
	}
	return true
}

// hasFor reports whether any ACL is for a resource.
func (v *View) hasFor(r Resource, name string) bool {
	return of(&v.named[r], name, func(a, b bool) bool { return a || b })
}

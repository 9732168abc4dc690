package acl

import (
	"strings"

	"kaas.dev/kaas/projections"
)

// Filter chooses ACLs. Any is any; so is a nil string.
type Filter struct {
	Resource        Resource
	Pattern         projections.ACLPattern // or any, or what matches the name
	Name            *string
	Principal, Host *string
	Operation       Operation
	Permission      projections.ACLPermission
}

// Known reports whether all that the filter is about is known.
func (f *Filter) Known() bool {
	return f.Resource.Known() && f.Pattern.Known() && f.Operation.Known() && f.Permission.Known()
}

// Matches reports whether an ACL is chosen.
func (f *Filter) Matches(a projections.ACL) bool {
	return (f.Resource == projections.ACLAnyResource || f.Resource == a.Resource) &&
		(f.Operation == projections.ACLAnyOperation || f.Operation == a.Operation) &&
		(f.Permission == projections.ACLAnyPermission || f.Permission == a.Permission) &&
		(f.Principal == nil || *f.Principal == a.Principal) &&
		(f.Host == nil || *f.Host == a.Host) && f.matchesName(a)
}

func (f *Filter) matchesName(a projections.ACL) bool {
	switch {
	case f.Pattern != projections.ACLAnyPattern && f.Pattern != projections.ACLMatch && f.Pattern != a.Pattern:
		return false
	case f.Name == nil || *f.Name == a.Name && f.Pattern != projections.ACLMatch:
		return true
	case f.Pattern != projections.ACLMatch:
		return false
	case a.Pattern == projections.ACLPrefixed:
		return strings.HasPrefix(*f.Name, a.Name)
	}
	return *f.Name == a.Name || a.Name == projections.ACLWildcard
}

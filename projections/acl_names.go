package projections

import (
	"fmt"
	"slices"
)

// Kafka's names by number. The first of each is what nothing known has.
var (
	aclResources   = []string{"UNKNOWN", "ANY", "TOPIC", "GROUP", "CLUSTER", "TRANSACTIONAL_ID", "DELEGATION_TOKEN", "USER"}
	aclPatterns    = []string{"UNKNOWN", "ANY", "MATCH", "LITERAL", "PREFIXED"}
	aclPermissions = []string{"UNKNOWN", "ANY", "DENY", "ALLOW"}
	aclOperations  = []string{"UNKNOWN", "ANY", "ALL", "READ", "WRITE", "CREATE", "DELETE", "ALTER", "DESCRIBE", "CLUSTER_ACTION",
		"DESCRIBE_CONFIGS", "ALTER_CONFIGS", "IDEMPOTENT_WRITE", "CREATE_TOKENS", "DESCRIBE_TOKENS", "TWO_PHASE_COMMIT"}
)

func nameOf(names []string, n int8) string {
	if n < 0 || int(n) >= len(names) {
		n = 0
	}
	return names[n]
}

// parseName is the number of a name.
func parseName[N ~int8](names []string, text []byte, n *N) error {
	i := slices.Index(names, string(text))
	if i < 0 {
		return fmt.Errorf("%.40q is none of %v", text, names)
	}
	*n = N(i)
	return nil
}

func (r ACLResource) String() string   { return nameOf(aclResources, int8(r)) }
func (p ACLPattern) String() string    { return nameOf(aclPatterns, int8(p)) }
func (o ACLOperation) String() string  { return nameOf(aclOperations, int8(o)) }
func (p ACLPermission) String() string { return nameOf(aclPermissions, int8(p)) }

// Known reports whether a number is one of those that have a name.
func (r ACLResource) Known() bool { return r > 0 && int(r) < len(aclResources) }

// Known reports whether a number is one of those that have a name.
func (p ACLPattern) Known() bool { return p > 0 && int(p) < len(aclPatterns) }

// Known reports whether a number is one of those that have a name.
func (o ACLOperation) Known() bool { return o > 0 && int(o) < len(aclOperations) }

// Known reports whether a number is one of those that have a name.
func (p ACLPermission) Known() bool { return p > 0 && int(p) < len(aclPermissions) }

// In events, states and JSON they stand by name.

func (r ACLResource) MarshalText() ([]byte, error)   { return []byte(r.String()), nil }
func (p ACLPattern) MarshalText() ([]byte, error)    { return []byte(p.String()), nil }
func (o ACLOperation) MarshalText() ([]byte, error)  { return []byte(o.String()), nil }
func (p ACLPermission) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

func (r *ACLResource) UnmarshalText(b []byte) error   { return parseName(aclResources, b, r) }
func (p *ACLPattern) UnmarshalText(b []byte) error    { return parseName(aclPatterns, b, p) }
func (o *ACLOperation) UnmarshalText(b []byte) error  { return parseName(aclOperations, b, o) }
func (p *ACLPermission) UnmarshalText(b []byte) error { return parseName(aclPermissions, b, p) }

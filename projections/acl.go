package projections

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
)

// What an ACL is about, in Kafka's numbers and names.
type (
	// ACLResource is a type of resources.
	ACLResource int8
	// ACLPattern is how an ACL names resources.
	ACLPattern int8
	// ACLOperation is what is done with a resource.
	ACLOperation int8
	// ACLPermission is whether it may be done.
	ACLPermission int8
)

// Types of resources. Any is for filters alone.
const (
	ACLAnyResource ACLResource = iota + 1
	ACLTopic
	ACLGroup
	ACLCluster
	ACLTransactionalID
	ACLDelegationToken
	ACLUser
)

// Patterns. Those above literal match nothing by themselves: any and match are for filters.
const (
	ACLAnyPattern ACLPattern = iota + 1
	ACLMatch
	ACLLiteral
	ACLPrefixed
)

// Operations. Any is for filters alone; all is every operation there is.
const (
	ACLAnyOperation ACLOperation = iota + 1
	ACLAll
	ACLRead
	ACLWrite
	ACLCreate
	ACLDelete
	ACLAlter
	ACLDescribe
	ACLClusterAction
	ACLDescribeConfigs
	ACLAlterConfigs
	ACLIdempotentWrite
	ACLCreateTokens
	ACLDescribeTokens
	ACLTwoPhaseCommit
)

// Permissions. Any is for filters alone.
const (
	ACLAnyPermission ACLPermission = iota + 1
	ACLDeny
	ACLAllow
)

const (
	// ACLWildcard is, as a literal name, any resource, and as a host any host.
	ACLWildcard = "*"
	// ACLEverybody is the principal that is everybody.
	ACLEverybody = "User:*"
	// ACLClusterName is the one name of the resource that is the cluster.
	ACLClusterName = "kafka-cluster"
)

// ACL allows a principal an operation on the resources that it names, or denies it.
type ACL struct {
	Resource   ACLResource   `msgpack:"resource" json:"resource"`
	Pattern    ACLPattern    `msgpack:"pattern" json:"pattern"`
	Name       string        `msgpack:"name" json:"name"`
	Principal  string        `msgpack:"principal" json:"principal"` // TYPE:NAME
	Host       string        `msgpack:"host" json:"host"`           // an address, a range in CIDR's notation, or the wildcard
	Operation  ACLOperation  `msgpack:"operation" json:"operation"`
	Permission ACLPermission `msgpack:"permission" json:"permission"`
}

// String is the ACL in one line.
func (a ACL) String() string {
	return fmt.Sprintf("%s %s %s %s:%s:%s from %s", a.Principal, a.Permission, a.Operation, a.Resource, a.Pattern, a.Name, a.Host)
}

func (a ACL) compare(b ACL) int {
	return cmp.Or(cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Pattern, b.Pattern),
		cmp.Compare(a.Principal, b.Principal), cmp.Compare(a.Host, b.Host), cmp.Compare(a.Operation, b.Operation),
		cmp.Compare(a.Permission, b.Permission))
}

// size is what the ACL takes of MaxACLBytes.
func (a ACL) size() int { return len(a.Name) + len(a.Principal) + len(a.Host) }

// MaxACLString bounds each string of an ACL: longer ones would not fit every version of
// every answer.
const MaxACLString = 1<<15 - 1

// Validate judges an ACL that is to be made, as Kafka does. Errors wrap kerr.InvalidRequest.
func (a ACL) Validate() error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s", kerr.InvalidRequest, fmt.Sprintf(format, args...))
	}
	switch {
	case a.Resource < ACLTopic || a.Resource > ACLUser:
		return bad("invalid resource type %s", a.Resource)
	case a.Pattern != ACLLiteral && a.Pattern != ACLPrefixed:
		return bad("invalid pattern type %s", a.Pattern)
	case a.Operation < ACLAll || a.Operation > ACLTwoPhaseCommit:
		return bad("invalid operation %s", a.Operation)
	case a.Permission != ACLDeny && a.Permission != ACLAllow:
		return bad("invalid permission type %s", a.Permission)
	case a.Name == "":
		return bad("the resource's name is empty")
	case a.Resource == ACLCluster && a.Name != ACLClusterName:
		return bad("the only valid name for the cluster is %s", ACLClusterName)
	case !strings.Contains(a.Principal, ":"):
		return bad("principal %.100q has no colon between its type and its name", a.Principal)
	case a.Host == "":
		return bad("the host is empty")
	case max(len(a.Name), len(a.Principal), len(a.Host)) > MaxACLString:
		return bad("a name is longer than %d bytes", MaxACLString)
	}
	if strings.Contains(a.Host, "/") {
		if _, err := ParseHostRange(a.Host); err != nil {
			return bad("host %.100q is no range of addresses", a.Host)
		}
	}
	return nil
}

// errHostRange is a range that holds what IPv4 in IPv6 is, and more.
var errHostRange = errors.New("a range of IPv4 in IPv6 is of 96 bits at least")

// ParseHostRange reads addresses in CIDR's notation. The bits that the range leaves open may
// be set in its address. A range of IPv4 in IPv6 is one of IPv4, which hosts are compared as.
func ParseHostRange(s string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(s)
	if err == nil && p.Addr().Is4In6() {
		if p.Bits() < 96 {
			return netip.Prefix{}, errHostRange
		}
		p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	return p.Masked(), err
}

// The bounds of all ACLs together.
const (
	MaxACLs     = 100_000
	MaxACLBytes = 16 << 20 // of their strings
)

// ACLs are those of a view: a value that never changes, so that views with the same ACLs
// mostly have the same pointer.
type ACLs struct {
	all   []ACL // in order, each once
	bytes int
}

var noACLs = new(ACLs)

// All are the ACLs in order, to be read only.
func (s *ACLs) All() []ACL { return s.all }

// Len is how many there are.
func (s *ACLs) Len() int { return len(s.all) }

// Has reports whether there is such an ACL.
func (s *ACLs) Has(a ACL) bool {
	_, ok := slices.BinarySearchFunc(s.all, a, ACL.compare)
	return ok
}

// Fits is an error where no more may be added. It wraps kerr.PolicyViolation.
func (s *ACLs) Fits(added []ACL) error {
	bytes := s.bytes
	for _, a := range added {
		bytes += a.size()
	}
	switch {
	case len(s.all)+len(added) > MaxACLs:
		return fmt.Errorf("%w: there would be more than %d ACLs", kerr.PolicyViolation, MaxACLs)
	case bytes > MaxACLBytes:
		return fmt.Errorf("%w: the names of all ACLs would take more than %d bytes", kerr.PolicyViolation, MaxACLBytes)
	}
	return nil
}

// with are these and others.
func (s *ACLs) with(added []ACL) *ACLs {
	if !slices.ContainsFunc(added, func(a ACL) bool { return !s.Has(a) }) {
		return s
	}
	out := slices.Concat(s.all, added)
	slices.SortFunc(out, ACL.compare)
	return newACLs(slices.Compact(out))
}

// without are these but for some.
func (s *ACLs) without(gone []ACL) *ACLs {
	if !slices.ContainsFunc(gone, s.Has) {
		return s
	}
	leave := make(map[ACL]bool, len(gone))
	for _, a := range gone {
		leave[a] = true
	}
	return newACLs(slices.DeleteFunc(slices.Clone(s.all), func(a ACL) bool { return leave[a] }))
}

// setACLs has ACLs be there or not.
func (d *draft) setACLs(acls []ACL, there bool) {
	if d.acl == nil {
		d.acl = make(map[ACL]bool, len(acls))
	}
	for _, a := range acls {
		d.acl[a] = there
	}
}

// settleACLs puts the batch's ACLs into the view.
func (d *draft) settleACLs() {
	var added, gone []ACL
	for a, there := range d.acl {
		if there {
			added = append(added, a)
		} else {
			gone = append(gone, a)
		}
	}
	d.acls, d.acl = d.acls.without(gone).with(added), nil
}

// newACLs are those of a list in order.
func newACLs(all []ACL) *ACLs {
	if len(all) == 0 {
		return noACLs
	}
	s := &ACLs{all: all}
	for _, a := range all {
		s.bytes += a.size()
	}
	return s
}

// ACLs are what the cluster's authorizer goes by, never nil.
func (c *Cluster) ACLs() *ACLs { return c.acls }

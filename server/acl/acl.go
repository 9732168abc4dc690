package acl

import (
	"net/netip"
	"strings"

	"kaas.dev/kaas/projections"
	"kaas.dev/kaas/server/auth"
)

// Short names for what the projections call by longer ones.
type (
	Operation = projections.ACLOperation
	Resource  = projections.ACLResource
)

// The operations that something is asked for.
const (
	Read            = projections.ACLRead
	Write           = projections.ACLWrite
	Create          = projections.ACLCreate
	Delete          = projections.ACLDelete
	Alter           = projections.ACLAlter
	Describe        = projections.ACLDescribe
	ClusterAction   = projections.ACLClusterAction
	DescribeConfigs = projections.ACLDescribeConfigs
	AlterConfigs    = projections.ACLAlterConfigs
	IdempotentWrite = projections.ACLIdempotentWrite
	TwoPhaseCommit  = projections.ACLTwoPhaseCommit
	CreateTokens    = projections.ACLCreateTokens
	DescribeTokens  = projections.ACLDescribeTokens
)

// The types of resources.
const (
	Topic           = projections.ACLTopic
	Group           = projections.ACLGroup
	Cluster         = projections.ACLCluster
	TransactionalID = projections.ACLTransactionalID
	DelegationToken = projections.ACLDelegationToken
	User            = projections.ACLUser
)

// ClusterName is the name of the cluster as a resource.
const ClusterName = projections.ACLClusterName

// Supported are the operations that a resource of a type knows, as bits of their numbers
// (KIP-430).
func Supported(r Resource) int32 {
	switch r {
	case Topic:
		return ops(Read, Write, Create, Describe, Delete, Alter, DescribeConfigs, AlterConfigs)
	case Group:
		return ops(Read, Describe, Delete, DescribeConfigs, AlterConfigs)
	case Cluster:
		return ops(Create, ClusterAction, DescribeConfigs, AlterConfigs, IdempotentWrite, Alter, Describe)
	case TransactionalID:
		return ops(Describe, Write, TwoPhaseCommit)
	case DelegationToken:
		return ops(Describe)
	case User:
		return ops(CreateTokens, DescribeTokens)
	}
	return 0
}

func ops(list ...Operation) (bits int32) {
	for _, op := range list {
		bits |= 1 << op
	}
	return bits
}

const everyOp = ^int32(0)

// covers are the operations that an ACL for op allows, or denies.
func covers(op Operation, allow bool) int32 {
	switch {
	case op == projections.ACLAll:
		return everyOp
	case allow && (op == Read || op == Write || op == Delete || op == Alter):
		return ops(op, Describe)
	case allow && op == AlterConfigs:
		return ops(op, DescribeConfigs)
	}
	return ops(op)
}

// entry is an ACL that is ready to be compared.
type entry struct {
	projections.ACL
	anyHost bool
	hosts   netip.Prefix // unless anyHost; not valid where no address has that name
}

func newEntry(a projections.ACL) entry {
	e := entry{ACL: a, anyHost: a.Host == projections.ACLWildcard}
	if addr, err := netip.ParseAddr(a.Host); err == nil {
		e.hosts = netip.PrefixFrom(Address(addr), Address(addr).BitLen())
	} else if strings.Contains(a.Host, "/") {
		e.hosts, _ = projections.ParseHostRange(a.Host) // none, if it is no range
	}
	return e
}

func (e *entry) from(host netip.Addr) bool { return e.anyHost || e.hosts.Contains(host) }

// allows reports whether the entry allows what it covers; else it denies it.
func (e *entry) allows() bool { return e.Permission == projections.ACLAllow }

// everything reports whether the entry is for all resources of its type.
func (e *entry) everything() bool {
	return e.Pattern == projections.ACLLiteral && e.Name == projections.ACLWildcard
}

// Address is a host's address in the one form that ACLs are compared by.
func Address(a netip.Addr) netip.Addr { return a.Unmap().WithZone("") }

// principalOf is who an ACL is about.
func principalOf(a projections.ACL) auth.Principal {
	kind, name, _ := strings.Cut(a.Principal, ":")
	return auth.Principal{Type: kind, Name: name}
}

var everybody = auth.User("*")

package server

import (
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kerr"

	"kaas.dev/kaas/projections"
	"kaas.dev/kaas/server/acl"
	"kaas.dev/kaas/server/auth"
)

// authorizer is who decides what requests may do, if that is configured. Requests read its
// view without a lock; only who finds that there are other ACLs makes the next one, and the
// others wait for it.
type authorizer struct {
	opt   *acl.Options // nil: everybody may do everything
	view  atomic.Pointer[acl.View]
	build sync.Mutex
	audit *audit
}

func newAuthorizer(cfg *Config, log *slog.Logger) *authorizer {
	a := &authorizer{audit: newAudit(log)}
	if cfg.Authorizer {
		a.opt = &cfg.ACL
	}
	return a
}

// on reports whether there is an authorizer.
func (a *authorizer) on() bool { return a.opt != nil }

// of is the view of some ACLs.
func (a *authorizer) of(acls *projections.ACLs) *acl.View {
	if v := a.view.Load(); v != nil && v.ACLs() == acls {
		return v
	}
	a.build.Lock()
	defer a.build.Unlock()
	v := a.view.Load()
	if v == nil || v.ACLs() != acls {
		v = acl.New(acls, *a.opt)
		a.view.Store(v)
	}
	return v
}

// subject is what a principal may do by the newest view; nil without an authorizer.
func (s *Server) subject(p auth.Principal, host netip.Addr) *acl.Subject {
	if !s.authorizer.on() {
		return nil
	}
	return s.authorizer.of(s.backend.View().ACLs()).Of(p, host)
}

// known is who a connection was last found to be; owned by the reader.
type known struct {
	principal auth.Principal
	subject   *acl.Subject
}

// subject is what whoever is on the connection may do now.
func (c *conn) subject() *acl.Subject {
	if !c.s.authorizer.on() {
		return nil
	}
	v := c.s.authorizer.of(c.s.backend.View().ACLs())
	if c.known.subject.View() != v || c.known.principal != c.principal {
		c.known = known{c.principal, v.Of(c.principal, c.host)}
	}
	return c.known.subject
}

// hostOf is the address that a connection comes from; the zero one if it has none.
func hostOf(nc net.Conn) netip.Addr {
	if a, ok := nc.RemoteAddr().(*net.TCPAddr); ok {
		return acl.Address(a.AddrPort().Addr())
	}
	return netip.Addr{}
}

// may reports whether who asks may do something with a resource, and has the audit log tell
// of it. It is for what is asked for by name.
func (r *request) may(op acl.Operation, res acl.Resource, name string) bool {
	ok := r.subject.Allows(op, res, name)
	if r.subject != nil {
		r.audit(ok, true, op, res, name)
	}
	return ok
}

// sees is may for what is only left out where it is denied: a list is not a trespass.
func (r *request) sees(op acl.Operation, res acl.Resource, name string) bool {
	ok := r.subject.Allows(op, res, name)
	if r.subject != nil {
		r.audit(ok, false, op, res, name)
	}
	return ok
}

// maySome is may for any resource of a type that there may be.
func (r *request) maySome(op acl.Operation, res acl.Resource) bool {
	ok := r.subject.AllowsSome(op, res)
	if r.subject != nil {
		r.audit(ok, true, op, res, "")
	}
	return ok
}

// mayCluster is may for the cluster.
func (r *request) mayCluster(op acl.Operation) bool { return r.may(op, acl.Cluster, acl.ClusterName) }

// seesCluster is sees for the cluster, where there is another way to be allowed the same.
func (r *request) seesCluster(op acl.Operation) bool { return r.sees(op, acl.Cluster, acl.ClusterName) }

// denied is TOPIC_AUTHORIZATION_FAILED where who asks may not do something with a topic.
func (r *request) denied(op acl.Operation, topic string) error {
	if r.may(op, acl.Topic, topic) {
		return nil
	}
	return kerr.TopicAuthorizationFailed
}

// deniedGroup is denied for a group.
func (r *request) deniedGroup(op acl.Operation, group string) error {
	if r.may(op, acl.Group, group) {
		return nil
	}
	return kerr.GroupAuthorizationFailed
}

// deniedTxn is denied for a transactional ID.
func (r *request) deniedTxn(op acl.Operation, id string) error {
	if r.may(op, acl.TransactionalID, id) {
		return nil
	}
	return kerr.TransactionalIDAuthorizationFailed
}

// deniedCluster is denied for the cluster.
func (r *request) deniedCluster(op acl.Operation) error {
	if r.mayCluster(op) {
		return nil
	}
	return kerr.ClusterAuthorizationFailed
}

// nameOr is a topic's name, or what stands for one that there is not.
func nameOr(t *projections.Topic, name string) string {
	if t != nil {
		return t.Name
	}
	return name
}

// clusterOperations are what who asks may do with the cluster, as the answers tell it (KIP-430).
func (r *request) clusterOperations() int32 {
	if !r.mayCluster(acl.Describe) {
		return 0
	}
	return r.subject.Operations(acl.Cluster, acl.ClusterName)
}

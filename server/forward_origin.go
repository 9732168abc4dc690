package server

import (
	"encoding/binary"
	"errors"
	"net/netip"

	"github.com/twmb/franz-go/pkg/kerr"

	"kaas.dev/kaas/server/acl"
	"kaas.dev/kaas/server/auth"
)

// origin is who has sent a request that another broker passes on, as Kafka's envelope tells
// it. It stands in forwardTag: a version, then type and name of the principal and the address
// of the client, each with its length before it.
type origin struct {
	principal auth.Principal
	from      netip.Addr
}

const originVersion = 1

func (o origin) bytes() []byte {
	b := []byte{originVersion}
	from := ""
	if o.from.IsValid() {
		from = o.from.String()
	}
	for _, s := range []string{o.principal.Type, o.principal.Name, from} {
		b = append(binary.AppendUvarint(b, uint64(len(s))), s...)
	}
	return b
}

var errOrigin = errors.New("a forwarded request does not say whose it is")

func parseOrigin(b []byte) (o origin, err error) {
	if len(b) == 0 || b[0] != originVersion {
		return origin{}, errOrigin
	}
	b = b[1:]
	var from string
	for _, s := range []*string{&o.principal.Type, &o.principal.Name, &from} {
		n, size := binary.Uvarint(b)
		if size <= 0 || n > uint64(len(b)-size) {
			return origin{}, errOrigin
		}
		*s, b = string(b[size:size+int(n)]), b[size+int(n):]
	}
	if len(b) > 0 {
		return origin{}, errOrigin
	}
	if from != "" {
		o.from, err = netip.ParseAddr(from)
	}
	return o, err
}

// believe makes a forwarded request that of whom it says it is of. With an authorizer only
// those are believed who may act for the cluster and come by the listener of the brokers; what
// others forward is refused. Without one it makes no difference who somebody is.
func (s *Server) believe(r *request, value []byte) {
	inner := r.conn.listener.Name == s.cfg.InterBroker
	if s.authorizer.on() && !(inner && r.mayCluster(acl.ClusterAction)) {
		r.refused = kerr.ClusterAuthorizationFailed
		return
	}
	o, err := parseOrigin(value)
	switch {
	case err == nil && inner:
		r.principal, r.from = o.principal, acl.Address(o.from)
		r.subject = s.subject(r.principal, r.from)
	case s.authorizer.on(): // from a build that knows of no authorizer
		s.log.Warn("a broker has forwarded a request of nobody: it is refused", "peer", r.conn.nc.RemoteAddr().String(), "err", err)
		r.refused = kerr.ClusterAuthorizationFailed
	}
}

package server

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"

	"kaas.dev/kaas/server/acl"
)

// right is an operation on a type of resources.
type right struct {
	op  acl.Operation
	res acl.Resource
}

// access is what an API asks of those who use it. Every API says exactly one of these.
type access struct {
	// cluster is the operation on the cluster without which nothing is done of what the
	// request asks for: begin sets request.refused, which start has to mind.
	cluster acl.Operation
	// checks are what the handler asks for by itself, part by part.
	checks []right
	// open is why nothing is asked for.
	open string
}

// onCluster is the access of an API that is the cluster's business as a whole.
func onCluster(op acl.Operation) access { return access{cluster: op} }

// checks is the access of an API whose handler asks for rights.
func checks(rs ...right) access { return access{checks: rs} }

// open is the access of an API for everybody.
func open(why string) access { return access{open: why} }

// run starts a request here, unless the whole of it is denied.
func (s *Server) run(ctx context.Context, a *api, r *request) (reply, error) {
	if op := a.access.cluster; op != 0 && r.refused == nil && !r.mayCluster(op) {
		r.refused = kerr.ClusterAuthorizationFailed
	}
	if a.inner {
		s.excuse(r)
	}
	return a.start(s, ctx, r)
}

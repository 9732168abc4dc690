package server

// ListGroups, key 16, versions 0 to 5.
//
// The groups of the shards that this broker owns: who wants all asks every broker. While
// one of them is still being opened the list would be short, and is refused
// (COORDINATOR_LOAD_IN_PROGRESS). States may be chosen from version 4 (KIP-518), kinds of
// groups from version 5 (KIP-848), in letters of any case; what nobody knows matches nothing.

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/coordinator/groupshard"
	"kaas.dev/kaas/server/acl"
)

var listGroupsAPI = api{key: kmsg.ListGroups, min: 0, max: 5, wide: true, access: checks(right{acl.Describe, acl.Cluster}, right{acl.Describe, acl.Group}), start: (*Server).listGroups}

func (s *Server) listGroups(_ context.Context, r *request) (reply, error) {
	req := r.msg.(*kmsg.ListGroupsRequest)
	return s.inGroupTurn(r, func(ctx context.Context) kmsg.Response {
		resp := kmsg.NewPtrListGroupsResponse()
		listed, err := s.listShards(ctx)
		if err != nil {
			resp.ErrorCode = s.groupFailure(kmsg.ListGroups, err)
			return resp
		}
		all := r.seesCluster(acl.Describe)
		for _, g := range listed {
			if (all || r.sees(acl.Describe, acl.Group, g.Group)) && chosen(req.StatesFilter, g.State) && chosen(req.TypesFilter, g.Type) {
				if !r.room(elementBytes + len(g.Group) + len(g.ProtocolType)) {
					break
				}
				o := kmsg.NewListGroupsResponseGroup()
				o.Group, o.ProtocolType, o.GroupState, o.GroupType = g.Group, g.ProtocolType, g.State, g.Type
				resp.Groups = append(resp.Groups, o)
			}
		}
		return resp
	})
}

func chosen(filter []string, s string) bool {
	return len(filter) == 0 || slices.ContainsFunc(filter, func(f string) bool { return strings.EqualFold(f, s) })
}

// listShards is every group of the shards that are served here.
func (s *Server) listShards(ctx context.Context) (out []groupshard.Listed, err error) {
	shards, all := s.backend.GroupShards()
	if !all {
		return nil, kerr.CoordinatorLoadInProgress
	}
	lists, errs := make([][]groupshard.Listed, len(shards)), make([]error, len(shards))
	inParallel(len(shards), func(i int) { lists[i], errs[i] = shards[i].List(ctx) })
	for _, err := range errs {
		if err != nil && !errors.Is(err, kerr.NotCoordinator) { // whoever owns it now lists it
			return nil, err
		}
	}
	return slices.Concat(lists...), nil
}
